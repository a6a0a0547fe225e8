"""Snapshots that come in parts: which parts of one are here, and whether they are the whole.

An agent's full inventory, and the list of what it holds, may be too large for one record. Changed through the world's
journal by life/inventories.py and life/fleet.py.
Holds: an inventory is whole once every part of it is here and the digest over them is the one that each part names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from muster_scheduler.domain.fleet.nodes import Node
from muster_scheduler.domain.fleet.objects import NONE_REPORTED, ReportedObjects

if TYPE_CHECKING:
    from muster_scheduler.domain.fleet.clusters import Profile

MOST_PARTS: Final = 256
DIGEST_BYTES: Final = hashlib.sha256().digest_size
_NAMED: Final = 10  # numbers of missing parts that a sentence names


class SnapshotPart(NamedTuple):
    """Where a record belongs: which snapshot of an agent's start, which part of it, counted from 1, of how many."""

    snapshot: int
    number: int
    total: int


class SnapshotId(NamedTuple):
    """One inventory in parts. Parts with another number of parts or another digest belong to another one."""

    start: int
    sequence: int
    total: int
    digest: bytes


class InventoryPart(NamedTuple):
    """One part of an inventory. checksum: SHA-256 over the bytes in which it came."""

    checksum: bytes
    profile: Profile | None
    nodes: tuple[Node, ...]
    objects: ReportedObjects = NONE_REPORTED


@dataclass(frozen=True, slots=True)
class IncomingInventory:
    """The parts of one inventory that are here, by number."""

    id: SnapshotId
    parts: Mapping[int, InventoryPart]

    def with_part(self, number: int, part: InventoryPart) -> IncomingInventory:
        """The same with one part more."""
        return IncomingInventory(self.id, {**self.parts, number: part})

    @property
    def complete(self) -> bool:
        """Whether every part is here."""
        return len(self.parts) == self.id.total

    @property
    def genuine(self) -> bool:
        """Whether the parts of a complete one are those over which the agent made the digest."""
        checksums = b"".join(self.parts[number].checksum for number in sorted(self.parts))
        return hashlib.sha256(checksums).digest() == self.id.digest

    @property
    def profile(self) -> Profile | None:
        """What the cluster can do, from the part that says it."""
        return next((part.profile for part in self.parts.values() if part.profile is not None), None)

    def objects(self) -> ReportedObjects:
        """All objects of namespaces."""
        found = [self.parts[number].objects for number in sorted(self.parts)]
        named = next((each.named for each in found if each.named is not None), None)
        return ReportedObjects(named, tuple(entry for each in found for entry in each.entries))

    def nodes(self) -> tuple[Node, ...]:
        """All nodes, in the order of the parts.

        Copies: the reader of a report works on its nodes in place, and a transaction that fails is done again.
        """
        return tuple(_copied(node) for number in sorted(self.parts) for node in self.parts[number].nodes)


class HeldParts(NamedTuple):
    """The parts of an agent's list of held assignments that are here.

    since: when parts began to be missing, in microseconds since 1970; lists that are superseded do not change it.
    """

    start: int
    snapshot: int
    total: int
    taken: tuple[int, ...]
    since: int

    @property
    def key(self) -> tuple[int, int]:
        """Which list it is: a later one has a higher key."""
        return self.start, self.snapshot


def missing(total: int, here: Mapping[int, object] | tuple[int, ...]) -> str:
    """Which of `total` parts are not here, for people."""
    numbers = [number for number in range(1, total + 1) if number not in here]
    more = f" and {len(numbers) - _NAMED} more" if len(numbers) > _NAMED else ""
    return f"{', '.join(map(str, numbers[:_NAMED]))}{more} of {total}"


def _copied(node: Node) -> Node:
    return replace(
        node,
        devices=[replace(device, entries=dict(device.entries)) for device in node.devices],
        extra=dict(node.extra),
        foreign_extra=dict(node.foreign_extra),
        entries={},
        used_extra={},
    )

"""A node and its devices: what is there, and what is held.

Called by the inventory (which alone changes nodes) and by whoever asks whether a shape fits (fitting.py).
Holds: what is held of a device is the sum of its entries, nothing else is remembered; a device never serves whole
cards, shares and slices at once; an unhealthy or foreign device serves nothing but stays charged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Final, NamedTuple

from muster_kernel.mig import CARDS, Card
from muster_kernel.quantities import MILLI
from muster_scheduler.domain.asked.requests import Grant, Holder, Kind, Share
from muster_scheduler.domain.asked.terms import HOST_LABEL
from muster_scheduler.domain.fleet.layouts import LayoutChange

UNBOUNDED: Final = 1 << 40
"""The limit of replicas of a node that has none; the sum over many nodes is exact."""


class Mode(StrEnum):
    """What a device serves now."""

    IDLE = "idle"
    WHOLE = "whole"
    SHARED = "shared"
    SLICED = "sliced"
    UNHEALTHY = "unhealthy"
    FOREIGN = "foreign"


class NodeState(Enum):
    """How a node is, as its agent says or an operator orders."""

    READY = "READY"
    CORDONED = "CORDONED"
    DRAINING = "DRAINING"
    NOT_READY = "NOT_READY"
    OUT_OF_SERVICE = "OUT_OF_SERVICE"


class Mig(Enum):
    """What a cluster does with MIG."""

    NONE = "none"
    STATIC = "static"
    DYNAMIC = "dynamic"


class SlotGroup(NamedTuple):
    """Devices or MIG slices of a node that its cluster counts and does not tell apart: units of one resource.

    profile: of the slices; empty: whole devices. memory: bytes of a whole device, 0: not known. units: how many there
    are. foreign: how many of them others hold.
    """

    resource: str
    profile: str
    model: str
    memory: int
    units: int
    foreign: int


@dataclass(slots=True, eq=False)
class Device:
    """One card, known by its UUID. `entries` is the truth; the other amounts follow it (see `tally`).

    packed: its cell in a record of the columns; empty: not made since the last tally.
    """

    uuid: str
    model: str
    memory: int  # bytes; 0: unknown
    slot: int
    healthy: bool = True
    foreign: bool = False
    mig: bool = False
    layout: tuple[tuple[str, int], ...] = ()
    entries: dict[Holder, Share] = field(default_factory=dict)
    free_milli: int = MILLI
    free_bytes: int = 0
    mask: int = 0
    mode: Mode = Mode.IDLE
    packed: bytes = b""

    @property
    def card(self) -> Card | None:
        """Its MIG geometry, or None where the model has none."""
        return CARDS.get(self.model)

    def tally(self) -> None:
        """Recomputes what follows from the entries. Few replicas share a card, so counting anew is cheap and exact."""
        milli, left, mask, mode = MILLI, self.memory, 0, Mode.IDLE
        for _, kind, thousandths, size, _, _, slices in self.entries.values():
            milli -= thousandths
            left -= size
            mask |= slices
            # Two kinds are there at once while one leaves that the other was promised: the card is what it was.
            if kind is Kind.WHOLE or mode is Mode.WHOLE:
                mode = Mode.WHOLE
            elif kind is Kind.SLICE or mode is Mode.SLICED:
                mode = Mode.SLICED
            else:
                mode = Mode.SHARED
        self.free_milli, self.free_bytes, self.mask, self.packed = milli, left, mask, b""
        if not self.healthy:
            mode = Mode.UNHEALTHY
        elif self.foreign:
            mode = Mode.FOREIGN
        self.mode = mode

    @property
    def whole_free(self) -> bool:
        """Whether it can be given as a whole card, or be the first to be shared."""
        return self.mode is Mode.IDLE and not self.mig

    @property
    def share_free(self) -> int:
        """Hundredths of the card still free for portions while it is shared already; 0 otherwise."""
        if self.mode is not Mode.SHARED or self.mig:
            return 0
        by_bytes = self.free_bytes * 100 // self.memory if self.memory else 100
        return max(0, min(self.free_milli // 10, by_bytes))

    def slice_taken(self, profile: str, start: int) -> bool:
        """Whether somebody holds that slice."""
        return any(s.profile == profile and s.start == start for s in self.entries.values())


@dataclass(slots=True, eq=False)
class Node:
    """One node. `key` is (cluster, name); `cpu` and `memory` are what Muster and others may use in all.

    said: the pool that its agent names. `pool` is that one as well, until a label of the node says another.
    said_state, said_deadline: what its agent reports. `state` and `drain_deadline` are what holds: the operator's order
    (`ordered`, by `ordered_by`, until `ordered_deadline`) where there is one and the node is in service (orders.py).
    most_replicas: how many replicas it takes at most. The pods of others are not included.
    layout: the change of its MIG layout that is under way (layouts.py). layout_failure: why the last one failed.
    """

    cluster: str
    name: str
    pool: str
    uid: str = ""
    boot: str = ""
    state: NodeState = NodeState.READY
    cpu: int = 0
    memory: int = 0
    foreign_cpu: int = 0
    foreign_memory: int = 0
    extra: dict[str, int] = field(default_factory=dict)  # named resources that Muster and others may use
    foreign_extra: dict[str, int] = field(default_factory=dict)
    most_replicas: int = UNBOUNDED
    devices: list[Device] = field(default_factory=list)
    slots: int = 0  # anonymous devices
    foreign_slots: int = 0
    slot_model: str = ""
    groups: tuple[SlotGroup, ...] = ()  # as reported; what they offer is in `slots` and `devices` (slots.py)
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[tuple[str, str, str], ...] = ()
    drain_deadline: int = 0
    windows: tuple[tuple[int, int], ...] = ()  # times (from, to) in which it has to be empty, in their order
    tainted: int = 0  # since when it has its present NoExecute taints; 0: it has none
    present: bool = True
    entries: dict[Holder, Grant] = field(default_factory=dict)
    used_cpu: int = 0
    used_memory: int = 0
    used_slots: int = 0
    used_extra: dict[str, int] = field(default_factory=dict)
    ordinal: int = -1
    said: str = ""
    said_state: NodeState | None = None
    said_deadline: int = -1
    ordered: NodeState | None = None
    ordered_by: str = ""
    ordered_deadline: int = 0
    layout: LayoutChange | None = None
    layout_failure: str = ""

    def __post_init__(self) -> None:
        """Of a node that was just reported, its agent alone has spoken."""
        self.said = self.said or self.pool
        if self.said_state is None:
            self.said_state, self.said_deadline = self.state, self.drain_deadline

    @property
    def key(self) -> tuple[str, str]:
        """What identifies it in the fleet."""
        return self.cluster, self.name

    @property
    def free_cpu(self) -> int:
        """Milli-CPU that nobody holds; negative where others took more than there was."""
        return self.cpu - self.foreign_cpu - self.used_cpu

    @property
    def free_memory(self) -> int:
        """Bytes that nobody holds."""
        return self.memory - self.foreign_memory - self.used_memory

    @property
    def free_replicas(self) -> int:
        """How many more replicas it takes, of whatever shape; negative where its limit fell below what it holds."""
        return self.most_replicas - len(self.entries)

    def free_extra(self, name: str) -> int:
        """Units of a named resource that nobody holds; 0 where it has none of it."""
        return self.extra.get(name, 0) - self.foreign_extra.get(name, 0) - self.used_extra.get(name, 0)

    @property
    def free_slots(self) -> int:
        """Anonymous devices that nobody holds."""
        return max(0, self.slots - self.foreign_slots - self.used_slots)

    @property
    def open(self) -> bool:
        """Whether it takes new replicas of anybody; whose, says eligibility.py."""
        return self.present and self.layout is None and (self.state is NodeState.READY or self.draining)

    @property
    def draining(self) -> bool:
        """Whether it has to be empty by a deadline."""
        return self.state is NodeState.DRAINING and self.drain_deadline > 0

    @property
    def closes(self) -> bool:
        """Whether there is a time at which it has to be empty, or was one."""
        return self.draining or bool(self.windows)

    def closing(self, now: int) -> int:
        """When it has to be empty next, or has had to be since; 0: never."""
        starts = [start for start, end in self.windows if end > now][:1]
        return min([*starts, self.drain_deadline] if self.draining else starts, default=0)

    def label(self, key: str) -> str:
        """The value of one of its labels; empty where it has none of that key. A node is its own host everywhere."""
        said = next((value for name, value in self.labels if name == key), "")
        return self.name if key == HOST_LABEL and not said else said

    @property
    def idle(self) -> int:
        """How many whole devices it could give."""
        if self.slots:
            return self.free_slots
        # Spelled out: it is asked of every node that changed, and a generator over `whole_free` costs four times that.
        return [device.mode is Mode.IDLE and not device.mig for device in self.devices].count(True)

    def device(self, uuid: str) -> Device | None:
        """Its device of that UUID."""
        for device in self.devices:
            if device.uuid == uuid:
                return device
        return None

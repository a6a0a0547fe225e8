"""The free capacity of one (cluster, node pool) as columns: one row a node, sixteen device slots a row.

Derived from the books (`Node` and `Device`), which stay the truth: whatever decides reads columns, whatever is charged
goes to the books, and the row is written anew from the node: one `Row`, or many flat records in one call. Read by the
index, the batch kernel, gangs, strategies and room-making; changed by `write_row` and `rewriting.rewrite` (the books
changed) and, on a scratch copy, by `taking.take`.
Columns answer for slices where the cluster makes them on demand; where layouts are fixed, `fleet.fitting.fit` does.
Holds: row n is the n-th node by name; slot s is its s-th device in the order of slots; `differences` proves that every
row equals what the books say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from struct import Struct
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from muster_kernel.mig import CARDS
from muster_scheduler.domain.fleet.nodes import UNBOUNDED, Device, Mode, Node

SLOTS: Final = 16
ABSENT: Final = 0
IDLE: Final = 1
WHOLE: Final = 2
SHARED: Final = 3
SLICED: Final = 4  # a card in MIG mode, also one of which no slice is taken
CLOSED: Final = 5  # unhealthy, foreign, or of a mode that contradicts its MIG switch

Ints32 = NDArray[np.int32]
Ints64 = NDArray[np.int64]
Bools = NDArray[np.bool_]


class NodeType(NamedTuple):
    """What makes two nodes equal to eligibility: all but their names and what is free on them."""

    model: str
    labels: tuple[tuple[str, str], ...]
    taints: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Shapes: [n] by node, [n, 16] by device slot, [n, R] by resource. Amounts are free, `*_total` what is there.

    cpu: milli-CPU; memory, bytes, size: bytes; replicas: how many more the node takes, of whatever shape;
    milli: thousandths of a card; mask: bits of taken MIG memory slices;
    media: bit of each `+me` profile (see `media_bit`) of which the card has its one instance;
    mode: one of the codes above; idle: whole cards that could be given (or free anonymous devices); open: takes new
    replicas; kind: index into `types`; card: index into `cards` of the slot's MIG geometry, -1 without one.
    Negative `cpu`, `memory` and `replicas` are legal: others took more than there was.
    """

    names: tuple[str, ...]
    types: tuple[NodeType, ...]
    resources: tuple[str, ...]
    cpu: Ints64
    memory: Ints64
    replicas: Ints64
    extra: Ints64
    idle: Ints32
    mode: NDArray[np.int8]
    milli: Ints32
    bytes: Ints64
    size: Ints64
    mask: NDArray[np.uint8]
    media: NDArray[np.uint8]
    card: NDArray[np.int8]
    open: Bools
    kind: Ints32
    cpu_total: Ints64
    memory_total: Ints64
    idle_total: Ints32

    def __len__(self) -> int:
        """How many nodes there are."""
        return len(self.names)

    def scratch(self) -> Columns:
        """A copy on which placement may try things: what changes by taking is its own, what does not is shared."""
        return replace(self, **{name: getattr(self, name).copy() for name in TAKEN})


TAKEN: Final = ("cpu", "memory", "replicas", "extra", "idle", "mode", "milli", "bytes", "mask", "media")
CARD_NAMES: Final = tuple(sorted(CARDS))
_CARD_NUMBERS: Final = {name: number for number, name in enumerate(CARD_NAMES)}


class Row(NamedTuple):
    """One node as its row; the tuples have one entry a device."""

    cpu: int
    memory: int
    replicas: int
    idle: int
    open: bool
    cpu_total: int
    memory_total: int
    idle_total: int
    mode: tuple[int, ...]
    milli: tuple[int, ...]
    bytes: tuple[int, ...]
    size: tuple[int, ...]
    mask: tuple[int, ...]
    media: tuple[int, ...]
    card: tuple[int, ...]


def row_of(node: Node) -> Row:
    """What the books say of a node."""
    devices = node.devices[:SLOTS]
    there = sum([device.healthy and not device.foreign and not device.mig for device in devices])
    return Row(
        node.free_cpu,
        node.free_memory,
        node.free_replicas,
        node.idle,
        node.open,
        node.cpu,
        node.memory,
        node.slots or there,
        *(_cells(devices) if devices else _NO_CELLS),
    )


def _cells(devices: list[Device]) -> Iterator[tuple[int, ...]]:
    """The fields of `Row` from `mode` on."""
    yield tuple([_mode(device) for device in devices])
    yield tuple([device.free_milli for device in devices])
    yield tuple([device.free_bytes for device in devices])
    yield tuple([device.memory for device in devices])
    yield tuple([device.mask for device in devices])
    yield tuple([_media(device) for device in devices])
    yield tuple([_CARD_NUMBERS.get(device.model, -1) for device in devices])


_NO_CELLS: Final[tuple[tuple[int, ...], ...]] = ((),) * 7


def record_of(node: Node) -> bytes:
    """What charging and giving back change of a node's row as int64, flat: a head, then one cell a device.

    Head: ordinal, free milli-CPU, free bytes, free replicas, idle devices, devices. Cell: as the fields of `Row` from
    `mode` on.
    """
    devices = node.devices[:SLOTS]
    free = node.free_cpu, node.free_memory, node.free_replicas, node.idle
    head = _HEAD.pack(node.ordinal, *free, len(devices))
    return head + b"".join([device.packed or _pack(device) for device in devices])


def _pack(device: Device) -> bytes:
    media = _media(device) if device.mask else 0
    card = _CARD_NUMBERS.get(device.model, -1)
    cell = _mode(device), device.free_milli, device.free_bytes, device.memory, device.mask, media, card
    device.packed = _CELL.pack(*cell)
    return device.packed


HEAD: Final = 6
CELL: Final = 7
_HEAD: Final = Struct(f"{HEAD}q")
_CELL: Final = Struct(f"{CELL}q")


def _mode(device: Device) -> int:
    if device.mig:
        return SLICED if device.mode in {Mode.IDLE, Mode.SLICED} else CLOSED
    return _MODES[device.mode]


_MODES: Final = {
    Mode.IDLE: IDLE,
    Mode.WHOLE: WHOLE,
    Mode.SHARED: SHARED,
    Mode.SLICED: CLOSED,
    Mode.UNHEALTHY: CLOSED,
    Mode.FOREIGN: CLOSED,
}


def media_bit(card: str, profile: str) -> int:
    """The bit of a `+me` profile, of which a card may have one; 0 for profiles that only their slices bound."""
    known = CARDS.get(card)
    if known is None or profile not in known.profiles or not profile.endswith("+me"):
        return 0
    return 1 << sorted(name for name in known.profiles if name.endswith("+me")).index(profile)


def _media(device: Device) -> int:
    bits = 0
    for share in device.entries.values():
        if share.profile:
            bits |= media_bit(device.model, share.profile)
    return bits


def type_of(node: Node) -> NodeType:
    """The node's type; its host name is left out, or every node would be a type of its own."""
    model = node.devices[0].model if node.devices else node.slot_model
    labels = tuple([label for label in node.labels if label[0] != _HOST_NAME])
    return NodeType(model, labels, node.taints)


_HOST_NAME: Final = "kubernetes.io/hostname"


def columns_of(nodes: Sequence[Node]) -> Columns:
    """Columns of nodes that are sorted by name."""
    each = [type_of(node) for node in nodes]
    types = sorted(set(each))
    made = empty(tuple(node.name for node in nodes), tuple(types))
    numbers = {kind: number for number, kind in enumerate(types)}
    made.kind[:] = [numbers[kind] for kind in each]
    _write_rows(made, [row_of(node) for node in nodes])
    return made


def _write_rows(columns: Columns, rows: list[Row]) -> None:
    """`write_row` of every node of columns that are empty so far, a column at a time."""
    for name in _BY_NODE:
        getattr(columns, name)[:] = [getattr(row, name) for row in rows]
    counts = [len(row.mode) for row in rows]
    at = np.repeat(np.arange(len(rows)), counts), np.array(list(chain.from_iterable(map(range, counts))), np.intp)
    for name, _ in _BY_SLOT:
        getattr(columns, name)[at] = list(chain.from_iterable(getattr(row, name) for row in rows))


def empty(names: tuple[str, ...], types: tuple[NodeType, ...] = ()) -> Columns:
    """Columns of closed nodes that have nothing, without a limit of replicas."""
    n = len(names)
    slots = (n, SLOTS)
    return Columns(
        names,
        types,
        (),
        cpu=np.zeros(n, np.int64),
        memory=np.zeros(n, np.int64),
        replicas=np.full(n, UNBOUNDED, np.int64),
        extra=np.zeros((n, 0), np.int64),
        idle=np.zeros(n, np.int32),
        mode=np.zeros(slots, np.int8),
        milli=np.zeros(slots, np.int32),
        bytes=np.zeros(slots, np.int64),
        size=np.zeros(slots, np.int64),
        mask=np.zeros(slots, np.uint8),
        media=np.zeros(slots, np.uint8),
        card=np.full(slots, -1, np.int8),
        open=np.zeros(n, np.bool_),
        kind=np.zeros(n, np.int32),
        cpu_total=np.zeros(n, np.int64),
        memory_total=np.zeros(n, np.int64),
        idle_total=np.zeros(n, np.int32),
    )


def write_row(columns: Columns, ordinal: int, row: Row) -> None:
    """Puts what the books say of one node into its row."""
    for name in _BY_NODE:
        getattr(columns, name)[ordinal] = getattr(row, name)
    count = len(row.mode)
    for name, nothing in _BY_SLOT:
        column = getattr(columns, name)
        column[ordinal, :count] = getattr(row, name)
        column[ordinal, count:] = nothing


_BY_NODE: Final = ("cpu", "memory", "replicas", "idle", "open", "cpu_total", "memory_total", "idle_total")
_BY_SLOT: Final = (("mode", ABSENT), ("milli", 0), ("bytes", 0), ("size", 0), ("mask", 0), ("media", 0), ("card", -1))


def read_row(columns: Columns, ordinal: int) -> Row:
    """The row of one node as a value."""
    count = int(np.count_nonzero(columns.mode[ordinal]))
    values: dict[str, Any] = {name: getattr(columns, name)[ordinal].item() for name in _BY_NODE}
    values |= {name: tuple(getattr(columns, name)[ordinal, :count].tolist()) for name, _ in _BY_SLOT}
    return Row(**values)


def differences(columns: Columns, nodes: Sequence[Node]) -> Iterator[str]:
    """What rows say otherwise than the books; nothing where all is well."""
    if columns.names != tuple(node.name for node in nodes):
        yield f"columns of {len(columns)} nodes stand for {len(nodes)} others"
        return
    for ordinal, node in enumerate(nodes):
        said, true = read_row(columns, ordinal), row_of(node)
        if said != true:
            yield f"{node.key}: the columns say {said}, the books {true}"
        if columns.types[columns.kind[ordinal]] != type_of(node):
            yield f"{node.key}: the columns take it for {columns.types[columns.kind[ordinal]]}"

"""The index of free capacity of one (cluster, node pool): which nodes are worth an exact test for a shape.

Kept by the inventory after every change of a node, asked by placement. Bitmaps of node ordinals (Python integers) per
quantised free amount, so that a search touches only nodes that have enough devices, tightest first.
Holds: a node that takes no new replicas stands in no bitmap; ordinals follow the nodes' names, so that the order of
candidates depends on the state alone and not on the order in which nodes were reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from muster_kernel.mig import Card
from muster_kernel.quantities import GPU
from muster_scheduler.domain.asked.quotas import Amount
from muster_scheduler.domain.asked.requests import Kind, Role, Shape
from muster_scheduler.domain.asked.terms import Wish
from muster_scheduler.domain.books.idle_trial import Trial
from muster_scheduler.domain.books.kinds import Kinds
from muster_scheduler.domain.deciding.seeking import Seeker
from muster_scheduler.domain.fleet.columns import SLOTS, Columns, columns_of, differences, row_of, write_row
from muster_scheduler.domain.fleet.eligibility import Eligibility
from muster_scheduler.domain.fleet.holdings import Holdings
from muster_scheduler.domain.fleet.leftover import Leftover
from muster_scheduler.domain.fleet.nodes import Mig, Mode, Node
from muster_scheduler.domain.fleet.usable import Usable
from muster_scheduler.domain.journal import Journal
from muster_scheduler.domain.strategies.board import Board
from muster_scheduler.domain.strategies.mix import Mix

_HUNDRED: Final = 100


class Buckets(NamedTuple):
    """Where one node stands: its idle devices (-1: nowhere), the free hundredths of its shared cards, slices or not."""

    idle: int
    shares: frozenset[int]
    sliceable: bool


NOWHERE: Final = Buckets(-1, frozenset(), sliceable=False)


def buckets_of(node: Node) -> Buckets:
    """Where a node belongs."""
    if not node.open:
        return NOWHERE
    idle, sliceable = 0, False
    shares: set[int] = set()
    for device in node.devices:
        if device.mig:
            sliceable = True
        elif device.mode is Mode.IDLE:
            idle += 1
        elif device.mode is Mode.SHARED:
            shares.add(device.share_free)
    shares.discard(0)
    return Buckets(node.free_slots if node.slots else idle, frozenset(shares), sliceable)


def _supply(nodes: list[Node]) -> Amount:
    """What the nodes have for Muster in all, held or not."""
    there = [node for node in nodes if node.present]
    devices = sum(max(0, node.slots - node.foreign_slots) or len(node.devices) for node in there)
    others = sum(1 for node in there for device in node.devices if device.foreign or not device.healthy)
    cpu = sum(max(0, node.cpu - node.foreign_cpu) for node in there)
    return Amount((devices - others) * GPU, cpu, sum(max(0, node.memory - node.foreign_memory) for node in there))


class Capacity:
    """The index of one (cluster, node pool)."""

    __slots__ = (
        "_bits",
        "_cards",
        "_columns",
        "_idle",
        "_journal",
        "_keys",
        "_loose",
        "_seeker",
        "_shared",
        "_sliceable",
        "_stale",
        "_stands",
        "_total",
        "boards",
        "holdings",
        "kinds",
        "largest",
        "leftover",
        "nodes",
        "of_models",
        "supply",
        "trials",
        "usable",
    )

    def __init__(self, journal: Journal, nodes: list[Node]) -> None:
        """Indexes `nodes`, which have to be sorted by name."""
        self._journal = journal
        self.nodes = nodes
        self._keys: list[tuple[str, str]] = []
        self._bits: dict[int, dict[str, int]] = {}  # by ordinal
        self._cards: tuple[tuple[Card, int], ...] | None = None
        self._columns: Columns | None = None
        self._seeker: Seeker | None = None
        self._stale: set[int] = set()  # nodes whose rows are not what the books say ..
        self._loose: set[int] = set()  # .. and those that may stand in the wrong bitmaps
        self.leftover = Leftover(nodes)
        self.holdings = Holdings(nodes)
        self._idle: list[int] = [0]
        self._shared: list[int] = [0] * (_HUNDRED + 1)
        self._sliceable = 0
        self._stands: list[Buckets] = [NOWHERE] * len(nodes)
        self._total = 0
        self.supply = _supply(nodes)
        self.largest = max((device.memory for node in nodes for device in node.devices), default=0)
        self.trials: dict[tuple[tuple[Role, ...], Eligibility, Wish, tuple[str, ...], Mig], Trial] = {}
        self.of_models: dict[tuple[tuple[tuple[Role, ...], ...], Eligibility], bool] = {}
        self.usable = Usable(nodes)
        self.boards: dict[str, tuple[Mix, Board]] = {}  # by strategy, of those that look ahead
        self.kinds: Kinds | None = None  # of classes, for batches
        for ordinal, node in enumerate(nodes):
            node.ordinal = ordinal
            self._move(ordinal, buckets_of(node))

    @property
    def keys(self) -> list[tuple[str, str]]:
        """The nodes' keys by ordinal, each one value for all who stand there."""
        if not self._keys:
            self._keys = [node.key for node in self.nodes]
        return self._keys

    def bits_of(self, node: Node) -> dict[str, int]:
        """By each device of a node the bit of its slot in the columns."""
        known = self._bits.get(node.ordinal)
        if known is None or len(known) != min(len(node.devices), SLOTS):  # one may have been booked meanwhile
            known = {device.uuid: 1 << slot for slot, device in enumerate(node.devices[:SLOTS])}
            self._bits[node.ordinal] = known
        return known

    @property
    def cards(self) -> tuple[tuple[Card, int], ...]:
        """The models of its cards in MIG mode, by name, each with the fewest bytes that one of them reports."""
        if self._cards is None:
            found: dict[str, tuple[Card, int]] = {}
            for device in (device for node in self.nodes for device in node.devices if device.mig):
                card = device.card
                if card is not None:
                    least = found.get(card.model, (card, device.memory))[1]
                    found[card.model] = card, min(least, device.memory)
            self._cards = tuple(found[model] for model in sorted(found))
        return self._cards

    @property
    def columns(self) -> Columns:
        """The pool's columns as the books stand now; to be read only, and read again after any change."""
        if self._columns is None:
            self._columns = columns_of(self.nodes)
        elif self._stale:
            self._renew(self._columns, sorted(self._stale))
        self._stale.clear()
        return self._columns

    def _renew(self, columns: Columns, ordinals: list[int]) -> None:
        """Writes the rows of nodes that changed anew, and tells those who score them."""
        if self._seeker is not None:
            self._seeker.renew(self.nodes[ordinal] for ordinal in ordinals)
        else:
            for ordinal in ordinals:
                write_row(columns, ordinal, row_of(self.nodes[ordinal]))
        for _, board in self.boards.values():
            for ordinal in ordinals:
                board.changed(ordinal)

    @property
    def seeker(self) -> Seeker:
        """Who finds the node for one replica, over the columns as the books stand now."""
        columns = self.columns
        if self._seeker is None:
            self._seeker = Seeker(columns)
        return self._seeker

    def prepare(self) -> None:
        """Makes what searches read now: five microseconds a node that the next cycle need not wait for."""
        _ = self.seeker, self.keys

    def update(self, node: Node) -> None:
        """Puts a node where it belongs now; undone with the journal."""
        # All of it is done when it is next read: many changes of a node cost one, an undo no more than a change does.
        self._mark(node.ordinal)
        self._journal.note(self._mark, node.ordinal)

    def written(self, ordinals: Sequence[int]) -> None:
        """As `update` of many nodes whose rows say already what they hold."""
        changed = set(ordinals)
        self._mark_many(changed)
        self._stale -= changed
        self._journal.note(self._mark_many, changed)

    def _mark(self, ordinal: int) -> None:
        self._stale.add(ordinal)
        self._loose.add(ordinal)
        self.leftover.mark(ordinal)
        self.holdings.mark(ordinal)

    def _mark_many(self, ordinals: set[int]) -> None:
        self._stale |= ordinals
        self._loose |= ordinals
        self.leftover.mark_many(ordinals)
        self.holdings.mark_many(ordinals)

    def _settle(self) -> None:
        """Has every node stand in the bitmaps where it belongs now."""
        for ordinal in self._loose:
            now = buckets_of(self.nodes[ordinal])
            if now != self._stands[ordinal]:
                self._move(ordinal, now)
        self._loose.clear()

    @property
    def total(self) -> int:
        """How many devices are idle on nodes that are open."""
        self._settle()
        return self._total

    def _move(self, ordinal: int, to: Buckets) -> None:
        bit = 1 << ordinal
        before = self._stands[ordinal]
        if before.idle >= 0:
            self._idle[before.idle] &= ~bit
            self._total -= before.idle
        for free in before.shares:
            self._shared[free] &= ~bit
        while len(self._idle) <= to.idle:
            self._idle.append(0)
        if to.idle >= 0:
            self._idle[to.idle] |= bit
            self._total += to.idle
        for free in to.shares:
            self._shared[free] |= bit
        self._sliceable = self._sliceable | bit if to.sliceable else self._sliceable & ~bit
        self._stands[ordinal] = to

    def room_for(self, devices: int, replicas: int) -> bool:
        """Whether so many replicas would find so many idle devices each, whatever else they need."""
        self._settle()
        found = 0
        for idle in range(len(self._idle) - 1, devices - 1, -1):
            found += self._idle[idle].bit_count() * (idle // devices)
            if found >= replicas:
                return True
        return False

    def candidates(self, shape: Shape, *, emptiest: bool = False) -> Iterator[Node]:
        """Nodes that may hold one replica of `shape`, the one that it fills best first. A node may come twice.

        emptiest: the one with the most left first instead, an idle card before a shared one.
        """
        self._settle()
        bitmaps = self._bitmaps(shape)
        for bitmap in reversed(tuple(bitmaps)) if emptiest else bitmaps:
            left = bitmap
            while left:
                lowest = left & -left
                left ^= lowest
                yield self.nodes[lowest.bit_length() - 1]

    def _bitmaps(self, shape: Shape) -> Iterator[int]:
        match shape.kind:
            case Kind.NONE:
                yield from self._idle
            case Kind.WHOLE:
                yield from self._idle[shape.devices :]
            case Kind.PORTION if shape.devices == 1:
                yield from self._shared[shape.milli // 10 :]
                yield from self._idle[1:]
            case Kind.PORTION | Kind.MEMORY:
                yield from self._shared[1:]
                yield from self._idle[1:]
            case Kind.SLICE:
                yield self._sliceable

    def check(self) -> None:
        """The index says what the nodes say."""
        self._settle()
        for ordinal, node in enumerate(self.nodes):
            if node.ordinal != ordinal:
                raise AssertionError(f"{node.key} believes to be number {node.ordinal}, it is {ordinal}")
            if self._stands[ordinal] != buckets_of(node):
                raise AssertionError(f"{node.key} stands at {self._stands[ordinal]}, should at {buckets_of(node)}")
        wrong = next(differences(self.columns, self.nodes), None)
        if wrong is not None:
            raise AssertionError(wrong)
        if self._seeker is not None:
            self._seeker.check()
        idle = sum(bucket.bit_count() * n for n, bucket in enumerate(self._idle))
        if idle != self.total:
            raise AssertionError(f"{self.total} idle devices counted, the bitmaps have {idle}")
        self.leftover.check()

"""The engine of one pool: who waits, what is free, what queues may take, and `propose`, which decides.

Pure: no clock, no protobuf; time is part of the asks. Called by whoever owns the books. Every change can be undone up
to a mark until it is forgotten; `check` proves the derived against the truth, `digest` names the state.
Holds: the same state gives the same decisions, whatever was tried and undone before; a class that was refused is tried
again only after a node, a queue or an account that it could use has changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import compress
from typing import Any, Final

import numpy as np

from muster_scheduler.domain.deciding.accounts import charge
from muster_scheduler.domain.deciding.batch import Outcome, decide, outcome_for, undo
from muster_scheduler.domain.deciding.index import BINPACK, displace, index_of, most_idle, place, shift
from muster_scheduler.domain.deciding.line import Line, Spot
from muster_scheduler.domain.deciding.shapes import QUEUE
from muster_scheduler.domain.deciding.standing import Standing
from muster_scheduler.domain.deciding.values import Ask, Code, Decision, QueueSpec, Refusal
from muster_scheduler.domain.fleet.columns import SLOTS, Bools, Columns, Row, read_row, write_row

_SWEEP_EVERY: Final = 1_024  # forgotten classes are looked for after so many releases
_decision: Callable[[tuple[Any, ...]], Decision] = partial(tuple.__new__, Decision)


class Engine:
    """One (cluster, node pool). `columns` belong to the engine from now on."""

    def __init__(self, columns: Columns, eligible: Bools | None = None, strategy: int = BINPACK) -> None:
        """Begins with nobody waiting. eligible: bool[eligibilities, n], the first row all true."""
        self.columns = columns
        everyone = np.ones((1, len(columns)), np.bool_)
        self.index = index_of(columns, everyone if eligible is None else eligible, strategy)
        self._eligible, self._strategy = everyone if eligible is None else eligible, strategy
        self.line = Line()
        self.standing = Standing()
        self.held: dict[str, Decision] = {}
        self.position = 0
        self._grown = 0  # the position at which a node last got freer
        self._eased = 0  # the position at which a quota or an account last got freer
        self._stirred = True
        self._log: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._released = 0

    # -- changes -----------------------------------------------------------------------------------------------------

    def put_queues(self, specs: Sequence[QueueSpec]) -> None:
        """Takes queues as they stand now; ValueError for a tree that is none. Forgets all marks."""
        self.standing.put(specs)
        self.line.aim(self.standing.rows)
        self._log.clear()
        self._ease()

    def put_row(self, node: int, row: Row) -> None:
        """A node is as its row says now: reported anew, or changed by work that the engine did not place."""
        before = read_row(self.columns, node)
        self._write(node, row)
        self._log.append((self._write, (node, before)))

    def _write(self, node: int, row: Row) -> None:
        if min(SLOTS, max(row.idle_total, row.idle)) > most_idle(self.index):
            write_row(self.columns, node, row)
            self.index = index_of(self.columns, self._eligible, self._strategy)
        else:
            displace(self.index, node)
            write_row(self.columns, node, row)
            place(self.index, node)
            self.index.largest[0] = max(self.index.largest[0], *row.size, 0)
        self._grow()

    def add(self, ask: Ask) -> None:
        """An ask waits from now on. ValueError for one that does already, or whose queue is unknown."""
        if ask.queue not in self.standing.rows or self.standing.tree.children[self.standing.rows[ask.queue]]:
            raise ValueError(f"{ask.id} asks in {ask.queue!r}, which is no queue that workloads stand in")
        if ask.id in self.held:
            raise ValueError(f"{ask.id} has its place already")
        self.line.add(ask)
        number = self.line.spots[ask.id][3]
        self.line.shapes[number, QUEUE] = self.standing.rows[ask.queue]
        self._stirred = self._stirred or self.line.refused[number] is None
        self._log.append((self._leave, (ask.id,)))

    def remove(self, name: str) -> None:
        """An ask waits no more; one that does not wait stays out."""
        if name in self.line.spots:
            self._log.append((self._enter, (self.line.leave(name),)))

    def release(self, name: str) -> None:
        """What a decision gave is free again; a name that holds nothing stays without."""
        decision = self.held.pop(name, None)
        if decision is None:
            return
        self._shift(decision, 1)
        self.line.places[decision.shape] -= 1
        self._log.append((self._take, (decision,)))
        self._released += 1

    def _take(self, decision: Decision) -> None:
        self.held[decision.id] = decision
        self.line.places[decision.shape] += 1
        self._shift(decision, -1)

    def _shift(self, decision: Decision, sign: int) -> None:
        shape = self.line.shapes[decision.shape]
        shift(self.index, shape, decision.node, decision.mask, decision.start, sign)
        charge(self.standing.tree, shape, decision.units, -sign)
        self._grow()
        self._ease()

    def _leave(self, name: str) -> None:
        self.line.leave(name)

    def _enter(self, spot: Spot) -> None:
        self.line.enter(spot)
        self._stirred = True

    def _grow(self) -> None:
        self.position += 1
        self._grown, self._stirred = self.position, True

    def _ease(self) -> None:
        self.position += 1
        self._eased, self._stirred = self.position, True

    # -- deciding ----------------------------------------------------------------------------------------------------

    def propose(self, visits: int = 1_000_000, most: int = 65_536) -> list[Decision]:
        """Decides until nothing is left to try or the budget is spent, and charges what it decided.

        visits: exact tests of nodes; most: members of one class that are looked at. Where either ends first, the next
        call goes on.
        """
        if self.quiet:
            return []
        classes = len(self.line.keys)
        self.standing.share(self.columns, self.line.shapes[:classes], self.line.counts[:classes])
        spots, heads = self.line.batch(self._worth(), len(self.standing.names), most)
        outcome = outcome_for(len(spots), classes)
        count, left = decide(self.index, self.standing.tree, self.line.shapes, heads, outcome, visits)
        self.position += 1
        self._stirred = left <= 0 or bool((self.line.counts > most).any())
        self._refuse(outcome)
        return self._settle(spots, outcome, count)

    @property
    def quiet(self) -> bool:
        """Whether nothing has changed that a waiting ask could use: `propose` would decide nothing."""
        return not self._stirred

    def _worth(self) -> Iterator[int]:
        """The classes worth a try, by number."""
        line = self.line
        for number in np.flatnonzero((line.counts > 0) & (line.shapes[:, QUEUE] >= 0)).tolist():
            refusal = line.refused[number]
            if refusal is None or self._changed(refusal):
                line.refused[number] = None
                yield number

    def _changed(self, refusal: Refusal) -> bool:
        return refusal.position < (self._grown if refusal.code is Code.NO_ROOM else self._eased)

    def _refuse(self, outcome: Outcome) -> None:
        for number in np.flatnonzero(outcome.refused[:, 0]).tolist():
            code, queue, resource, held, allowed, asked = outcome.refused[number].tolist()
            name = self.standing.names[queue] if code != Code.NO_ROOM else ""
            self.line.refused[number] = Refusal(Code(code), name, resource, held, allowed, asked, self.position)

    def _settle(self, spots: list[Spot], outcome: Outcome, count: int) -> list[Decision]:
        placed = outcome.placed[:count]
        chosen = [spots[row] for row in placed[:, 0].tolist()]
        names = [spot[2] for spot in chosen]
        columns = (column.tolist() for column in placed[:, 1:].T)
        decisions = list(map(_decision, zip(names, *columns, outcome.units[:count].tolist(), strict=True)))
        self.held.update(zip(names, decisions, strict=True))
        self.line.settle(chosen, placed[:, 1])
        if count:
            self._log.append((self._unsettle, (chosen, outcome, count)))
        return decisions

    def _unsettle(self, chosen: list[Spot], outcome: Outcome, count: int) -> None:
        undo(self.index, self.standing.tree, self.line.shapes, outcome, count)
        for spot in chosen:
            del self.held[spot[2]]
        self.line.unsettle(chosen)
        self._grow()
        self._ease()

    def why(self, name: str) -> Refusal | None:
        """Why an ask waits; None where it does not wait or was not tried yet."""
        spot = self.line.spots.get(name)
        return self.line.refused[spot[3]] if spot else None

    # -- undoing -----------------------------------------------------------------------------------------------------

    def mark(self) -> int:
        """A point to which `rollback` can return until `forget` or `put_queues`."""
        return len(self._log)

    def rollback(self, mark: int = 0) -> None:
        """Undoes everything after the mark, newest first."""
        while len(self._log) > mark:
            step, arguments = self._log.pop()
            step(*arguments)

    def forget(self) -> None:
        """What has been done stays."""
        self._log.clear()
        if self._released >= _SWEEP_EVERY:
            self._released = 0
            self.line.sweep()

    # -- proving -----------------------------------------------------------------------------------------------------

    def digest(self) -> str:
        """Names the state: what is free, what is held, who waits, what queues hold. Refusals are derived: left out."""
        said = hashlib.sha256()
        for column in self.index.rows:
            said.update(column.tobytes())
        for amounts in (self.standing.tree.allocated, self.standing.tree.bound):
            said.update(amounts.tobytes())
        keys = self.line.keys
        said.update(repr(sorted((name, spot[:2], keys[spot[3]]) for name, spot in self.line.spots.items())).encode())
        said.update(repr(sorted((name, keys[d.shape], d[2:]) for name, d in self.held.items())).encode())
        return said.hexdigest()

    def check(self) -> None:
        """Raises AssertionError where the index or the accounts are not what rows and decisions say."""
        fresh = index_of(self.columns, self._eligible, self._strategy, most_idle(self.index))
        for name in ("idle", "shared", "sliced"):
            for kept, made in zip(getattr(self.index, name), getattr(fresh, name), strict=True):
                if not np.array_equal(kept, made):
                    raise AssertionError(f"the index of {name} is not what the rows say")
        self._check_accounts()

    def _check_accounts(self) -> None:
        tree = self.standing.tree
        held = np.zeros_like(tree.allocated)
        blank = tree._replace(allocated=held, bound=np.zeros_like(held))
        for decision in self.held.values():
            charge(blank, self.line.shapes[decision.shape], decision.units, 1)
        if not np.array_equal(held, tree.allocated) or not np.array_equal(blank.bound, tree.bound):
            raise AssertionError(f"queues hold {tree.allocated.tolist()}, their decisions {held.tolist()}")
        open_rows = list(compress(range(len(self.columns)), (self.columns.cpu < 0).tolist()))
        if any(decision.node in open_rows for decision in self.held.values()):
            raise AssertionError(f"nodes {open_rows} have less than nothing left")

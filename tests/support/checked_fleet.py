"""A fleet that is watched: every transaction is done twice, by those who follow too, and held against the laws.

Used by the state machine. Beside the state itself there may be a follower, read from the tables at some moment, and a
twin in a process without a compiler; both are told all that the state is told and have to decide the same.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Coroutine, Sequence
from itertools import takewhile
from typing import Any, TypeVar

from muster_kernel.reasons import WaitingReason
from muster_scheduler.adapters.following import Follower
from muster_scheduler.adapters.postgres import PostgresStore
from muster_scheduler.adapters.rebuild import load
from muster_scheduler.domain import decisions as d
from muster_scheduler.domain import events
from muster_scheduler.domain.books.course import gone
from muster_scheduler.domain.fleet.clusters import Profile
from muster_scheduler.domain.fleet.nodes import Node
from muster_scheduler.domain.life.elastic import shed
from muster_scheduler.domain.placement.place import Budget
from muster_scheduler.domain.state import State
from tests.support import machine_laws as laws
from tests.support.fleets import Fleet
from tests.support.machine_shapes import LIMITS
from tests.support.plain_twin import Step, Twin, act, decide
from tests.support.scheduler_tables import Tables, TablesUnit

_RETIRED_AFTER = 6 * 60 * 1_000_000
_T = TypeVar("_T")


class Checked(Fleet):
    """A fleet that does every transaction twice: aborted, then committed, with the same decisions."""

    def __init__(self, *nodes: Node, profile: Profile, quota: int, twin: Twin | None = None) -> None:
        self.tables = Tables()
        self.follower: State | None = None
        self.standby: Follower | None = None
        self._told_alike = True  # whether the follower told people the same, which is in the truth
        self._twin = twin
        self._patient: set[str] = set()  # who fitted, when all were tried again, as soon as others have left
        self._truth = ""  # its digest after the last transaction
        self._seen: tuple[int, str, int] | None = None  # what was judged last: the state, its truth and its time
        if twin is not None:
            twin.begin()
        super().__init__(*nodes, profile=profile, quota=quota, limits=LIMITS)

    def rebuild(self) -> None:
        """Goes on with what the tables say."""
        self.state = self._read()

    def follow(self) -> None:
        """Has a second state, of what the tables say, decide along from now on."""
        self.follower, self._told_alike = self._read(), True

    def stand_by(self, *, lead: bool) -> None:
        """A standby reads what was written since it looked last. lead: it goes on, and is the leader from now on."""
        now = self.state.world.now
        if self.standby is None:
            self.standby = asyncio.run(Follower.read(self.tables, LIMITS, now))  # type: ignore[arg-type]
        asyncio.run(self.standby.advance(self.tables, now))  # type: ignore[arg-type]
        state = self.standby.state
        state.check()
        assert state.digest() == self._truth, "a standby knows something else than the tables say"
        if lead:
            self._keep_clocks(state)
            self.state, self.standby = state, None

    def _read(self) -> State:
        made = asyncio.run(load(self.tables, LIMITS, self.state.world.now))  # type: ignore[arg-type]
        made.check()
        assert made.digest() == self._truth, "the tables say something else than memory"
        self._keep_clocks(made)
        return made

    def _keep_clocks(self, made: State) -> None:
        for cluster in made.world.clusters.values():
            cluster.fresh = self.state.world.clusters[cluster.id].fresh

    def send(self, *incoming: events.Event, budget: Budget | None = None) -> list[d.Decision]:
        step = Step(self.now, incoming)
        copied = self._tell(step)  # before the state takes the nodes of an inventory for its own
        promised, kept = frozenset(self.state.world.claims), frozenset(self.state.world.reserved)
        first = act(self.state, step)
        self._abort()
        second = act(self.state, step)
        self._write()
        assert firm(first) == firm(second), "the same events were decided differently"
        laws.quotas_kept(self.state.world, second, promised)
        laws.evicted_for_somebody(self.state.world, second)
        laws.in_the_first_cluster(self.state.world, second, promised, frozenset(pool for _, pool in kept))
        laws.wishes_kept(self.state.world)
        self.decisions += second
        self._commit()
        self.state.check()
        self._compare(copied, second)
        return second

    def retire(self) -> None:
        """Some minutes later: what is over leaves the memory."""
        step = Step(self.now + _RETIRED_AFTER, (), retire=True)
        copied = self._tell(step)
        made = act(self.state, step)
        self._write()
        self._commit()
        self.now = max(self.now, self.state.world.now)
        self._compare(copied, made)

    def _tell(self, step: Step) -> bytes:
        copied = pickle.dumps(step)
        if self._twin is not None:
            self._twin.tell(copied)
        return copied

    def _write(self) -> None:
        unit: Any = TablesUnit(self.tables)
        driven(PostgresStore().write(unit, self.state.plan(), self.state.world))

    def _compare(self, step: bytes, decided: list[d.Decision]) -> None:
        """The follower and the twin, told the same, decide the same and end in the same truth."""
        if self.follower is not None:
            told: Step = pickle.loads(step)  # noqa: S301 - pickled here
            followed = act(self.follower, told)
            assert firm(followed) == firm(decided), "a standby decides otherwise"
            self.follower.commit()
            if not told.retire:  # no cycle: who is due is not in the queue yet
                self.follower.check()
            self._told_alike = self._told_alike and followed == decided
            assert not self._told_alike or self.follower.digest() == self._truth, "a standby's truth differs"
        if self._twin is not None:
            assert self._twin.answer() == repr(firm(decided)), "without a compiler it decides otherwise"

    def seen(self) -> bool:
        """Whether nothing has changed since this was asked last, so that laws of the state hold as they did."""
        known, self._seen = self._seen, (id(self.state), self._truth, self.state.world.now)
        return known == self._seen

    def tried_again(self) -> list[d.Decision]:
        """What a cycle would decide if it looked at every class again; nothing of it stays."""
        self.state.begin(self.now)
        self.state.world.waiting.wake_all()
        decide(self.state)
        made = list(self.state.plan().decisions)
        waiting = self.state.world.waiting
        reasons = ((each, waiting.reason(each)) for each in self.state.world.workloads)
        self._patient = {each for each, reason in reasons if reason and reason.code is WaitingReason.CLAIM}
        self._abort()
        return made

    def tried_without_surplus(self) -> list[d.Decision]:
        """Who would be placed if no gang had more replicas than it needs; nothing of it stays.

        Asked after `tried_again`. Left out are those who fit as soon as others have left who are leaving already, and
        who comes after a claim: it may stand where nodes were kept for the one that has its claim now.
        """
        world = self.state.world
        gangs = [w for _, w in sorted(world.workloads.items()) if w.active and w.surplus()]
        if not gangs:
            return []
        self.state.begin(self.now)
        for workload in gangs:
            before = set(workload.leaving)  # somebody may have been promised the room of those
            shed(world, workload, len(workload.surplus()))
            for replica in [each for holder, each in workload.leaving.items() if holder not in before]:
                gone(world, workload, replica)
        world.waiting.wake_all()
        decide(self.state)
        made = takewhile(lambda each: not isinstance(each, d.Claimed), list(self.state.plan().decisions))
        self._abort()
        return [each for each in made if isinstance(each, d.Placed) and each.workload not in self._patient]

    def _commit(self) -> None:
        self.state.commit()
        self._truth = self.state.digest()

    def _abort(self) -> None:
        self.state.abort()
        assert not self._truth or self.state.digest() == self._truth, "an abort left a trace, or somebody asked and did"


def firm(decisions: Sequence[d.Decision]) -> list[d.Decision]:
    """All but what people are told while nothing changes: a rebuilt queue looks at once at what the other skips."""
    return [one for one in decisions if not isinstance(one, d.Waiting | d.Queued)]


def driven(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """What a coroutine returns that never waits: an event loop a step would cost as much as the step."""
    try:
        coroutine.send(None)
    except StopIteration as over:
        return over.value  # type: ignore[no-any-return]
    raise AssertionError("it waits for something")

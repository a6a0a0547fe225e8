"""Batches decide what the cycle decides head by head: same decisions, same order, same books; compiled or not."""

from __future__ import annotations

import copy
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from muster_kernel.quantities import GPU
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.quotas import Line, Quota
from muster_scheduler.domain.asked.requests import Role, Shape
from muster_scheduler.domain.asked.workloads import SECOND, Request, Stretch, Trials, WorkloadKind
from muster_scheduler.domain.books.pools import NodePool, Strategy
from muster_scheduler.domain.books.queues import Department, Project
from muster_scheduler.domain.deciding import batch, seeking
from muster_scheduler.domain.fleet.clusters import Profile
from muster_scheduler.domain.fleet.nodes import UNBOUNDED, Mig, Node, NodeState
from muster_scheduler.domain.placement.place import Budget
from muster_scheduler.domain.state import State
from muster_scheduler.domain.turning import batching
from tests.support.deciding_oracle import plain
from tests.support.fleets import (
    GIB,
    START,
    device_memory,
    devices,
    host,
    mig_slice,
    node,
    portion,
    request,
    role,
    whole,
    workload_id,
)

PROJECTS = ("p", "q", "r", "d")  # the last has a department's name
POOLS = ("one", "two")
PLAIN: Any = plain("deciding.batch")[0].decide

SHAPES = st.sampled_from(
    [
        host(1000),
        host(1000),
        host(1020, 2 * GIB),
        whole(1),
        whole(1),
        whole(2),
        portion(330),
        portion(500, 2),
        device_memory(9 * GIB + 1),
        mig_slice("3g.40gb"),
        mig_slice("1g.10gb"),
        Shape(100, GIB, extra=(("licence", 1),)),
    ]
)
LINES = st.builds(
    Line,
    st.none() | st.integers(0, 20).map(lambda n: n * 1000),
    st.none() | st.integers(2, 30).map(lambda n: n * 1000),
    st.sampled_from([0, 1000, 3000]),
)
BYTES = st.builds(
    Line,
    st.none() | st.sampled_from([0, 10 * GIB, 1 << 43, (1 << 43) + 7]),
    st.none() | st.integers(2, 60).map(lambda n: n * GIB),
    st.just(1000),
)
QUOTAS = st.builds(
    Quota,
    st.integers(0, 12).map(lambda n: n * GPU),
    st.none() | st.integers(0, 20).map(lambda n: n * GPU),
    st.sampled_from([0, 1000, 2000]),
    LINES,
    BYTES,
)


@st.composite
def nodes(draw: st.DrawFn) -> list[Node]:
    """Nodes of two pools in one cluster or two, of all kinds."""
    made = []
    for number in range(draw(st.integers(1, 14))):
        cluster = draw(st.sampled_from(["c1", "c1", "c1", "c2"]))
        mig = draw(st.integers(0, 3)) == 0
        cards = devices(f"{cluster}-{number}", draw(st.integers(0, 4)), mig=mig)
        for card in cards:
            card.healthy = draw(st.integers(0, 9)) > 0
        slots = draw(st.sampled_from([0, 0, 0, 6]))
        each = node(
            f"n{number:02}",
            cluster=cluster,
            pool=draw(st.sampled_from(["one", "one", "one", "two"])),
            cpu=draw(st.sampled_from([2_000, 8_000, 8_040, 32_000])),
            memory=draw(st.sampled_from([4 * GIB, 64 * GIB, 1 << 43])),
            state=NodeState.READY if draw(st.integers(0, 9)) else NodeState.CORDONED,
            slots=slots,
            cards=[] if slots else cards,
        )
        each.most_replicas = draw(st.sampled_from([UNBOUNDED, UNBOUNDED, UNBOUNDED, 0, 1, 3]))
        each.taints = draw(st.sampled_from([(), (), (), (("k", "v", "PreferNoSchedule"),)]))
        each.windows = draw(st.sampled_from([(), (), (), ((START + 7200 * SECOND, START + 9000 * SECOND),)]))
        made.append(each)
    return made


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """Mostly one replica in one pool; the others are for the cycle alone."""
    asked = request(
        Role("worker", draw(st.sampled_from([1] * 9 + [2])), shape := draw(SHAPES), role(shape).charge),
        priority=draw(st.sampled_from([50, 50, 50, 75])),
        preemptible=draw(st.sampled_from([True, True, False])),
        pools=draw(st.sampled_from([("one",), ("one",), ("one",), ("two",), ("one", "two"), ("two", "one")])),
        kind=draw(st.sampled_from([WorkloadKind.TRAINING] * 4 + [WorkloadKind.INFERENCE])),
    )
    if asked.kind is WorkloadKind.TRAINING and asked.roles[0].size == 1:
        asked = asked._replace(trials=draw(st.sampled_from([None] * 7 + [Trials(3, 2)])))
    if asked.kind is WorkloadKind.TRAINING and asked.trials is None:
        least = asked.roles[0].size
        asked = asked._replace(stretch=draw(st.sampled_from([None] * 7 + [Stretch("worker", least, least + 2)])))
    return asked


class Told:
    """What a scheduler is told first, then in transactions; and the visits of a cycle. Its repr is short."""

    def __init__(self, first: list[events.Event], later: list[list[events.Event]], visits: int) -> None:
        self.first, self.later, self.visits = first, later, visits

    def __repr__(self) -> str:
        return f"{sum(map(len, self.later))} workloads"


@st.composite
def tales(draw: st.DrawFn) -> Told:
    """A fleet, its queues, and workloads that arrive in a few bursts."""
    fleet = draw(nodes())
    first: list[events.Event] = [events.ClusterRegistered(cluster) for cluster in ("c1", "c2")]
    for name in ("d", "e"):
        quota = {pool: draw(QUOTAS) for pool in POOLS if draw(st.booleans())}
        first.append(events.DepartmentChanged(Department(name, quota, 0, rank=draw(st.integers(0, 1)))))
    for name in PROJECTS:
        quota = {pool: draw(QUOTAS) for pool in POOLS}
        department = draw(st.sampled_from(["d", "e", ""]))
        first.append(events.ProjectChanged(Project(name, department, quota, 0)))
    cpu = draw(st.sampled_from([Strategy.BINPACK, Strategy.BINPACK, Strategy.SPREAD]))
    gpu = draw(st.sampled_from([Strategy.BINPACK, Strategy.BINPACK, Strategy.SPREAD, Strategy.FGD]))
    first.append(events.NodePoolChanged(NodePool(1, "c1", "one", 1, gpu, cpu)))
    for at, cluster in enumerate(("c1", "c2"), 1):
        order = events.Order(f"agent-{cluster}", 1, at, START + at)
        here = tuple(each for each in fleet if each.cluster == cluster)
        first.append(events.InventoryReported(cluster, order, True, 1, Profile(mig=Mig.DYNAMIC), here, ()))
    kinds = draw(st.lists(requests(), min_size=1, max_size=4))
    later: list[list[events.Event]] = [[] for _ in range(draw(st.integers(1, 3)))]
    for number in range(draw(st.integers(1, 60))):
        asked, project = draw(st.sampled_from(kinds)), draw(st.sampled_from(PROJECTS))
        user = draw(st.sampled_from(["me", "you"]))
        submitted = START + draw(st.integers(0, 3))
        later[number % len(later)].append(
            events.Admitted(workload_id(number), project, "d", "ns", f"w{number}", user, submitted, True, asked)
        )
    return Told(first, later, draw(st.sampled_from([20_000, 20_000, 7])))


def lived(told: Told, *, aborting: bool = False) -> tuple[list[object], list[str]]:
    """All decisions, and the digest after each transaction. aborting: each is tried and undone once before."""
    state, decisions, digests = State(), list[object](), list[str]()
    for at, incoming in enumerate([told.first, *told.later, [], []]):
        now = START + at * SECOND
        if aborting and at:
            _begin(state, now, incoming)
            state.propose(Budget(told.visits))
            state.abort()
            state.check()
        _begin(state, now, incoming)
        unfinished = state.propose(Budget(told.visits))
        decisions += [unfinished, *state.plan().decisions]
        state.commit()
        state.check()
        digests.append(state.digest())
    return decisions, digests


def _begin(state: State, now: int, incoming: list[events.Event]) -> None:
    state.begin(now)
    for event in copy.deepcopy(incoming):  # whoever is told of a node changes it
        state.apply(event)


def _paced(patch: pytest.MonkeyPatch, patience: int) -> None:
    """Small batches after so many heads that were placed in a row."""
    patch.setattr(batching.Pace.__init__, "__defaults__", (0, 0, patience))
    patch.setattr(batching, "_LEAST", 4)
    patch.setattr(batching, "_LONGEST", 4)


NEVER = 1 << 30
UNSHRUNK = [Phase.explicit, Phase.reuse, Phase.generate]  # shrinking takes many minutes a story


@pytest.mark.parametrize("kernel", [batch.decide, PLAIN], ids=["compiled", "plain"])
@given(tales())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], phases=UNSHRUNK)
def test_with_batches_it_decides_what_it_decides_head_by_head(kernel: Any, told: Told) -> None:
    with pytest.MonkeyPatch.context() as patch:
        _paced(patch, NEVER)
        expected, again = lived(told), lived(told, aborting=True)
    with pytest.MonkeyPatch.context() as patch:
        _paced(patch, 1)
        patch.setattr(seeking, "decide", kernel)
        assert lived(told) == expected
        assert lived(told, aborting=True) == again

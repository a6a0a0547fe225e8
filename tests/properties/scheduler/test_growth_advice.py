"""What is said would give one more replica to what runs does: each line, done as told on a copy, makes it grow."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from muster_kernel.quantities import GPU
from muster_scheduler.domain import events
from muster_scheduler.domain.answers.explain import explain
from muster_scheduler.domain.asked.quotas import Quota
from muster_scheduler.domain.asked.workloads import Request, Stretch, Trials, WorkloadKind
from tests.support.advice import Quotas, do, undoable
from tests.support.fleets import Fleet, node, portion, request, role, whole, workload_id

_MOST = 4
SHAPES = st.sampled_from([whole(1), whole(1), whole(2), portion(500)])


def series(asked: Request) -> Request:
    """Trials of it."""
    return asked._replace(trials=Trials(9, _MOST))


def elastic(asked: Request) -> Request:
    """A gang of one that grows."""
    return asked._replace(stretch=Stretch("worker", 1, _MOST))


def service(asked: Request) -> Request:
    """A service that is told to have all that it may."""
    return asked._replace(kind=WorkloadKind.INFERENCE, max_scale=_MOST)


REQUESTS: st.SearchStrategy[Request] = st.builds(
    lambda shape, preemptible, made: made(request(role(shape), preemptible=preemptible)),
    SHAPES,
    st.booleans(),
    st.sampled_from([series, elastic, service, lambda asked: asked, lambda asked: asked]),
)
QUOTA: st.SearchStrategy[dict[str, Quota]] = st.builds(
    lambda deserved, limit: {"default": Quota(deserved * GPU, limit and limit * GPU, 1000)},
    st.sampled_from([1, 4, 8]),
    st.sampled_from([None, None, 3, 6]),
)


class Scene(NamedTuple):
    """What runs, each with its project, and who has ended since."""

    p: dict[str, Quota]
    q: dict[str, Quota]
    d: dict[str, Quota]
    asked: list[tuple[Request, str]]
    ended: list[int]

    @property
    def quotas(self) -> Quotas:
        return Quotas({"p": ("d", self.p), "q": ("e", self.q)}, {"d": self.d})

    def played(self) -> Fleet:
        """The fleet after all of it; the same one each time."""
        fleet = Fleet(node("n1", 4), node("n2", 2))
        fleet.send(*self.quotas.told())
        for number, (asked, project) in enumerate(self.asked, 1):
            fleet.submit(number, asked, project=project)
        scaled = (number for number, (asked, _) in enumerate(self.asked, 1) if asked.max_scale)
        fleet.send(*(events.ScaleAdvised(workload_id(number), _MOST) for number in scaled))
        for number in self.ended:
            if number <= len(self.asked) and fleet.workload(number).replicas:
                fleet.finish(number)
        settle(fleet, len(self.asked))
        return fleet


def settle(fleet: Fleet, workloads: int) -> None:
    """Whoever was told to leave is gone, all replicas run, and gangs had time to grow."""
    for _ in range(2):
        for number in range(1, workloads + 1):
            if (
                any(replica.leaving for replica in fleet.workload(number).everyone())
                or not fleet.workload(number).active
            ):
                fleet.gone(number)
        for number in range(1, workloads + 1):
            if fleet.workload(number).active:
                fleet.run(number)
        fleet.wait(31)


SCENES: st.SearchStrategy[Scene] = st.builds(
    Scene,
    QUOTA,
    QUOTA,
    QUOTA,
    st.lists(st.tuples(REQUESTS, st.sampled_from("ppq")), min_size=2, max_size=6),
    st.lists(st.integers(1, 6), max_size=1),
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(SCENES)
def test_each_line_done_as_told_gives_it_one_more(scene: Scene) -> None:
    fleet = scene.played()
    digest = fleet.state.digest()
    for number in range(1, len(scene.asked) + 1):
        workload = fleet.workload(number)
        told = explain(fleet.world, workload)
        if told.growth is None:
            continue
        assert told.growth.has == len(workload.replicas) < told.growth.wanted <= _MOST
        for line in told.unblockers:
            if not undoable(line):
                again = scene.played()
                do(again, scene.quotas, number, line)
                again.wait(31)
                assert len(again.workload(number).replicas) > told.growth.has, f"w{number}: {line}"
    assert fleet.state.digest() == digest

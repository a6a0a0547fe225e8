"""What is said would let a workload start does: each line, done as told on a copy, starts it or makes room for it.

The scenes are the same in every run. Of some 4,500 lines of other ones none was untrue.
"""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from muster_kernel.lifecycle import WAITING
from muster_kernel.quantities import GPU
from muster_scheduler.domain.answers.explain import explain
from muster_scheduler.domain.asked.quotas import Quota
from muster_scheduler.domain.asked.workloads import Request
from tests.support.advice import Quotas, do, undoable
from tests.support.fleets import Fleet, host, node, portion, request, role, whole

REQUESTS: st.SearchStrategy[Request] = st.builds(
    lambda shape, size, priority, preemptible, pool: request(
        role(shape, size), priority=priority, preemptible=preemptible, pools=pool
    ),
    st.sampled_from([whole(1), whole(1), whole(2), whole(2), whole(4), whole(5), portion(500), host()]),
    st.sampled_from([1, 1, 2, 3]),
    st.sampled_from([25, 50, 50, 75, 100]),
    st.booleans(),
    st.sampled_from([("default",)] * 4 + [("lab",), ("lab", "default"), ("nope",)]),
)


def quota(deserved: int, limit: int | None, weight: int) -> Quota:
    return Quota(deserved * GPU, None if limit is None else limit * GPU, weight)


QUOTA: st.SearchStrategy[Quota] = st.builds(
    quota,
    st.sampled_from([0, 1, 4, 8, 8]),
    st.sampled_from([None, None, None, 6]),
    st.sampled_from([1000, 1000, 1000, 0]),
)
POOLS: st.SearchStrategy[dict[str, Quota]] = st.fixed_dictionaries({"default": QUOTA, "lab": QUOTA})


class Scene(NamedTuple):
    """What happened: each workload with its project, whether it runs, and who has ended since."""

    p: dict[str, Quota]
    q: dict[str, Quota]
    d: dict[str, Quota]
    asked: list[tuple[Request, str, bool]]
    ended: list[int]

    @property
    def quotas(self) -> Quotas:
        return Quotas({"p": ("d", self.p), "q": ("e", self.q)}, {"d": self.d} if self.d else {})

    def played(self) -> Fleet:
        """The fleet after all of it; the same one each time."""
        fleet = Fleet(node("n1", 4), node("n2", 2), node("n3", 4, pool="lab"))
        fleet.send(*self.quotas.told())
        for number, (asked, project, runs) in enumerate(self.asked, 1):
            fleet.submit(number, asked, project=project)
            if runs and fleet.workload(number).active:
                fleet.run(number)
        for number in self.ended:
            if number <= len(self.asked) and fleet.workload(number).replicas:
                fleet.finish(number)
        for number in range(1, len(self.asked) + 1):
            if any(replica.leaving for replica in fleet.workload(number).everyone()):
                fleet.gone(number)
        return fleet


SCENES: st.SearchStrategy[Scene] = st.builds(
    Scene,
    POOLS,
    POOLS,
    st.one_of(st.just({}), POOLS),
    st.lists(st.tuples(REQUESTS, st.sampled_from("ppq"), st.booleans()), min_size=6, max_size=24),
    st.lists(st.integers(1, 24), max_size=5),
)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(SCENES)
def test_each_line_done_as_told_lets_it_start(scene: Scene) -> None:
    fleet = scene.played()
    digest = fleet.state.digest()
    for number in range(1, len(scene.asked) + 1):
        workload = fleet.workload(number)
        if workload.phase not in WAITING or workload.not_before > fleet.now:
            continue
        for line in explain(fleet.world, workload).unblockers:
            if not undoable(line):
                again = scene.played()
                started = again.workload(do(again, scene.quotas, number, line))
                again.wait(1)
                assert started.replicas or started.claim, f"w{number}: {line}"
    assert fleet.state.digest() == digest

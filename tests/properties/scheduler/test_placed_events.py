"""The events of placements, one after another: byte for byte what each is when it is made alone."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from muster_scheduler.adapters.encoding import placed
from muster_scheduler.adapters.placements import Placements
from muster_scheduler.domain.asked.courses import Course
from muster_scheduler.domain.asked.requests import Grant, Holder, Kind, Share
from muster_scheduler.domain.asked.workloads import Replica, Workload
from tests.support.fleets import START, host, request, role, workload_id

GRANTS = st.sampled_from(
    [Grant(1000, 1), Grant(1000, 1), Grant(2000, 1), Grant(1000, 1, slots=2)]
    + [Grant(1000, 1, (Share(f"GPU-{number}", Kind.PORTION, 500),), 0, 3500) for number in range(2)]
)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Placed ones that differ in little."""
    name, attempt = workload_id(draw(st.integers(0, 5))), draw(st.integers(1, 2))
    made = Workload(name, request=request(role(host())), course=Course(attempt=attempt))
    made.cluster, made.pool = draw(st.sampled_from(["c1", "c2"])), draw(st.sampled_from(["default", "other"]))
    for rank in range(draw(st.sampled_from([1, 1, 1, 1, 0, 2]))):
        holder = Holder(name, 1, attempt, draw(st.sampled_from(["worker", "master"])), rank, draw(st.integers(0, 1)))
        node = made.cluster, draw(st.sampled_from(["n1", "n2", "n3"]))
        made.replicas[holder.role, rank] = Replica(holder, node, draw(GRANTS))
    return made


@given(st.lists(st.tuples(workloads(), st.sampled_from([START, START, START + 1])), max_size=12))
def test_each_says_what_it_says_alone(told: list[tuple[Workload, int]]) -> None:
    placements = Placements()
    for workload, at in told:
        assert placements.event(workload, at).SerializeToString() == placed(workload, at).SerializeToString()

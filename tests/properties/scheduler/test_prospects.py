"""What if, under anything: it leaves no trace, and a copy that is told to do it does the same."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from muster_kernel.lifecycle import WAITING
from muster_scheduler.domain.answers.explain import dominant
from muster_scheduler.domain.answers.prospects import CYCLES, Outlook, Prospects, what_if
from muster_scheduler.domain.asked.workloads import Request
from muster_scheduler.domain.decisions import Preempted
from tests.support.fleets import Fleet, host, node, portion, request, role, whole, workload_id

SHAPES = st.sampled_from([whole(1), whole(2), whole(4), whole(8), whole(9), portion(500), portion(250, 2), host()])
REQUESTS: st.SearchStrategy[Request] = st.builds(
    lambda shape, size, priority, preemptible: request(role(shape, size), priority=priority, preemptible=preemptible),
    SHAPES,
    st.integers(1, 3),
    st.sampled_from([10, 50, 90]),
    st.booleans(),
)
PROJECTS = st.sampled_from(["p", "q", "nobody"])


def fleet_with(asked: list[tuple[Request, str]], ended: list[int]) -> Fleet:
    """A small fleet on which that much was submitted and some of it has run to its end."""
    fleet = Fleet(node("a", 8), node("b", 8), node("c", 4, cluster="c2"), quota=14)
    fleet.project("q", {"default": 6})
    for number, (each, project) in enumerate(asked, 1):
        fleet.submit(number, each, project=project)
    for number in ended:
        if number <= len(asked) and fleet.workload(number).active:
            fleet.run(number)
            fleet.finish(number)
    return fleet


def told(answer: Prospects) -> list[tuple[object, ...]]:
    return [(p.outlook, p.cluster, p.pool, p.parts, p.waits_for, p.explanation) for p in answer.prospects]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(REQUESTS, PROJECTS), max_size=8),
    st.lists(st.integers(1, 8), max_size=3),
    st.lists(st.tuples(REQUESTS, PROJECTS), min_size=1, max_size=3),
)
def test_asking_leaves_no_trace_and_doing_gives_what_was_told(
    before: list[tuple[Request, str]], ended: list[int], asked: list[tuple[Request, str]]
) -> None:
    fleet, copy = fleet_with(before, ended), fleet_with(before, ended)
    digest = fleet.state.digest()
    assert copy.state.digest() == digest
    coming = [fleet.admitted(100 + n, each, project=project) for n, (each, project) in enumerate(asked)]
    answer = what_if(fleet.state, coming, fleet.now)
    assert fleet.state.digest() == digest
    fleet.state.check()
    assert told(what_if(fleet.state, coming, fleet.now)) == told(answer)

    made = copy.send(*coming)
    for _ in range(CYCLES):
        made += copy.send()
    victims = [(d.workload, d.by) for d in made if isinstance(d, Preempted)]
    assert victims == [(each.workload, each.by) for each in answer.displaced]
    for number, prospect in enumerate(answer.prospects):
        known = copy.world.workloads[workload_id(100 + number)]
        assert (known.cluster, known.phase) == (prospect.workload.cluster, prospect.workload.phase)
        if prospect.outlook is Outlook.WAITS:
            assert known.phase in WAITING
            assert prospect.explanation is not None
            assert dominant(copy.world, known) == prospect.explanation.reason
        elif prospect.outlook is Outlook.STARTS:
            held = sorted((r.node[1], r.grant.charge) for r in known.everyone())
            assert sum(part.replicas for part in prospect.parts) == len(held)
            assert {part.node for part in prospect.parts} == {place for place, _ in held}
        else:
            assert known.claim is not None
            assert known.claim.waits_for == prospect.waits_for

"""What comes later never delays a head for which nodes are kept, and while nothing arrives the head starts.

All that runs ends by its project's run-time limit, so that the ends are known; the very domain is driven in virtual
time, once with and once without what comes later.
"""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from muster_kernel.quantities import GPU
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.quotas import Quota
from muster_scheduler.domain.asked.requests import Shape
from muster_scheduler.domain.asked.rules import Rules
from muster_scheduler.domain.books.queues import Project
from tests.support.fleets import Fleet, host, node, portion, request, role, whole, workload_id

HEAD = 50
LIMITS = {"s": 100, "m": 1_000, "l": 5_000}  # seconds, by project
LARGE = st.sampled_from([whole(3), whole(4), portion(900, 4)])
SHAPES = st.sampled_from([whole(1), whole(2), whole(3), portion(500), host(20_000)])


class Work(NamedTuple):
    """A gang of a project, which says how long it runs. after: seconds since the one before it."""

    project: str
    shape: Shape
    size: int
    preemptible: bool
    after: int


HEADS = st.builds(Work, st.sampled_from(sorted(LIMITS)), LARGE, st.integers(1, 2), st.just(False), st.just(0))
WORK = st.builds(Work, st.sampled_from(sorted(LIMITS)), SHAPES, st.integers(1, 2), st.booleans(), st.integers(0, 400))


def filled(before: list[Work], head: Work) -> Fleet:
    """A fleet on which some work has started, and the head was submitted after it."""
    fleet = Fleet(*(node(name, 4) for name in "ab"), quota=100)
    for name, limit in LIMITS.items():
        quota = {"default": Quota(100 * GPU)}
        fleet.send(events.ProjectChanged(Project(name, "d", quota, 0, Rules(training_time=limit))))
    for number, work in enumerate(before, 1):
        submit(fleet, number, work)
        fleet.wait(work.after % 7)
    submit(fleet, HEAD, head)
    return fleet


def submit(fleet: Fleet, number: int, work: Work) -> None:
    asked = request(role(work.shape, work.size), preemptible=work.preemptible)
    fleet.submit(number, asked, project=work.project)


def started(fleet: Fleet, later: list[Work]) -> int:
    """When the head starts, where that much arrives meanwhile."""
    arrivals = {}
    at = fleet.now
    for number, work in enumerate(later, HEAD + 1):
        at += work.after * 1_000_000
        arrivals[number] = (at, work)
    for _ in range(400):
        if fleet.workload(HEAD).placed:
            return fleet.workload(HEAD).placed
        timer = fleet.state.next_time()
        due = [at for at, _ in arrivals.values()] + ([] if timer is None else [timer])
        fleet.now = max(fleet.now, min(due))
        fleet.wait(0)
        for known in sorted(fleet.world.workloads):
            if fleet.world.workloads[known].remaining and not fleet.world.workloads[known].active:
                fleet.gone(int(known[-12:], 16))
        for number in [n for n, (at, _) in arrivals.items() if at <= fleet.now]:
            submit(fleet, number, arrivals.pop(number)[1])
    raise AssertionError("the head never starts")


@settings(max_examples=30, deadline=None)
@given(st.lists(WORK, min_size=4, max_size=9), HEADS, st.lists(WORK, min_size=1, max_size=8))
def test_nothing_that_comes_later_delays_the_head(before: list[Work], head: Work, later: list[Work]) -> None:
    settled = [work._replace(preemptible=False) for work in before]
    alone, crowded = filled(settled, head), filled(settled, head)
    first, kept = started(alone, []), crowded.workload(HEAD).reservation
    if kept is not None:
        assert crowded.world.reserved == {("c1", "default"): workload_id(HEAD)}
        assert first <= kept.until, "all ends are known"
        assert started(crowded, later) <= first

"""Stretches of the queue against the queue itself: what comes next, and what is left after many left together."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given, settings

from muster_kernel.reasons import WaitingReason
from muster_kernel.sentences import Reason
from muster_scheduler.domain.asked.workloads import Workload
from muster_scheduler.domain.books.stretches import Stretch, Stretches
from tests.support.fleets import START, host, request, role, whole, workload_id

SHAPES = (host(1000), host(2000), whole(1), whole(2))
PROJECTS = ("p", "q")
NOTHING_FREE = Reason(WaitingReason.NO_CAPACITY, (7_000, 0))

Step = tuple[str, int, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "add", "add", "remove", "block", "wake", "head"]),
        st.integers(0, 11),
        st.integers(0, 3),
        st.integers(0, 7),
    ),
    max_size=40,
)


def lived(steps: list[Step]) -> Stretches:
    """A queue after these steps: (what, which workload, of which shape, submitted when)."""
    queue = Stretches()
    for what, number, shape, at in steps:
        name, project = workload_id(number), PROJECTS[number % 2]
        asked = request(role(SHAPES[shape]), priority=50 + 25 * (shape == 3), pools=("one", "two")[: 1 + shape % 2])
        if what == "add":
            queue.add(Workload(name, project=project, submitted=START + at, request=asked))
        elif what == "remove":
            queue.remove(name)
        elif what == "head":
            queue.head(project)
        elif what == "wake":
            queue.wake_project(project)
        else:
            head = queue.head(project)
            if head is not None:
                queue.block(head[1], NOTHING_FREE)
    return queue


def one_by_one(queue: Stretches, project: str, most: int) -> list[str]:
    """The heads of a project as each is named once those before it have been removed."""
    found: list[str] = []
    while len(found) < most and (head := queue.head(project)) is not None:
        found.append(head[0])
        queue.remove(head[0])
    return found


def standing(queue: Stretches) -> object:
    """What the queue says of those who are left."""
    pressing = {pool: members for pool, members in queue.pressing.items() if members}
    counts = {(key.project, key.pools, key.roles): bucket.count for key, bucket in queue.buckets.items()}
    return len(queue), queue.demand, pressing, counts, queue.projects()


@given(STEPS, st.integers(1, 12))
@settings(deadline=None)
def test_a_stretch_has_the_heads_in_their_order(steps: list[Step], most: int) -> None:
    for project in PROJECTS:
        queue, other = lived(steps), lived(steps)
        found = queue.stretch(project, most)
        assert [place.id for place in found.places] == one_by_one(other, project, most)
        assert all(queue.buckets[bucket.key] is bucket for bucket in found.buckets)


@given(STEPS, st.integers(1, 12), st.integers(0, 12), STEPS)
@settings(deadline=None)
def test_after_many_left_together_it_is_as_if_each_had_left(
    steps: list[Step], most: int, left: int, later: list[Step]
) -> None:
    queue, other = lived(steps), lived(steps)
    for project in PROJECTS:
        found = queue.stretch(project, most)
        queue.leave(Stretch(found.places[:left], found.buckets[:left]))
        one_by_one(other, project, min(left, len(found.places)))
    assert standing(queue) == standing(other)
    for project in PROJECTS:
        assert one_by_one(queue, project, 99) == one_by_one(other, project, 99)


@given(st.integers(1, 40))
@settings(deadline=None)
def test_those_who_leave_a_few_of_many_classes_leave_the_others_in_their_order(left: int) -> None:
    queue, other = (Stretches() for _ in range(2))
    for number in range(40):
        asked = request(role(host(1000 + number % 20)))
        for each in (queue, other):
            each.add(Workload(workload_id(number), project="p", submitted=START + number, request=asked))
    found = queue.stretch("p", 40)
    queue.leave(Stretch(found.places[:left], found.buckets[:left]))
    assert one_by_one(other, "p", left) == [place.id for place in found.places[:left]]
    assert standing(queue) == standing(other)
    assert one_by_one(queue, "p", 99) == one_by_one(other, "p", 99)

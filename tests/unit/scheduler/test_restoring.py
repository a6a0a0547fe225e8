"""After an abort only what the transaction touched is put in order anew, and nobody is forgotten or left behind."""

from __future__ import annotations

from muster_kernel.lifecycle import Phase
from muster_kernel.reasons import FailureClass
from muster_scheduler.domain import decisions as d
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.workloads import SECOND, ReplicaState, Stretch
from muster_scheduler.domain.books.deriving import derive
from muster_scheduler.domain.fleet.clusters import Profile
from muster_scheduler.domain.fleet.nodes import Mig, NodeState
from tests.support.fleets import Fleet, node, request, role, whole, workload_id


def crowded() -> Fleet:
    """One node of four cards: workload 1 has three of them, 2 and 3 want three each and wait."""
    fleet = Fleet(node("n1", 4))
    for number in (1, 2, 3):
        fleet.submit(number, request(role(whole(3)), preemptible=False))
    fleet.run(1)
    return fleet


def aborted(fleet: Fleet, *incoming: events.Event) -> list[d.Decision]:
    """A transaction with a cycle that the database does not take: what it would have decided."""
    fleet.state.begin(fleet.now)
    for event in incoming:
        fleet.state.apply(event)
    fleet.state.propose()
    made = list(fleet.state.plan().decisions)
    fleet.state.abort()
    return made


def test_what_was_not_touched_stays_blocked_where_it_was() -> None:
    fleet = crowded()
    queue = fleet.world.waiting
    aborted(fleet, fleet.admitted(9, request(role(whole(2)), preemptible=False)))
    assert fleet.world.waiting is queue
    assert queue.reason(workload_id(2)) is not None
    assert queue.projects() == []
    assert workload_id(9) not in queue


def test_a_place_that_an_aborted_end_freed_is_given_once_it_is_free() -> None:
    fleet = crowded()
    ended = fleet.status(1, ReplicaState.SUCCEEDED, gone=True, exit_code=0)
    aborted(fleet, ended)
    assert fleet.workload(2).phase is Phase.PENDING
    assert workload_id(2) in fleet.world.waiting
    fleet.state.check()
    fleet.send(ended)
    assert fleet.workload(2).phase is Phase.INITIALIZING


def test_a_class_that_an_aborted_transaction_blocked_is_tried_again() -> None:
    fleet = Fleet(node("n1", 4))
    first, second = (fleet.admitted(number, request(role(whole(3)), preemptible=False)) for number in (1, 2))
    fleet.state.begin(fleet.now)
    fleet.state.apply(second)
    fleet.state.commit()
    aborted(fleet, first)  # 1 is older: it has the room there is, and 2 is blocked
    fleet.send()
    assert fleet.workload(2).phase is Phase.INITIALIZING


def test_what_was_due_in_an_aborted_transaction_is_due_again() -> None:
    fleet = Fleet(node("n1", 4))
    fleet.submit(1, request(role(whole(1)), auto_deletion=60))
    fleet.run(1)
    fleet.finish(1)
    fleet.now += 61 * SECOND
    aborted(fleet)
    assert fleet.workload(1).phase is Phase.COMPLETED
    fleet.send()
    assert fleet.workload(1).phase is not Phase.COMPLETED


def test_what_is_due_comes_in_the_same_order_after_an_abort() -> None:
    """The abort asks the gang for its times anew, and that of a replica which it gave up has long passed."""
    fleet = Fleet(node("n1", 4))
    fleet.submit(1, request(role(whole(1)), preemptible=False, backoff_limit=2))
    fleet.submit(2, request(role(whole(1)), backoff_limit=2)._replace(stretch=Stretch("worker", 1, 3)))
    fleet.run(1)
    fleet.run(2)
    for _ in range(3):
        fleet.wait(31)
    assert len(fleet.workload(2).replicas) == 3
    fleet.submit(3, request(role(whole(2)), preemptible=False))
    fleet.send(*(fleet.status(2, None, rank=rank, gone=True, k=0) for rank in (1, 2)))
    assert fleet.workload(3).phase is Phase.INITIALIZING
    assert [time for _, time in fleet.workload(2).replacements.values()] == [0, 0]
    fleet.wait(400)  # so that the end of 2 is not for its new size
    for number in (1, 2):
        fleet.report(number, ReplicaState.FAILED, exit_code=1, failure=FailureClass.EXIT)
        fleet.gone(number, exit_code=1, failure=FailureClass.EXIT)
    fleet.now += 60 * SECOND
    first = aborted(fleet)
    restarted = [one.workload for one in first if isinstance(one, d.PhaseChange) and one.after is Phase.INITIALIZING]
    assert restarted == [workload_id(1), workload_id(2)]
    assert fleet.send() == first


def test_a_node_of_which_an_aborted_transaction_spoke_is_as_before() -> None:
    fleet = crowded()
    before = fleet.state.digest()
    order = fleet.order()
    broken = (node("n1", 4, state=NodeState.NOT_READY),)
    profile = Profile(mig=Mig.DYNAMIC)
    aborted(fleet, events.InventoryReported("c1", order, True, order.sequence, profile, broken, ()))
    assert fleet.state.digest() == before
    fleet.finish(1)
    assert fleet.workload(2).phase is Phase.INITIALIZING


def test_a_queue_that_is_filled_at_once_is_the_one_that_was_entered_one_by_one() -> None:
    fleet = Fleet(node("n1", 4))
    fleet.project("q", {"default": 4})
    fleet.submit(1, request(role(whole(4)), preemptible=False))
    late = {2: 50, 3: 75, 4: 50, 5: 50, 6: 75}
    for number, priority in late.items():
        asked = request(role(whole(1 + number % 2)), preemptible=False, priority=priority)
        fleet.submit(number, asked, project="pq"[number % 3 == 0])
    world, entered = fleet.world, fleet.world.waiting
    world.waiting.wake_all()
    derive(world)
    filled = world.waiting
    assert filled is not entered
    assert len(filled) == len(late)
    assert (filled.demand, filled.pressing, len(filled)) == (entered.demand, entered.pressing, len(entered))
    classes = [
        sorted((key.project, key.roles, *queue.members(key)) for key in queue.buckets) for queue in (filled, entered)
    ]
    assert classes[0] == classes[1]
    while filled.projects():
        assert filled.projects() == entered.projects()
        project = filled.projects()[0]
        head = filled.head(project)
        other = entered.head(project)
        assert head is not None
        assert other is not None
        assert (head[0], head[1].roles) == (other[0], other[1].roles)
        filled.remove(head[0])
        entered.remove(head[0])
    assert not entered.projects()

"""What a takeover leaves out because it does not run then is looked after again as soon as it does."""

from __future__ import annotations

from muster_kernel.lifecycle import ACTIVE, Phase
from muster_kernel.quantities import GPU
from muster_kernel.reasons import ChangeReason, FailureClass
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.quotas import Quota
from muster_scheduler.domain.asked.rules import Rules
from muster_scheduler.domain.asked.workloads import ReplicaState, Stretch, WorkloadKind
from muster_scheduler.domain.books.deriving import derive
from muster_scheduler.domain.books.queues import Project
from tests.support.fleets import Fleet, node, request, role, whole


def test_a_gang_that_is_restarted_where_it_was_keeps_its_longest_run() -> None:
    fleet = Fleet(node("a", 2))
    fleet.send(events.ProjectChanged(Project("p", "d", {"default": Quota(2 * GPU)}, 0, Rules(training_time=600))))
    fleet.submit(1, request(role(whole(), 2), backoff_limit=2))
    fleet.run(1)
    fleet.wait(100)
    fleet.report(1, ReplicaState.FAILED, exit_code=1, failure=FailureClass.EXIT)
    assert fleet.workload(1).phase is Phase.TERMINATING
    derive(fleet.world)
    fleet.gone(1)
    fleet.wait(60)
    assert (fleet.workload(1).phase, fleet.workload(1).attempt) == (Phase.INITIALIZING, 2)
    fleet.run(1)
    fleet.wait(430)
    assert fleet.workload(1).phase is Phase.RUNNING
    fleet.wait(30)
    assert fleet.workload(1).phase not in ACTIVE
    assert fleet.workload(1).reason is ChangeReason.RUN_TIME_LIMIT


def test_a_service_that_comes_back_from_silence_gets_the_replicas_it_lacks() -> None:
    fleet = Fleet(node("a", 1))
    fleet.submit(1, request(role(whole()), kind=WorkloadKind.INFERENCE, max_scale=2))
    fleet.run(1)
    fleet.send(events.ScaleAdvised(fleet.workload(1).id, 2))
    assert len(fleet.workload(1).replicas) == 1, "there is no room for the other"
    fleet.now += 60_000_000
    fleet.send()
    assert fleet.workload(1).phase is Phase.UNKNOWN
    derive(fleet.world)
    fleet.inventory("c1", [node("a", 1), node("b", 1)])
    held = events.Held(fleet.workload(1).id, 1, 1, 1, ())
    fleet.send(events.AssignmentsHeld("c1", fleet.order(), (held,), 1))
    assert fleet.workload(1).phase in ACTIVE
    assert len(fleet.workload(1).replicas) == 2


def test_a_gang_that_is_restarted_where_it_was_promises_its_devices_to_nobody() -> None:
    fleet = Fleet(node("a", 2), node("b", 1))
    fleet.submit(1, request(role(whole(), 2), backoff_limit=2))
    fleet.submit(2)
    fleet.run(1)
    fleet.send(fleet.status(1, ReplicaState.FAILED, exit_code=1, failure=FailureClass.EXIT))
    fleet.send(fleet.status(1, None, gone=True, exit_code=1, failure=FailureClass.EXIT))
    derive(fleet.world)
    higher = fleet.submit(3, request(role(whole(), 3), priority=75))
    assert (fleet.workload(1).phase, higher.claim) == (Phase.TERMINATING, None)
    fleet.gone(1)
    fleet.wait(60)
    assert fleet.workload(1).attempt == 2


def test_an_elastic_gang_that_comes_back_from_silence_is_known_to_give_room_up_already() -> None:
    fleet = Fleet(node("a", 3))
    fleet.submit(1, request(role(whole()))._replace(stretch=Stretch("worker", 1, 3)))
    fleet.run(1)
    fleet.wait(31)
    fleet.wait(31)
    fleet.submit(2, request(priority=75))
    fleet.send(events.DeletionRequested("e", fleet.workload(2).id))
    assert [holder.rank for holder in fleet.workload(1).leaving] == [2], "promised to nobody any more"
    fleet.now += 60_000_000
    fleet.send()
    assert fleet.workload(1).phase is Phase.UNKNOWN
    derive(fleet.world)
    fleet.submit(3, request(priority=75))
    fleet.send(events.AssignmentsHeld("c1", fleet.order(), (events.Held(fleet.workload(1).id, 1, 1, 1, ()),), 1))
    assert fleet.workload(1).phase in ACTIVE
    assert [holder.rank for holder in fleet.workload(1).leaving] == [2], "what leaves is room enough"

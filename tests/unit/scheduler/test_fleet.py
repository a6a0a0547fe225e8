"""Clusters: bound to one agent, silent and back, adopted, given up; inventories, full and in part."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster.fleet.v1 import fleet_pb2
from muster_kernel.lifecycle import DesiredPhase, Phase
from muster_kernel.reasons import WaitingReason
from muster_scheduler.adapters import views
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.limits import Limits
from muster_scheduler.domain.asked.workloads import SECOND, ReplicaState, WorkloadKind
from muster_scheduler.domain.decisions import Assign, Release
from muster_scheduler.domain.fleet.clusters import Profile, Standing
from muster_scheduler.domain.fleet.nodes import Mig, Mode, NodeState
from muster_scheduler.domain.life.fleet import note_read, on_heartbeat, start_clocks
from tests.support.fleets import Fleet, device_memory, devices, mig_slice, node, portion, request, role, whole

LIMIT = 30 * SECOND


def snapshot(fleet: Fleet, *numbers: int, cluster: str = "c1") -> None:
    held = []
    for number in numbers:
        w = fleet.workload(number)
        statuses = tuple(
            events.Status(
                r.holder.role,
                r.holder.rank,
                r.holder.k,
                r.node[1],
                r.state if r.state.value != "ASSIGNED" else None,
                gone=False,
            )
            for r in w.everyone()
        )
        held.append(events.Held(w.id, w.generation, w.attempt, 1, statuses))
    fleet.send(events.AssignmentsHeld(cluster, fleet.order(cluster), tuple(held), 1))


def silence(fleet: Fleet, seconds: int = 60) -> None:
    fleet.now += seconds * SECOND
    fleet.send()


def test_a_cluster_is_bound_to_the_first_instance() -> None:
    fleet = Fleet(node("n1", 1))
    order = fleet.order()._replace(instance="another")
    fleet.send(events.InventoryReported("c1", order, True, 99, Profile(), (), ()))
    assert len(fleet.world.inventory.nodes) == 1
    assert fleet.world.clusters["c1"].instance == "agent-c1"


def test_a_stale_cluster_gets_nothing_new_and_a_fresh_one_does_again() -> None:
    fleet = Fleet(node("n1"))
    silence(fleet, 31)
    assert fleet.world.clusters["c1"].standing(fleet.now, LIMIT) is Standing.STALE
    workload = fleet.submit(1)
    assert workload.phase is Phase.PENDING
    assert fleet.world.waiting.reason(workload.id).code is WaitingReason.NODES_UNAVAILABLE
    fleet.wait(0)
    assert workload.phase is Phase.INITIALIZING


def test_the_same_observation_again_is_no_sign_of_life() -> None:
    fleet = Fleet(node("n1"))
    beat = fleet.heartbeat("c1")
    fleet.send(beat)
    silence(fleet, 31)
    fleet.send(replace(beat, order=beat.order._replace(sequence=beat.order.sequence + 1)))
    assert fleet.world.clusters["c1"].standing(fleet.now, LIMIT) is Standing.STALE


def test_silence_stops_nothing_and_remembers_wishes() -> None:
    fleet = Fleet(node("n1", 2))
    kept, suspended = fleet.submit(1), fleet.submit(2)
    fleet.run(1)
    fleet.run(2)
    silence(fleet)
    assert (kept.phase, suspended.phase) == (Phase.UNKNOWN, Phase.UNKNOWN)
    assert fleet.world.inventory.nodes["c1", "n1"].idle == 0
    assert not [r for r in fleet.records(1) if isinstance(r, Release)]
    fleet.send(events.SuspendRequested("e", suspended.id))
    assert (suspended.phase, suspended.desired) == (Phase.UNKNOWN, DesiredPhase.STOPPED)
    fleet.wait(0)
    assert kept.phase is Phase.UNKNOWN
    snapshot(fleet, 1, 2)
    assert (kept.phase, suspended.phase) == (Phase.RUNNING, Phase.STOPPING)


def test_a_snapshot_brings_what_had_ended_meanwhile() -> None:
    fleet = Fleet(node("n1", 1))
    workload = fleet.submit(1)
    silence(fleet)
    status = events.Status("worker", 0, 0, "n1", ReplicaState.SUCCEEDED, gone=False, exit_code=0)
    held = events.Held(workload.id, 1, 1, 1, (status,))
    fleet.send(events.AssignmentsHeld("c1", fleet.order(), (held,), 1))
    assert workload.phase is Phase.COMPLETED


def test_a_cluster_that_was_quiet_before_its_replicas_started() -> None:
    fleet = Fleet(node("n1", 1))
    workload = fleet.submit(1)
    silence(fleet)
    snapshot(fleet, 1)
    assert workload.phase is Phase.INITIALIZING


def test_adoption_declares_gone_what_the_old_agent_held() -> None:
    fleet = Fleet(node("n1", 1))
    running = fleet.submit(1)
    fleet.run(1)
    fleet.send(events.ClusterAdopted("c1", "agent-new"))
    assert running.phase is Phase.TERMINATING
    order = events.Order("agent-new", 1, 1, fleet.now + 99)
    fleet.send(events.InventoryReported("c1", order, True, 1, Profile(), (node("n1", 1),), ()))
    fleet.now += 11 * SECOND
    fleet.send(events.HeartbeatSeen("c1", order._replace(sequence=2, observed=fleet.now)))
    assert running.phase is Phase.INITIALIZING
    fleet.send(fleet.heartbeat("c1"))
    assert fleet.world.clusters["c1"].instance == "agent-new"


def test_adopting_a_silent_cluster_queues_its_workloads_anew() -> None:
    fleet = Fleet(node("n1", 1))
    workload = fleet.submit(1)
    silence(fleet)
    fleet.send(events.ClusterAdopted("c1", "agent-new"))
    assert workload.phase is Phase.PENDING
    assert (workload.attempt, workload.faults) == (2, 1)


def test_a_node_forced_gone() -> None:
    fleet = Fleet(node("n1", 1), node("n2", 1))
    gang = fleet.submit(1, request(role(whole(1), 2)))
    fleet.run(1)
    fleet.inventory("c1", [node("n1", 1, state=NodeState.NOT_READY), node("n2", 1)])
    assert gang.phase is Phase.RUNNING
    fleet.send(events.NodeForcedGone("c1", "n1"))
    assert gang.phase is Phase.TERMINATING
    fleet.gone(1)
    fleet.inventory("c1", [node("n1", 1, state=NodeState.NOT_READY), node("n2", 1), node("n3", 1)])
    fleet.wait(11)
    assert gang.phase is Phase.INITIALIZING
    assert {r.node[1] for r in gang.replicas.values()} == {"n2", "n3"}


def test_a_missing_device_is_unhealthy_and_stays_charged() -> None:
    fleet = Fleet(node("n1", 2))
    workload = fleet.submit(1)
    held = workload.replicas["worker", 0].grant.shares[0].device
    left = [card for card in devices("c1-n1", 2) if card.uuid != held]
    fleet.inventory("c1", [node("n1", cards=left)])
    card = fleet.world.inventory.nodes["c1", "n1"].device(held)
    assert card is not None
    assert card.mode is Mode.UNHEALTHY
    assert card.entries
    fleet.finish(1)
    fleet.inventory("c1", [node("n1", cards=[each for each in left if each.uuid != held])])
    assert fleet.world.inventory.nodes["c1", "n1"].device(held) is None


def test_a_node_that_vanishes_stays_while_it_is_charged() -> None:
    fleet = Fleet(node("n1", 1), node("n2", 1))
    fleet.submit(1)
    fleet.inventory("c1", [node("n2", 1)])
    assert ("c1", "n1") in fleet.world.inventory.nodes
    fleet.gone(1, exit_code=0)
    assert ("c1", "n1") not in fleet.world.inventory.nodes


def test_deltas_wait_for_a_full_inventory_after_a_gap() -> None:
    fleet = Fleet(node("n1", 1))
    first = fleet.world.clusters["c1"].inventory_sequence

    def delta(sequence: int, *nodes: object, removed: tuple[str, ...] = ()) -> None:
        made = events.InventoryReported("c1", fleet.order(), False, sequence, None, nodes, removed)  # type: ignore[arg-type]
        fleet.send(made)

    delta(first + 1, node("n2", 1))
    assert ("c1", "n2") in fleet.world.inventory.nodes
    delta(first + 3, node("n3", 1))
    assert ("c1", "n3") not in fleet.world.inventory.nodes
    delta(first + 4, node("n4", 1))
    assert ("c1", "n4") not in fleet.world.inventory.nodes
    fleet.inventory("c1", [node("n1", 1)])
    assert {key[1] for key in fleet.world.inventory.nodes} == {"n1"}
    again = fleet.world.clusters["c1"].inventory_sequence
    delta(again + 1, removed=("n1",))
    assert not fleet.world.inventory.nodes


def test_strays_get_a_tombstone_after_an_hour() -> None:
    fleet = Fleet(node("n1", 1))
    stray = events.Held("00000000-0000-7000-8000-00000000dead", 1, 3, 1, ())
    fleet.send(events.AssignmentsHeld("c1", fleet.order(), (stray,), 1))
    fleet.wait(3000)
    fleet.send(events.AssignmentsHeld("c1", fleet.order(), (stray,), 1))
    assert not [d for d in fleet.decisions if isinstance(d, Release)]
    fleet.wait(700)
    (release,) = [d for d in fleet.decisions if isinstance(d, Release)]
    assert (release.workload, release.attempt) == (stray.workload, 3)


def test_an_attempt_that_is_over_in_the_books_is_corrected() -> None:
    fleet = Fleet(node("n1", 2))
    running, done = fleet.submit(1), fleet.submit(2)
    fleet.finish(2)
    old = (events.Held(running.id, 1, 0, 1, ()), events.Held(done.id, 1, 0, 1, ()))
    made = fleet.send(events.AssignmentsHeld("c1", fleet.order(), old, 1))
    assert [type(d) for d in made] == [Assign, Release]


def test_reports_of_another_cluster_or_workload_mean_nothing() -> None:
    fleet = Fleet(node("n1", 1), node("m1", 1, cluster="c2"))
    workload = fleet.submit(1)
    other = "c2" if workload.cluster == "c1" else "c1"
    report = fleet.status(1, ReplicaState.READY)
    digest = fleet.state.digest()
    fleet.send(report._replace(cluster=other, order=fleet.order(other)))
    fleet.send(report._replace(workload="00000000-0000-7000-8000-00000000dead"))
    fleet.send(report._replace(cluster="nowhere"))
    assert fleet.state.digest() == digest


def test_the_charge_follows_the_devices_really_given() -> None:
    fleet = Fleet(node("n1", 2))
    workload = fleet.submit(1)
    replica = workload.replicas["worker", 0]
    assigned = replica.grant.shares[0].device
    other = next(c.uuid for c in fleet.world.inventory.nodes["c1", "n1"].devices if c.uuid != assigned)
    report = fleet.status(1, ReplicaState.READY)
    share = replica.grant.shares[0]._replace(device=other)
    fleet.send(report._replace(status=report.status._replace(devices=(share,))))
    assert replica.grant.shares[0].device == other
    assert fleet.world.inventory.nodes["c1", "n1"].device(assigned).mode is Mode.IDLE


def test_the_charge_of_a_portion_follows_to_a_card_that_is_shared_already() -> None:
    fleet = Fleet(node("n1", 2))
    sizes = (750, 500, 250)
    shares = [
        fleet.submit(number, request(role(portion(milli)))).replicas["worker", 0].grant.shares[0]
        for number, milli in enumerate(sizes, 1)
    ]
    first, second, third = shares
    assert (first.device != second.device, third.device) == (True, first.device)
    report = fleet.status(3, ReplicaState.READY)
    fleet.send(report._replace(status=report.status._replace(devices=(second,))))
    assert fleet.workload(3).replicas["worker", 0].grant.shares == (third._replace(device=second.device),)
    inventory = fleet.world.inventory.nodes["c1", "n1"]
    assert [inventory.device(share.device).free_milli for share in (first, second)] == [250, 250]


def test_what_others_hold_is_taken() -> None:
    cards = devices("c1-n1", 2)
    cards[0].foreign = True
    fleet = Fleet(node("n1", cards=cards))
    assert fleet.submit(1).replicas["worker", 0].grant.shares[0].device == cards[1].uuid
    assert fleet.submit(2).phase is Phase.PENDING


def test_what_a_cluster_cannot_do_is_said_and_not_tried() -> None:
    refused = ("image", "kind=Inference")
    fleet = Fleet(node("n1"), profile=Profile(portions=False, memory_requests=False, refused_fields=refused))
    for number, asked in enumerate(
        (
            request(role(portion(500))),
            request(role(device_memory(1))),
            request(role(mig_slice("1g.10gb"))),
            request(fields=frozenset({"image"})),
            request(kind=WorkloadKind.INFERENCE),
        ),
        1,
    ):
        workload = fleet.submit(number, asked)
        assert fleet.world.waiting.reason(workload.id).code is WaitingReason.NOT_SUPPORTED
    elsewhere = fleet.submit(9, request(clusters=("c9",)))
    assert fleet.world.waiting.reason(elsewhere.id).code is WaitingReason.NO_CLUSTER
    nowhere = fleet.submit(10, request(pools=("h100",)))
    assert fleet.world.waiting.reason(nowhere.id).code is WaitingReason.NO_POOL
    unknown = fleet.submit(11, project="nobody")
    assert fleet.world.waiting.reason(unknown.id).code is WaitingReason.NO_PROJECT


def test_slices_on_demand_and_static() -> None:
    dynamic = Fleet(node("n1", 1, mig=True), profile=Profile(mig=Mig.DYNAMIC))
    for number in range(1, 8):
        assert dynamic.submit(number, request(role(mig_slice("1g.10gb")))).phase is Phase.INITIALIZING
    assert dynamic.submit(8, request(role(mig_slice("1g.10gb")))).phase is Phase.PENDING
    assert dynamic.world.queues.account("p", "default").allocated == 7000
    cards = devices("c1-n1", 1, mig=True)
    cards[0].layout = (("1g.10gb", 0), ("3g.40gb", 4))
    static = Fleet(node("n1", cards=cards), profile=Profile(mig=Mig.STATIC))
    assert static.submit(1, request(role(mig_slice("3g.40gb")))).replicas["worker", 0].grant.shares[0].start == 4
    assert static.submit(2, request(role(mig_slice("3g.40gb")))).phase is Phase.PENDING
    assert static.submit(3, request(role(mig_slice("1g.10gb")))).phase is Phase.INITIALIZING


def test_anonymous_slots_are_counted() -> None:
    fleet = Fleet(node("n1", 0, slots=3), profile=Profile(anonymous=True))
    workload = fleet.submit(1, request(role(whole(2))))
    assert workload.replicas["worker", 0].grant.slots == 2
    assert fleet.submit(2, request(role(whole(2)))).phase is Phase.PENDING
    assert fleet.submit(3, request(priority=90)).phase is Phase.INITIALIZING


def test_restart_clocks_gives_everyone_time() -> None:
    fleet = Fleet(node("n1"))
    fleet.submit(1)
    fleet.now += 100 * SECOND
    fleet.state.restart_clocks(fleet.now)
    fleet.send()
    assert fleet.workload(1).phase is Phase.INITIALIZING


def read(fleet: Fleet, seconds: int) -> None:
    """Time goes on, and then all reports up to now are read."""
    fleet.now += seconds * SECOND
    fleet.state.begin(fleet.now)
    note_read(fleet.world, {"c1": fleet.now})
    fleet.state.commit()
    fleet.send()


@pytest.mark.parametrize(("steps", "phase"), [([100], Phase.RUNNING), ([20, 20, 20], Phase.UNKNOWN)])
def test_an_outage_of_kafka_is_no_silence_of_an_agent(steps: list[int], phase: Phase) -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1)
    fleet.run(1)
    for seconds in (0, *steps):
        read(fleet, seconds)
    assert workload.phase is phase
    for seconds in (20, 20, 20):
        read(fleet, seconds)
    assert workload.phase is Phase.UNKNOWN, "its agent has not come back"


def test_a_transaction_that_is_taken_back_has_read_nothing() -> None:
    fleet = Fleet(node("n1"))
    read(fleet, 0)
    before = fleet.world.read_until
    fleet.state.begin(fleet.now + 100 * SECOND)
    note_read(fleet.world, {"c1": fleet.now + 100 * SECOND})
    fleet.state.abort()
    assert fleet.world.read_until == before


def test_a_cluster_whose_reports_cannot_be_read_waits_until_they_are() -> None:
    fleet = Fleet(node("n1", 2))
    running = fleet.submit(1)
    fleet.run(1)
    fleet.state.restart_clocks(fleet.now, {"c1"})
    fleet.world.read_until = {"c1": 0}
    waiting = fleet.submit(2)
    fleet.now += 1000 * SECOND
    fleet.send()
    assert waiting.phase is Phase.PENDING
    assert running.phase is Phase.RUNNING, "what cannot be read is no silence"
    fleet.state.begin(fleet.now)
    start_clocks(fleet.world, {"c1"})
    fleet.state.commit()
    fleet.world.read_until = {"c1": fleet.now}
    fleet.send()
    assert waiting.phase is Phase.INITIALIZING
    assert running.phase is Phase.RUNNING, "its silence is counted from the moment at which its reports are read"


def test_a_heartbeat_says_of_which_release_the_agent_is() -> None:
    fleet = Fleet(node("n1"))
    fleet.send(events.HeartbeatSeen("c1", fleet.order(), version="0.1.0"))
    assert views.cluster(fleet.world, "c1").agent_version == "0.1.0"


def test_a_cluster_whose_agent_is_too_old_takes_no_new_work_and_keeps_what_runs() -> None:
    fleet = Fleet(node("n1"), limits=Limits(version="0.3.0"))
    fleet.send(events.HeartbeatSeen("c1", fleet.order(), version="0.2.1"))
    placed = fleet.submit(1)
    fleet.send(events.HeartbeatSeen("c1", fleet.order(), version="0.1.0"))
    waiting = fleet.submit(2)
    assert (placed.phase, waiting.phase) == (Phase.INITIALIZING, Phase.PENDING)
    said = views.cluster(fleet.world, "c1")
    assert said.state == fleet_pb2.CLUSTER_STATE_STALE
    assert said.issue == (
        "its agent has version 0.1.0 and the scheduler 0.3.0: a cluster gets no new work while they are more than one "
        "minor release apart"
    )
    fleet.send(events.HeartbeatSeen("c1", fleet.order(), version="0.2.0"))
    assert fleet.workload(2).phase is Phase.INITIALIZING
    assert views.cluster(fleet.world, "c1").issue == ""


def test_a_version_that_was_judged_in_a_transaction_that_is_aborted_is_judged_again() -> None:
    fleet = Fleet(node("n1"), limits=Limits(version="0.3.0"))
    heartbeat = events.HeartbeatSeen("c1", fleet.order(), version="0.1.0")
    fleet.state.begin(fleet.now)
    on_heartbeat(fleet.world, heartbeat)
    fleet.state.abort()
    assert (fleet.world.clusters["c1"].version, fleet.world.clusters["c1"].unfit) == ("", "")
    fleet.send(heartbeat)
    assert fleet.submit(1).phase is Phase.PENDING
    fleet.send(events.ClusterLeft("c1"))
    left = fleet.world.clusters["c1"]
    assert (left.version, left.unfit) == ("", "")


def test_a_cluster_whose_agent_sees_nothing_takes_no_new_work_at_once() -> None:
    fleet = Fleet(node("n1"))
    fleet.send(events.HeartbeatSeen("c1", fleet.order(), unreachable=True))
    assert fleet.submit(1).phase is Phase.PENDING
    fleet.send(events.HeartbeatSeen("c1", fleet.order()))
    assert fleet.workload(1).phase is Phase.INITIALIZING

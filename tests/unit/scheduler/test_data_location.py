"""A workload with volumes stays where its data is, unless its spec or an operator decides spec_clusters."""

from __future__ import annotations

from muster.workload.v1 import workload_pb2
from muster_kernel.lifecycle import Phase
from muster_kernel.reasons import WaitingReason
from muster_scheduler.adapters.workload_rows import of_request, to_request
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.workloads import DataLocation, ReplicaState, Request, WorkloadKind
from muster_scheduler.domain.fleet.clusters import Profile
from muster_scheduler.domain.fleet.nodes import Mig
from muster_scheduler.domain.life.data_location import keep_binding
from muster_scheduler.stream.terms import keeps_data
from tests.support.asking import said
from tests.support.fleets import Fleet, node, request

BOTH = (node("n1", 2), node("m1", 2, cluster="c2"))


def _keeps(**more: object) -> Request:
    return request(**more)._replace(keeps_data=True)  # type: ignore[arg-type]


def _ran_once(*, profile: Profile | None = None) -> tuple[Fleet, str]:
    """A workload with volumes that ran in a cluster and is stopped; the cluster."""
    fleet = Fleet(*(node(each.name, 2, cluster=each.cluster) for each in BOTH), profile=profile)
    fleet.submit(1, _keeps())
    fleet.run(1)
    cluster = fleet.workload(1).cluster
    fleet.send(events.SuspendRequested("e", fleet.workload(1).id))
    fleet.gone(1)
    assert fleet.workload(1).phase is Phase.STOPPED
    return fleet, cluster


def _request(fleet: Fleet, number: int = 1) -> Request:
    found = fleet.workload(number).request
    assert found is not None
    return found


def _resume(fleet: Fleet) -> None:
    fleet.send(events.ResumeRequested("f", fleet.workload(1).id))


def _fill(fleet: Fleet, cluster: str) -> None:
    """Nothing is free in a cluster any more."""
    for number in (11, 12):
        fleet.submit(number, request(clusters=(cluster,)))
        fleet.run(number)


def test_it_waits_for_the_cluster_with_its_data_although_another_has_room() -> None:
    fleet, cluster = _ran_once()
    _fill(fleet, cluster)
    _resume(fleet)
    workload = fleet.workload(1)
    assert workload.phase is Phase.RESUMING
    assert _request(fleet).data == DataLocation(cluster, ())
    fleet.send(events.DeletionRequested("g", fleet.workload(11).id))
    fleet.gone(11)
    fleet.wait(1)
    assert (fleet.workload(1).phase, fleet.workload(1).cluster) == (Phase.INITIALIZING, cluster)


def test_the_reason_is_its_data_where_that_cluster_is_what_lacks() -> None:
    fleet, cluster = _ran_once()
    fleet.inventory(cluster, [])
    _resume(fleet)
    reason = fleet.world.waiting.reason(fleet.workload(1).id)
    assert reason.code is WaitingReason.DATA_ELSEWHERE
    assert reason.sentence() == "its data is in a cluster that cannot run it now"
    assert f"is not in cluster {cluster}, where the data of the workload is" in said(fleet, 1)[2][0]


def test_without_volumes_or_before_they_were_mounted_it_goes_anywhere() -> None:
    fleet = Fleet(*(node(each.name, 2, cluster=each.cluster) for each in BOTH))
    fleet.submit(1, _keeps())
    fleet.submit(2, request())
    fleet.report(1, ReplicaState.CREATED)
    fleet.run(2)
    assert _request(fleet, 1).data is None
    assert _request(fleet, 2).data is None
    fleet.report(1, ReplicaState.STARTING)
    assert _request(fleet, 1).data == DataLocation(fleet.workload(1).cluster, ())


def test_a_cluster_that_ignores_volumes_binds_nothing() -> None:
    fleet, _ = _ran_once(profile=Profile(mig=Mig.DYNAMIC, ignored_fields=("pvcs",)))
    assert _request(fleet, 1).data is None


def test_a_cluster_that_leaves_lets_it_go() -> None:
    fleet, cluster = _ran_once()
    _fill(fleet, cluster)
    _resume(fleet)
    fleet.send(events.ClusterLeft(cluster))
    workload = fleet.workload(1)
    assert (_request(fleet).data, _request(fleet).clusters) == (None, ())
    assert (workload.phase, workload.cluster) == (Phase.INITIALIZING, "c1" if cluster == "c2" else "c2")


def test_a_later_revision_stays_unless_its_spec_excludes_the_cluster() -> None:
    bound = _keeps()._replace(clusters=("c1",), data=DataLocation("c1", ()))
    later = _keeps(generation=2)
    assert keep_binding(bound, later) == later._replace(clusters=("c1",), data=DataLocation("c1", ()))
    named = _keeps(generation=2, clusters=("c1", "c2"))
    assert keep_binding(bound, named).data == DataLocation("c1", ("c1", "c2"))
    for other in (_keeps(generation=2, clusters=("c2",)), request(generation=2)):
        assert keep_binding(bound, other) is other
    assert keep_binding(None, later) is later


def test_a_row_remembers_where_the_data_is() -> None:
    bound = _keeps()._replace(clusters=("c1",), data=DataLocation("c1", ("c1", "c2")))
    assert to_request(*of_request(bound), bound.spec) == bound


def test_claims_that_go_with_a_run_keep_no_data() -> None:
    spec = workload_pb2.WorkloadSpec()
    assert not keeps_data(spec)
    spec.pvcs.add(label="scratch", ephemeral=True)
    spec.pvcs.add(label="inherited", deleted=True)
    assert not keeps_data(spec)
    spec.pvcs.add(label="data", existing_pvc=True)
    assert keeps_data(spec)


def test_a_revision_that_excludes_the_cluster_binds_nothing_while_it_rolls_over() -> None:
    fleet = Fleet(*(node(each.name, 2, cluster=each.cluster) for each in BOTH))
    fleet.submit(1, _keeps(kind=WorkloadKind.INFERENCE, max_scale=1))
    fleet.run(1)
    cluster = fleet.workload(1).cluster
    other = "c2" if cluster == "c1" else "c1"
    fleet.submit(1, _keeps(generation=2, kind=WorkloadKind.INFERENCE, max_scale=1, clusters=(other,)))
    fleet.run(1)
    assert _request(fleet, 1).data is None
    assert _request(fleet, 1).clusters == (other,)

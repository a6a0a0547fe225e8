"""A workload that mounts a claim or a ConfigMap goes to a cluster that has it, and waits for one where none has."""

from __future__ import annotations

import pytest

from muster.fleet.v1 import fleet_pb2
from muster.workload.v1 import workload_pb2
from muster_kernel.lifecycle import Phase
from muster_kernel.reasons import WaitingReason
from muster_kernel.sentences import Reason
from muster_scheduler.adapters.workload_rows import of_request, to_request
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.workloads import Request
from muster_scheduler.domain.books.classes import ClassKey
from muster_scheduler.domain.fleet.clusters import Profile
from muster_scheduler.domain.fleet.nodes import Mig
from muster_scheduler.domain.fleet.objects import CLAIMS, CONFIG_MAPS, Objects, ReportedObjects
from muster_scheduler.stream.reports import MOST_OBJECTS, _objects
from muster_scheduler.stream.terms import mounts_of
from tests.support.asking import said
from tests.support.checked_fleet import Checked
from tests.support.fleets import Fleet, node, request, role, whole

PROFILE = Profile(mig=Mig.DYNAMIC)
DATA = f"runai-p/{CLAIMS}/data"
SETTINGS = f"runai-p/{CONFIG_MAPS}/settings"


def _fleet() -> Checked:
    """Two clusters; c1 comes first, since it has more idle devices. Both name their objects and have none."""
    fleet = Checked(node("n1", 4), node("m1", 2, cluster="c2"), profile=PROFILE, quota=6)
    for cluster in ("c1", "c2"):
        _report(fleet, cluster, named=True)
    fleet.stand_by(lead=False)
    return fleet


def _report(fleet: Fleet, cluster: str, *names: str, named: bool | None = None, truncated: bool = False) -> None:
    """A change of a cluster's objects, all of namespace runai-p."""
    entries = (("runai-p", Objects(frozenset(names), truncated)),) if names or truncated else ()
    sequence = fleet.world.clusters[cluster].inventory_sequence + 1
    objects = ReportedObjects(named, entries, () if entries else ("runai-p",))
    fleet.send(events.InventoryReported(cluster, fleet.order(cluster), False, sequence, None, (), (), objects))


def _mounts(*mounted: str, **more: object) -> Request:
    return request(**more)._replace(mounts=mounted)  # type: ignore[arg-type]


def _reason(fleet: Fleet, number: int = 1) -> Reason:
    found: Reason | None = fleet.world.waiting.reason(fleet.workload(number).id)
    assert found is not None
    return found


@pytest.mark.parametrize(("mounted", "name"), [(DATA, f"{CLAIMS}/data"), (SETTINGS, f"{CONFIG_MAPS}/settings")])
def test_it_goes_where_what_it_mounts_is(mounted: str, name: str) -> None:
    fleet = _fleet()
    _report(fleet, "c2", name)
    fleet.submit(1, _mounts(mounted))
    fleet.submit(2, request())
    assert (fleet.workload(1).cluster, fleet.workload(2).cluster) == ("c2", "c1")


def test_where_no_cluster_has_it_it_waits_and_starts_when_one_has() -> None:
    fleet = _fleet()
    _report(fleet, "c1", f"{CLAIMS}/other")
    fleet.submit(1, _mounts(DATA, SETTINGS))
    reason = _reason(fleet)
    assert reason.code is WaitingReason.DATA_MISSING
    assert reason.sentence() == "no cluster that it may use has every claim and ConfigMap that it mounts"
    (of_nodes, *_), helps = said(fleet, 1)[2:]
    assert helps == ["cluster c1 had claim data and ConfigMap settings in namespace runai-p", *helps[1:]]
    assert len(helps) == 2
    assert "in clusters without claim data and ConfigMap settings in namespace runai-p" in of_nodes
    _report(fleet, "c1", f"{CLAIMS}/data")
    assert fleet.workload(1).phase is Phase.PENDING
    fleet.stand_by(lead=True)
    _report(fleet, "c1", f"{CLAIMS}/data", f"{CONFIG_MAPS}/settings")
    assert (fleet.workload(1).phase, fleet.workload(1).cluster) == (Phase.INITIALIZING, "c1")
    fleet.rebuild()


def test_where_only_another_cluster_could_run_it_the_reason_is_its_data() -> None:
    fleet = _fleet()
    fleet.inventory("c2", [node("m1", 2, cluster="c2")], profile=PROFILE._replace(refused_fields=("kind=Training",)))
    _report(fleet, "c2", f"{CLAIMS}/data", named=True)
    fleet.submit(1, _mounts(DATA))
    assert _reason(fleet).code is WaitingReason.DATA_ELSEWHERE


def test_a_cluster_of_which_nothing_is_known_is_not_where_the_data_is() -> None:
    fleet = _fleet()
    fleet.inventory("c2", [node("m1", 2, cluster="c2")], profile=PROFILE._replace(refused_fields=("kind=Training",)))
    _report(fleet, "c2", named=False)
    fleet.submit(1, _mounts(DATA))
    assert _reason(fleet).code is WaitingReason.DATA_MISSING


def test_a_class_that_was_placed_before_is_held_back_once_its_claim_is_deleted() -> None:
    fleet = Fleet(node("n1", 4), profile=PROFILE)  # its classes are decided in batches, which keep what they know
    _report(fleet, "c1", f"{CLAIMS}/data", named=True)
    for number in (1, 2):
        fleet.submit(number, _mounts(DATA))
    assert fleet.workload(2).phase is Phase.INITIALIZING
    _report(fleet, "c1")
    fleet.submit(3, _mounts(DATA))
    assert (fleet.workload(3).phase, _reason(fleet, 3).code) == (Phase.PENDING, WaitingReason.DATA_MISSING)
    _report(fleet, "c1", f"{CLAIMS}/data")
    assert fleet.workload(3).phase is Phase.INITIALIZING


def test_a_claim_that_goes_changes_the_reason_of_who_waits_for_room() -> None:
    fleet = Checked(node("n1", 1), profile=PROFILE, quota=6)
    _report(fleet, "c1", f"{CLAIMS}/data", named=True)
    fleet.submit(1)
    fleet.submit(2, _mounts(DATA))
    assert _reason(fleet, 2).code is WaitingReason.NO_CAPACITY
    _report(fleet, "c1")
    assert _reason(fleet, 2).code is WaitingReason.DATA_MISSING


def test_only_those_that_mount_something_there_are_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = _fleet()
    _report(fleet, "c2", f"{CLAIMS}/other")
    fleet.submit(1, _mounts(DATA))
    fleet.submit(2, request(role(whole(8))))
    woken: list[ClassKey] = []
    monkeypatch.setattr(fleet.world.waiting, "_wake", woken.append)
    fleet.world.waiting.wake_mounting({"runai-q"})
    assert woken == []
    fleet.world.waiting.wake_mounting({"runai-p"})
    assert [key.kin.mounts for key in woken] == [(DATA,)]


def test_a_list_that_was_cut_says_nothing_of_what_it_does_not_name() -> None:
    fleet = _fleet()
    _report(fleet, "c2", f"{CLAIMS}/a", truncated=True)
    fleet.submit(1, _mounts(DATA))
    assert fleet.workload(1).cluster == "c2"


def test_a_cluster_that_names_no_objects_may_have_any() -> None:
    fleet = _fleet()
    _report(fleet, "c1", named=False)
    fleet.submit(1, _mounts(DATA))
    assert fleet.workload(1).cluster == "c1"


def test_a_full_inventory_replaces_all_objects_and_a_cluster_that_leaves_has_none() -> None:
    fleet = _fleet()
    _report(fleet, "c2", f"{CLAIMS}/data")
    fleet.inventory("c2", [node("m1", 2, cluster="c2")], profile=PROFILE)
    assert fleet.world.clusters["c2"].objects == {}
    assert fleet.world.clusters["c2"].names_objects  # this report says nothing of it
    _report(fleet, "c2", f"{CLAIMS}/data")
    fleet.send(events.ClusterLeft("c2"))
    fleet.stand_by(lead=False)
    assert (fleet.world.clusters["c2"].objects, fleet.world.clusters["c2"].names_objects) == ({}, False)


def test_what_runs_goes_on_when_a_claim_is_deleted() -> None:
    fleet = _fleet()
    _report(fleet, "c2", f"{CLAIMS}/data")
    fleet.submit(1, _mounts(DATA))
    fleet.run(1)
    _report(fleet, "c2")
    assert fleet.workload(1).phase is Phase.RUNNING


def test_a_row_keeps_what_is_mounted() -> None:
    made = _mounts(DATA, SETTINGS)
    assert to_request(*of_request(made), made.spec) == made


def test_a_report_is_read() -> None:
    inventory = fleet_pb2.Inventory(removed_namespaces=["gone"])
    inventory.profile.names_objects = True
    inventory.objects.add(namespace="runai-p", claims=["data"], config_maps=["settings"])
    many = [f"c{number}" for number in range(MOST_OBJECTS + 1)]
    inventory.objects.add(namespace="runai-q", claims=many)
    found = _objects(inventory)
    assert (found.named, found.removed) == (True, ("gone",))
    entries = dict(found.entries)
    assert entries["runai-p"] == Objects(frozenset({f"{CLAIMS}/data", f"{CONFIG_MAPS}/settings"}))
    assert (len(entries["runai-q"].names), entries["runai-q"].truncated) == (MOST_OBJECTS, True)
    assert _objects(fleet_pb2.Inventory()) == ReportedObjects()


def test_only_what_has_to_be_there_is_named() -> None:
    spec = workload_pb2.WorkloadSpec()
    spec.pvcs.add(label="new", claim_name="made", size="1Gi")
    spec.pvcs.add(label="data", claim_name="data", existing_pvc=True)
    spec.pvcs.add(label="dropped", claim_name="dropped", existing_pvc=True, deleted=True)
    spec.data_volumes.add(label="dataset", id="dataset")
    spec.config_map_volumes.add(label="settings", config_map="settings")
    assert mounts_of(spec, "runai-p") == (DATA, f"runai-p/{CLAIMS}/dataset", SETTINGS)
    spec.master_spec.pvcs.add(label="logs", claim_name="logs", existing_pvc=True)
    assert mounts_of(spec, "runai-p") == (DATA, f"runai-p/{CLAIMS}/dataset", f"runai-p/{CLAIMS}/logs", SETTINGS)

"""Gangs: the workers and the completed master, each with defaults and rules of its own."""

from __future__ import annotations

from typing import Any

from muster_language import LayerName, WorkloadSpec
from tests.support.policy_engine import admitted, refused, spec


def gang(*, master: bool = True, **fields: Any) -> WorkloadSpec:
    made = spec(3, **fields)
    if master:
        made.master_spec.args = "x"
    return made


SIDES = """
defaults: {worker.image: workers, master: {image: masters, compute.cpuMemoryRequest: 2Gi}}
rules:
  worker.compute.cpuCoreRequest: {max: 8}
  master: {compute: {cpuCoreRequest: {max: 2}, cpuMemoryRequest: {max: 2Gi}}, args: {required: true}}
"""


def test_workers_and_master_have_defaults_and_rules_of_their_own() -> None:
    own = gang(cpu="4")
    assert refused(own, SIDES) == {
        ("masterSpec.compute.cpuCoreRequest", "max", ""): ("4", "at most 2", "value must be no greater than 2")
    }
    own.master_spec.cpu = "1"
    verdict = admitted(own, SIDES)
    assert (verdict.effective.image, verdict.effective.master_spec.image) == ("workers", "masters")
    assert (verdict.effective.memory, verdict.effective.master_spec.memory) == ("", "2Gi")
    assert dict(verdict.sources)["masterSpec.image"] == LayerName.TENANT


def test_defaults_of_a_master_make_none() -> None:
    effective = admitted(gang(master=False, cpu="4"), SIDES).effective
    assert not effective.HasField("master_spec")
    template = gang(cpu="1")
    assert admitted(gang(master=False), SIDES, base=template).effective.master_spec.image == "masters"


def test_the_master_is_complete_in_the_effective_spec() -> None:
    own = gang(framework=1, gpu_devices_request=2, image="img")
    own.master_spec.memory = "1Gi"
    verdict = admitted(own)
    master = verdict.effective.master_spec
    assert (master.command, master.image, master.memory) == ("true", "img", "1Gi")
    assert not master.HasField("gpu_devices_request")
    assert [(each.role, each.count, each.gpu_devices) for each in verdict.requests] == [
        ("launcher", 1, 0),
        ("worker", 2, 2),
    ]


def test_what_the_master_has_from_the_workers_is_the_users_where_they_gave_it() -> None:
    rule = "rules: {master.security.hostNetwork: {canEdit: false}}"
    assert set(refused(gang(host_network=True), rule)) == {("masterSpec.security.hostNetwork", "canEdit", "")}
    default = "defaults: {worker.security.hostNetwork: true}\n"
    admitted(gang(), default + rule)
    admitted(gang(host_network=True), default + rule)
    blocked = "rules: {master.storage.hostPath.instances: {blocked: true}}"
    own = gang()
    own.volumes.add(label="v", path="/x", mount_path="/x")
    assert set(refused(own, blocked)) == {("masterSpec.storage.hostPath", "blocked", "v")}
    assert set(refused(own, blocked.replace("blocked: true", "canAdd: false"))) == {
        ("masterSpec.storage.hostPath", "canAdd", "v")
    }


def test_a_default_item_of_the_workers_is_not_added_to_the_master() -> None:
    policy = (
        "defaults: {worker.labels.instances: [{name: a, value: b}]}\n"
        "rules: {master.labels.instances: {canAdd: false, locked: [a]}}"
    )
    own = gang()
    admitted(own, policy)
    own.master_spec.labels.add(label="a", value="b")
    admitted(own, policy)
    own.master_spec.labels[0].value = "c"
    assert set(refused(own, policy)) == {("masterSpec.labels", "locked", "a")}


def test_a_launcher_has_no_gpu_and_changed_none() -> None:
    policy = (
        "defaults: {worker.compute.gpuDevicesRequest: 2}\nrules: {master.compute.gpuDevicesRequest: {canEdit: false}}"
    )
    admitted(gang(framework=1), policy)
    own = gang(framework=1)
    own.master_spec.gpu_devices_request = 1
    assert set(refused(own, policy)) == {("masterSpec.compute.gpuDevicesRequest", "canEdit", "")}


def test_a_volume_of_the_workers_where_the_master_has_its_own() -> None:
    own = gang()
    own.pvcs.add(label="data", size="1Gi", path="/data")
    own.master_spec.volumes.add(label="disk", path="/disk", mount_path="/data")
    ((path, rule, _),) = refused(own)
    assert (path, rule) == ("masterSpec.storage.hostPath.disk", "language")


ATTRIBUTES = "defaults: {worker.ports.attributes.toolName: workers, master.ports.attributes.toolType: masters}"


def test_attributes_are_those_of_their_side() -> None:
    own = gang()
    own.ports.add(label="shared", container=80)
    own.master_spec.ports.add(label="own", container=81)
    verdict = admitted(own, ATTRIBUTES)
    assert [(each.label, each.tool_name, each.tool_type) for each in verdict.effective.ports] == [
        ("shared", "workers", "")
    ]
    assert [(each.label, each.tool_name, each.tool_type) for each in verdict.effective.master_spec.ports] == [
        ("shared", "workers", "masters"),
        ("own", "", "masters"),
    ]
    assert dict(verdict.sources)["masterSpec.ports.shared.toolType"] == LayerName.TENANT
    again = admitted(verdict.effective, ATTRIBUTES)
    assert again.effective == verdict.effective


def test_a_member_that_the_master_requires_of_every_item() -> None:
    own = gang()
    own.ports.add(label="shared", container=80)
    rule = "rules: {master.ports.attributes.toolType: {required: true}}"
    assert set(refused(own, rule)) == {("masterSpec.ports.shared.toolType", "required", "shared")}
    admitted(own, f"{ATTRIBUTES}\n{rule}")


def test_what_the_workers_lack_is_said_of_the_workers() -> None:
    assert set(refused(gang(), "rules: {worker.image: {required: true}}")) == {("image", "required", "")}
    both = "rules: {worker.image: {required: true}, master.image: {required: true}}"
    assert set(refused(gang(), both)) == {("image", "required", ""), ("masterSpec.image", "required", "")}
    admitted(gang(image="x"), both)


def test_an_item_that_the_master_repeats_from_the_workers_is_not_an_edit() -> None:
    policy = """
    defaults: {worker.ports.attributes.serviceType: LoadBalancer}
    rules: {master.ports.attributes.serviceType: {blocked: true}}
    """
    own = gang()
    own.ports.add(label="x", container=80)
    effective = admitted(own, policy).effective
    assert effective.master_spec.ports[0].service_type == effective.ports[0].service_type != 0
    assert admitted(effective, policy).effective == effective
    effective.master_spec.ports[0].container = 81  # an item of its own, with a member that it may not say
    assert [each[:2] for each in refused(effective, policy)] == [("masterSpec.ports.x.serviceType", "blocked")]

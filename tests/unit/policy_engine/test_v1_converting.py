"""v1 policies as v2 documents: what becomes of each form, and what v2 cannot say."""

from __future__ import annotations

import pytest

from muster_policy_engine.documents.converting import convert
from muster_policy_engine.documents.document import read_policies
from muster_policy_engine.documents.writing import write_policy
from muster_policy_engine.policy import Dialect
from tests.support.policies_v1 import issues, policy, workload


def said(spec: str, kind: str = "Training", siblings: str = "", namespace: str = "runai") -> tuple[str, list[str]]:
    """The text of the conversion below `policy:`, and what is lost."""
    converted = convert(policy(spec, kind, namespace, siblings))
    (found,) = read_policies(write_policy(converted.policy))
    assert found.policy == converted.policy
    return write_policy(converted.policy).split("policy:", 1)[1].strip("\n"), [str(each) for each in converted.lost]


def test_the_frame() -> None:
    found = convert(policy("cpu: {value: 1}", "Interactive", "science"))
    assert write_policy(found.policy).startswith(
        "kind: Policy\nname: house\nworkload: workspace\nscope:\n  project: lab\n"
    )
    assert found.policy.dialect is Dialect.V2
    assert [str(each) for each in found.lost] == [
        "in v1 it replaced the policy of all projects; in v2 that policy holds as well"
    ]


def test_values_members_items_and_attributes() -> None:
    text, lost = said(
        """
cpu: {rules: {max: 4}, value: 1}
ports:
  rules: {canAdd: false}
  itemRules: {container: {min: 1000}}
  items:
    a: {rules: {canEdit: false, canRemove: false}, value: {container: 1000}}
    DEFAULTS: {value: {toolType: x}}
imagePullPolicy: {rules: {options: [{value: Always, displayed: Each time}]}}
"""
    )
    assert lost == []
    assert (
        text
        == """  defaults:
    ports:
      instances:
      - name: a
        container: 1000
      attributes:
        toolType: x
    compute:
      cpuCoreRequest: '1'
  rules:
    compute:
      cpuCoreRequest:
        max: 4
    ports:
      attributes:
        container:
          min: 1000
      instances:
        canAdd: false
        locked:
        - a
    imagePullPolicy:
      options:
      - value: Always
        displayed: Each time"""
    )


def test_gpu_becomes_devices_and_portion() -> None:
    converted = convert(policy('gpu: {rules: {required: true, min: "1", max: "4"}, value: "1"}'))
    assert converted.lost == ()
    assert [str(each) for each in converted.notes] == [
        "spec.gpu: becomes compute.gpuDevicesRequest and compute.gpuPortionRequest",
        "spec.gpu: max is per worker: for all replicas together use totals.gpuMilli <= 4000",
    ]
    for gpu, admitted in (("0", False), ("0.5", False), ("1", True), ("4", True), ("5", False)):
        assert (issues(workload(f"gpu: {{value: {gpu}}}"), converted.policy) == []) is admitted


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("min: 2", "min 2: v2 admits a single device where no number is given"),
        ("max: 0.5", "max 0.5: v2 admits a whole device by gpuDevices, gpuMemory and migProfile"),
        ("step: 0.5", "step 0.5 is left out"),
        (
            "canEdit: false",
            "canEdit: v2 compares devices and portion, each alone: one device and a portion of 1 are different",
        ),
        ("required: true", "required: v2 refuses gpu 0 as well"),
    ],
)
def test_rules_of_gpu_that_v2_cannot_say(rules: str, message: str) -> None:
    assert said(f"gpu: {{rules: {{{rules}}}}}")[1] == [f"spec.gpu: {message}"]


def test_one_of_can_remove_and_can_edit_alone() -> None:
    text, lost = said(
        """
environment:
  items:
    A: {rules: {canRemove: false}, value: x}
    B: {rules: {canEdit: false}, value: x}
    C: {rules: {canEdit: false}, value: x}
"""
    )
    assert lost == [
        "spec.environment: canRemove: false alone of item A: v2 locks them altogether",
        "spec.environment: canEdit: false alone of items B, C: v2 locks them altogether",
    ]
    assert text.endswith("locked:\n        - A\n        - B\n        - C")


def test_at_least_one_item() -> None:
    text, lost = said("ports: {rules: {required: true, canAdd: true}}")
    assert lost == ["spec.ports: required: v2 cannot ask for at least one item"]
    assert text == "  rules:\n    ports:\n      instances:\n        canAdd: true"


def test_a_required_server_blocks_host_paths() -> None:
    text, lost = said("volumes: {rules: {canAdd: true}, itemRules: {nfsServer: {required: true, options: [nas]}}}")
    assert lost == []
    assert text == (
        "  rules:\n    storage:\n      hostPath:\n        instances:\n          blocked: true\n"
        "      nfs:\n        attributes:\n          server:\n            options:\n            - nas"
    )


def test_a_default_host_path_with_a_required_server() -> None:
    text, lost = said(
        "volumes: {itemRules: {nfsServer: {required: true}}, items: {a: {value: {path: /x, mountPath: /y}}}}"
    )
    assert lost == ["spec.volumes.itemRules.nfsServer: v2 blocks host paths: the default volumes are left out"]
    assert "/x" not in text


def test_a_default_volume_of_a_server_goes_to_nfs_with_its_lock() -> None:
    text, lost = said(
        """
volumes:
  items:
    a: {rules: {canEdit: false, canRemove: false}, value: {path: /x, mountPath: /y, nfsServer: nas}}
    b: {rules: {canEdit: false, canRemove: false}, value: {path: /v, mountPath: /w}}
"""
    )
    assert lost == ["spec.volumes: a becomes an item of storage.nfs: workloads change it there"]
    item = "- name: a\n          path: /x\n          mountPath: /y\n          server: nas"
    assert f"nfs:\n        instances:\n        {item}" in text
    assert "nfs:\n        instances:\n          locked:\n          - a" in text
    assert "hostPath:\n        instances:\n          locked:\n          - b" in text


@pytest.mark.parametrize(
    ("spec", "lost", "part"),
    [
        (
            "serviceType: {value: NodePort}",
            "v2 gives it to each port, above what a workload says for all",
            "serviceType: NodePort",
        ),
        (
            "mountPropagation: {value: true}",
            "v2 gives it to each host path, above what a workload says for all",
            "mountPropagation: HostToContainer",
        ),
        (
            "runAsUser: {value: true}",
            "v2 names the source of the ids; ids that a workload gives need custom",
            "uidGidSource: fromIdpToken",
        ),
        ("tty: {value: true}", "v2 takes no default for this field: the default is left out", "{}"),
        (
            "runAsUser: {rules: {canEdit: false}}",
            "v2 judges the source of the ids: custom and fromIdpToken are two values",
            "uidGidSource:\n        canEdit: false",
        ),
        ("emptyDirVolumes: {items: {a: {value: {path: /x}}}}", "v2 has no such items: a is left out", "{}"),
    ],
)
def test_fields_of_yaml_alone(spec: str, lost: str, part: str) -> None:
    text, found = said(spec)
    assert [each.partition(": ")[2] for each in found] == [lost]
    assert part in text


def test_an_extended_resource_keeps_its_label() -> None:
    text, lost = said("extendedResources: {items: {nics: {value: {name: vendor.com/nic, quantity: 2}}}}")
    assert lost == []
    assert "- name: nics\n          resource: vendor.com/nic" in text


def test_ids_of_a_policy_need_a_custom_source() -> None:
    text, _ = said("runAsUser: {value: true}\nrunAsUid: {value: 500}")
    assert "uidGidSource: custom" in text


def test_preemptible_is_judged_alone() -> None:
    text, lost = said("preemptible: {rules: {canEdit: false}, value: false}", "Interactive")
    assert lost == ["spec.preemptible: v2 judges the field alone: a priorityClass that makes it preemptible passes"]
    assert text == "  defaults:\n    preemptible: false\n  rules:\n    preemptible:\n      canEdit: false"


def test_a_field_that_v2_does_not_have_for_the_kind() -> None:
    text, lost = said("hostIpc: {rules: {required: true}, value: false}", "Inference")
    assert text == " {}" or text.strip() == "{}"
    assert sorted(lost) == [
        "spec.hostIpc: v2 has no rules for this field of inference workloads: they are left out",
        "spec.hostIpc: v2 takes no default for this field: the default is left out",
    ]


def test_two_fields_of_v1_and_one_rule_of_v2() -> None:
    text, lost = said(
        """
ports: {itemRules: {serviceType: {options: [NodePort]}}}
serviceType: {rules: {options: [ClusterIP], required: true}}
"""
    )
    assert lost == [
        "spec.serviceType: v2 has one rule for ports.attributes.serviceType, and another field of v1 gave it already"
    ]
    assert "- NodePort" in text
    assert "ClusterIP" not in text
    assert "required: true" in text


def test_rules_of_a_gang_are_those_of_workers_and_master() -> None:
    text, lost = said("image: {rules: {required: true, options: [x]}, value: x}", "Distributed")
    assert lost == []
    assert (
        text
        == """  defaults:
    worker:
      image: x
  rules:
    worker:
      image:
        required: true
        options:
        - x
    master:
      image:
        options:
        - x"""
    )


def test_spec_and_master_spec_at_once() -> None:
    text, lost = said(
        "image: {rules: {options: [x]}}",
        "Distributed",
        "masterSpec: {image: {rules: {options: [y]}}, tty: {value: true}}",
    )
    assert lost == [
        "masterSpec.tty: v2 takes no default for this field: the default is left out",
        "spec.image: spec and masterSpec both rule what a master says: v2 has masterSpec's rules there",
    ]
    assert "worker:\n      image:\n        options:\n        - x" in text
    assert "master:\n      image:\n        options:\n        - y" in text


def test_who_changes_a_master() -> None:
    _, lost = said("image: {rules: {canEdit: false}, value: x}", "Distributed")
    assert lost == ["spec.image: v2 compares what a master says with master defaults, not with the workers'"]


def test_a_policy_of_v2_is_its_own_conversion() -> None:
    converted = convert(policy("cpu: {value: 1}")).policy
    assert convert(converted).policy is converted

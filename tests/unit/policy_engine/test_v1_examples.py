"""The public examples of v1 policies from end to end: document, composition, verdict."""

from __future__ import annotations

from muster_policy_engine.composing import compose
from muster_policy_engine.effective import effective_defaults, effective_rules
from muster_policy_engine.policy import Dialect, Level, Scope
from tests.support.policies_v1 import documents, effective, issues, policy, workload

INTERACTIVE = """
apiVersion: run.ai/v2alpha1
kind: InteractivePolicy
metadata:
  name: interactive-policy
  namespace: runai
spec:
  gpu:
    rules: {required: true, min: "1", max: "4"}
    value: "1"
  ports:
    rules: {canAdd: true, required: false}
    itemRules:
      container: {min: 30000, max: 32767}
      external: {max: 32767}
    items:
      admin-port-a:
        rules: {canRemove: false, canEdit: false}
        value: {container: 30100, external: 8080}
      admin-port-b:
        value: {container: 30101, external: 8081}
"""


def test_the_administrator_sets_a_maximum_of_gpus_and_a_default() -> None:
    house = policy('gpu: {rules: {max: "5"}, value: "1"}')
    assert effective(workload(""), house).gpu_portion_request == 1
    assert issues(workload("gpu: {value: 5}"), house) == []
    assert issues(workload("gpu: {value: 6}"), house) == ["gpu: must be no greater than 5"]


def test_the_interactive_policy_of_the_reference() -> None:
    (found,) = documents(INTERACTIVE)
    assert found.violations == []
    house = found.policy
    assert house is not None
    assert (house.name, house.scope, house.dialect) == ("interactive-policy", Scope(), Dialect.V1)
    spec = effective(workload("", "Interactive"), house)
    assert [(port.label, port.container, port.external) for port in spec.ports] == [
        ("admin-port-a", 30100, 8080),
        ("admin-port-b", 30101, 8081),
    ]
    assert issues(workload("gpu: {value: 5}", "Interactive"), house) == ["gpu: must be no greater than 4"]
    assert issues(workload("gpu: {value: 0.5}", "Interactive"), house) == ["gpu: must be no less than 1"]
    own = workload("ports: {items: {mine: {value: {container: 8080, external: 40000}}}}", "Interactive")
    assert issues(own, house) == [
        "ports.mine.container: must be no less than 30000",
        "ports.mine.external: must be no greater than 32767",
    ]


def test_an_item_with_both_flags_is_hardwired_and_the_other_is_not() -> None:
    (found,) = documents(INTERACTIVE)
    assert found.policy is not None
    for change in ("deleted: true", "value: {container: 30100, external: 8082}"):
        own = workload(f"ports: {{items: {{admin-port-a: {{{change}}}}}}}", "Interactive")
        hint = "ports: the administrator prohibited modifying item 'admin-port-a'"
        assert issues(own, found.policy) == [hint]
    own = workload("ports: {items: {admin-port-b: {deleted: true}}}", "Interactive")
    assert [port.label for port in effective(own, found.policy).ports] == ["admin-port-a"]


def test_what_holds_is_listed_with_the_rules_of_v1() -> None:
    house = policy(
        """
gpu: {rules: {max: 4}, value: 1}
volumes:
  itemRules: {nfsServer: {required: true}}
  items:
    a: {rules: {canRemove: false}, value: {path: /x, mountPath: /y, nfsServer: nas}}
    b: {rules: {canEdit: false}, value: {path: /v, mountPath: /w, nfsServer: nas}}
"""
    )
    composed = compose(house.kind, [house])
    assert [(each.path, each.rule, each.value) for each in effective_rules(composed)] == [
        ("gpu", "max", "4"),
        ("storage.hostPath.attributes.nfsServer", "required", "true"),
        ("storage.hostPath.instances", "canEdit", "b"),
        ("storage.hostPath.instances", "canRemove", "a"),
    ]
    assert [(each.path, each.item, each.value) for each in effective_defaults(composed)] == [
        ("compute.gpuPortionRequest", "", "1"),
        ("storage.hostPath.instances", "a", "path: /x, mountPath: /y, nfsServer: nas"),
        ("storage.hostPath.instances", "b", "path: /v, mountPath: /w, nfsServer: nas"),
    ]


def test_layers_of_policy_template_and_workload_merge_items_by_label() -> None:
    house = policy(
        """
ports:
  items:
    a: {value: {container: 30100, external: 8080}}
    b: {value: {container: 30101, external: 8081}}
"""
    )
    first, second = (
        "a: {value: {container: 30100, external: 8100}}",
        "team: {value: {container: 30111, external: 8111}}",
    )
    template = workload(f"ports: {{items: {{{first}, {second}}}}}")
    own = workload("ports: {items: {b: {deleted: true}, mine: {value: {container: 30222, external: 8222}}}}")
    ports = effective(own, house, base=template).ports
    assert [(port.label, port.container, port.external) for port in ports] == [
        ("a", 30100, 8100),
        ("team", 30111, 8111),
        ("mine", 30222, 8222),
    ]


def test_a_template_is_judged_by_the_policy_of_now() -> None:
    template = workload("gpu: {value: 2}")
    assert issues(workload(""), policy("gpu: {rules: {max: 2}}"), base=template) == []
    assert issues(workload(""), policy("gpu: {rules: {max: 1}}"), base=template) == ["gpu: must be no greater than 1"]


def test_a_required_value_is_met_by_the_default() -> None:
    assert issues(workload(""), policy("gpu: {rules: {required: true}, value: 1}")) == []
    assert issues(workload(""), policy("gpu: {rules: {required: true}}")) == ["gpu: a value is required"]


def test_a_read_only_field() -> None:
    house = policy("terminateAfterPreemption: {value: true, rules: {canEdit: false}}")
    assert effective(workload(""), house).terminate_after_preemption
    assert issues(workload("terminateAfterPreemption: {value: true}"), house) == []
    assert issues(workload("terminateAfterPreemption: {value: false}"), house) == [
        "terminateAfterPreemption: the administrator prohibited changing the value of this field"
    ]


def test_default_members_of_all_items_and_nil() -> None:
    house = policy(
        """
pvcs:
  items:
    DEFAULTS: {value: {claimName: shared, existingPvc: true, path: nil}}
"""
    )
    own = workload("pvcs: {items: {mine: {value: {path: /data}}, other: {value: {claimName: x, path: /x}}}}")
    claims = [(each.label, each.claim_name, each.existing_pvc, each.path) for each in effective(own, house).pvcs]
    assert claims == [("mine", "shared", True, "/data"), ("other", "x", True, "/x")]


def test_the_idiom_against_host_paths() -> None:
    house = policy("volumes: {itemRules: {nfsServer: {required: true}}}")
    local = workload("volumes: {items: {a: {value: {path: /x, mountPath: /y}}}}")
    remote = workload("volumes: {items: {a: {value: {path: /x, mountPath: /y, nfsServer: nas}}}}")
    own = workload("nfs: {items: {a: {value: {sourcePath: /x, targetPath: /y, nfsServer: nas}}}}")
    assert issues(local, house) == ["volumes.a.nfsServer: a value is required"]
    assert issues(remote, house) == issues(own, house) == issues(workload(""), house) == []


def test_a_policy_of_a_project_replaces_the_global_one_whole() -> None:
    everywhere = policy("gpu: {rules: {max: 1}, value: 1}\nimage: {rules: {options: [a]}}")
    here = policy("cpu: {value: 1}", namespace="runai-team-a")
    assert here.scope == Scope(Level.PROJECT, "team-a")
    spec = effective(workload("gpu: {value: 8}"), everywhere, here)
    assert (spec.gpu_devices_request, spec.cpu) == (8, "1")
    assert issues(workload("gpu: {value: 8}"), everywhere) == [
        "gpu: must be no greater than 1",
        "image: must be one of: a",
    ]

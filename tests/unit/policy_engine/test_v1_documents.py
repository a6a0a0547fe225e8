"""v1 documents: each form that they may have, and what it becomes."""

from __future__ import annotations

import pytest

from muster_language import Kind
from muster_policy_engine.documents.document import Frame, read_policies
from muster_policy_engine.documents.v1 import KINDS, usual_project
from muster_policy_engine.documents.v1_fields import fields
from muster_policy_engine.policy import Dialect, Level, Policy, Scope
from tests.support.policies_v1 import document, documents, errors, policy


def rules(found: Policy) -> dict[str, dict[str, object]]:
    """The rules of a policy as plain values, by path."""
    return {
        path: {name: getattr(value := getattr(each.rules, name), "text", value) for name in each.rules.said}
        for path, each in found.body.rules.items()
    }


def defaults(found: Policy) -> dict[tuple[str, str], object]:
    """The defaults of a policy by path and label; of an item its members by their proto names."""
    return {
        (each.place.path, each.label): {member.name: value for member, value in each.members if member is not None}
        if each.place.instances
        else each.value
        for each in found.body.defaults
    }


def test_each_kind() -> None:
    assert KINDS == {
        "InteractivePolicy": Kind.WORKSPACE,
        "TrainingPolicy": Kind.TRAINING,
        "DistributedPolicy": Kind.DISTRIBUTED,
        "InferencePolicy": Kind.INFERENCE,
    }
    for word, kind in KINDS.items():
        found = policy("cpu: {value: 2, rules: {max: 4}}", word.removesuffix("Policy"))
        assert (found.kind, found.name, found.dialect) == (kind, "house", Dialect.V1)
        assert defaults(found) == {("compute.cpuCoreRequest", ""): "2"}
        assert rules(found) == {"compute.cpuCoreRequest": {"maximum": "4"}}


def test_namespaces_are_those_of_projects_or_of_all() -> None:
    assert policy("cpu: {value: 2}").scope == Scope()
    assert policy("cpu: {value: 2}", namespace="science").scope == Scope(Level.PROJECT, "lab")
    assert "metadata.namespace" in errors(document("cpu: {value: 2}", namespace="other"))
    assert (usual_project("runai-team-a"), usual_project("runai-"), usual_project("x")) == ("team-a", None, None)
    (found,) = read_policies(document("cpu: {value: 2}", namespace="z"), projects=lambda name: name * 2)
    assert found.policy is not None
    assert found.policy.scope == Scope(Level.PROJECT, "zz")


def test_every_rule_of_a_value() -> None:
    found = policy(
        """
backoffLimit: {rules: {required: true, canEdit: false, min: 2, max: "10", step: 2}, value: 4}
imagePullPolicy: {rules: {options: [Always, {value: IfNotPresent, displayed: If not present}]}}
"""
    )
    assert rules(found)["backoffLimit"] == {
        "required": True,
        "can_edit": False,
        "minimum": "2",
        "maximum": "10",
        "step": "2",
    }
    options = found.body.rules["imagePullPolicy"].rules.options
    assert options is not None
    assert (options.texts, options.displayed) == (("Always", "IfNotPresent"), ("", "If not present"))


def test_every_form_of_a_list() -> None:
    found = policy(
        """
ports:
  rules: {canAdd: false, required: true}
  itemRules: {container: {min: 1000}, serviceType: {options: [NodePort]}}
  items:
    both: {rules: {canRemove: false, canEdit: false}, value: {container: 1}}
    kept: {rules: {canRemove: false}, value: {container: 2, toolType: nil}}
    fixed: {rules: {canRemove: true, canEdit: false}, value: {container: 3}}
    free: {rules: {canRemove: true, canEdit: true}, value: {container: 4}}
    bare: {value: nil}
    DEFAULTS: {value: {external: 8080, toolName: ~}}
"""
    )
    assert rules(found) == {
        "ports.instances": {
            "can_add": False,
            "required": True,
            "locked": ("both",),
            "kept": ("kept",),
            "fixed": ("fixed",),
        },
        "ports.attributes.container": {"minimum": "1000"},
        "ports.attributes.serviceType": {"options": found.body.rules["ports.attributes.serviceType"].rules.options},
    }
    assert defaults(found) == {
        ("ports.instances", "both"): {"container": 1},
        ("ports.instances", "kept"): {"container": 2},
        ("ports.instances", "fixed"): {"container": 3},
        ("ports.instances", "free"): {"container": 4},
        ("ports.attributes.external", ""): 8080,
    }


def test_values_as_workloads_write_them() -> None:
    found = policy(
        """
gpu: {value: "0.5"}
nodePools: {value: "a, b"}
supplementalGroups: {value: 1;2}
capabilities: {items: {one: {value: {capability: sys_admin}}}}
readinessProbe: {value: {httpGet: {port: 80}, periodSeconds: 5}}
environment: {items: {KEY: {value: "SECRET:name,key"}}}
extendedResources: {items: {nics: {value: {name: vendor.com/nic, quantity: 2}}}}
configMapVolume: {items: {c: {value: {name: settings, mountPath: /c}}}}
emptyDirVolumes: {items: {e: {value: {path: /e}}}}
tty: {value: true}
"""
    )
    assert defaults(found) == {
        ("compute.gpuPortionRequest", ""): 0.5,
        ("nodePools", ""): ["a", "b"],
        ("security.supplementalGroups", ""): "1,2",
        ("security.capabilities", ""): ["SYS_ADMIN"],
        ("probes.readiness.handler.httpGet.port", ""): 80,
        ("probes.readiness.periodSeconds", ""): 5,
        ("environmentVariables.instances", "KEY"): {"value": "SECRET:name,key"},
        ("compute.extendedResources.instances", "nics"): {"resource": "vendor.com/nic", "quantity": "2"},
        ("storage.configMapVolume.instances", "c"): {"config_map": "settings", "mount_path": "/c"},
        ("emptyDirVolumes.instances", "e"): {"path": "/e"},
        ("tty", ""): True,
    }
    assert defaults(policy("gpu: {value: 2}")) == {("compute.gpuDevicesRequest", ""): 2}


def test_a_bare_word_and_its_wrapped_form() -> None:
    for spec in ("jobType: MPIJob", "jobType: {value: MPIJob}"):
        assert defaults(policy(spec, "Distributed")) == {("distributedFramework", ""): 1}


@pytest.mark.parametrize("nothing", ["nil", "null", "~", ""])
def test_nothing_is_no_default(nothing: str) -> None:
    found = policy(f"workingDir:\n  value: {nothing}\n  rules: {nothing}\nimage: {nothing}\n")
    assert (found.body.defaults, dict(found.body.rules)) == ((), {})


def test_quoted_nil_is_a_text() -> None:
    assert defaults(policy('image: {value: "nil"}')) == {("image", ""): "nil"}


def test_the_master_has_fields_of_its_own() -> None:
    found = policy(
        "image: {value: w, rules: {required: true}}",
        "Distributed",
        siblings="masterSpec: {image: {value: m, rules: {canEdit: false}}}",
    )
    assert rules(found) == {"image": {"required": True}, "master.image": {"can_edit": False}}
    assert defaults(found) == {("image", ""): "w", ("master.image", ""): "m"}
    said = errors(document("cpu: {value: 1}", "Distributed", siblings="masterSpec: {workers: {value: 2}}"))
    assert said["masterSpec.workers"][0] == (
        'unknown field "workers": it belongs to the workload as a whole, under spec'
    )
    said = errors(document("cpu: {value: 1}", siblings="masterSpec: {cpu: {value: 2}}"))
    assert said["masterSpec"][0] == "training workloads have no master"


def test_one_file_of_both_dialects() -> None:
    v2 = "kind: Policy\nworkload: inference\nscope: tenant\npolicy: {defaults: {image: x}}\n"
    found = documents(f"{document('cpu: {value: 1}')}---\n{v2}---\n{document('cpu: {value: x}', 'Interactive')}")
    assert [each.policy and each.policy.dialect for each in found] == [Dialect.V1, Dialect.V2, None]
    assert [(each.line, each.column) for each in found[2].violations] == [(18, 16)]
    assert found[0].text == document("cpu: {value: 1}")


def test_two_documents_of_one_kind_and_scope_are_refused() -> None:
    v2 = "kind: Policy\nworkload: training\nscope: tenant\npolicy: {defaults: {image: x}}\n"
    for other in (document("image: {value: y}"), v2):
        first, second = documents(f"{document('cpu: {value: 1}')}---\n{other}")
        assert first.policy is not None
        assert (second.policy, second.violations[0].line) == (None, 7)


def test_a_document_does_not_go_into_a_frame() -> None:
    (found,) = read_policies(document("cpu: {value: 1}"), Frame(Kind.TRAINING, Scope()))
    assert found.policy is None


def test_every_field_and_member_can_be_named() -> None:
    for kind in Kind:
        for word, field in fields(kind).items():
            given = "items: {a: {value: nil}}" if field.itemized else "value: nil"
            once = {place.path: member for member, place in field.members.items()}  # some go by two names
            members = ", ".join(f"{member}: nil" for member in once.values()) if field.itemized else ""
            every = f"{word}: {{rules: nil, {f'itemRules: {{{members}}}, ' if members else ''}{given}}}"
            text = document(every, kind.document.removesuffix("Workload"))
            (found,) = documents(text)
            assert found.violations == [], word
            assert found.policy is not None


def test_rules_without_a_word_are_no_rules() -> None:
    assert dict(policy("gpu: {rules: {}}\nports: {rules: {canAdd: nil}}").body.rules) == {}

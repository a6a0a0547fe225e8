"""Policy documents: what they say, alone and several in a text, with and without a frame."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from muster_language import Kind
from muster_policy_engine.documents.document import Frame, framed, read_policies
from muster_policy_engine.policy import Bound, Default, Level, Options, Policy, Reserved, Scope

DOCUMENT = """\
kind: Policy
name: research-trainings
workload: training
scope: {department: research}
policy:
  defaults:
    compute: {cpuCoreRequest: "100m"}
    compute.cpuMemoryRequest: 1Gi
    nodePools: [a, b]
    environmentVariables:
      instances:
        - {name: A, value: b}
        - {name: B, exclude: true}
    storage: {pvc: {instances: [{name: data, path: /data, claimInfo: {size: 1Gi, accessModes: {readWriteOnce: true}}}]}}
    ports: {attributes: {serviceType: ClusterIP}}
  rules:
    compute:
      gpuPortionRequest: {max: 0.5, step: 0.25}
      cpuMemoryRequest: {min: 1Gi, max: 4Gi}
      cpuCoreRequest: {defaultFrom: {field: compute.cpuCoreLimit, factor: 0.5}}
    compute.gpuMemoryRequest: {defaultFrom: {field: compute.gpuDevicesRequest, factor: 16Gi}}
    imagePullPolicy: {options: [Always, {value: never, displayed: Not at all}]}
    nodePools: {required: true}
    backoffLimit: {required: true, canEdit: false, max: 5}
    storage: {hostPath: {instances: {blocked: true}}}
    environmentVariables.instances: {canAdd: false, locked: [A]}
    ports: {attributes: {container: {defaultFrom: {field: external, factor: 1}}}}
  reserved: {rules: [security], defaults: [nodePools]}
"""


def read(text: str, frame: Frame | None = None) -> Policy:
    (found,) = read_policies(text, frame)
    assert found.policy is not None, found.violations
    return found.policy


def defaults_of(policy: Policy) -> dict[str, list[Default]]:
    found: dict[str, list[Default]] = {}
    for each in policy.body.defaults:
        found.setdefault(each.place.path, []).append(each)
    return found


def test_the_frame() -> None:
    policy = read(DOCUMENT)
    assert (policy.name, policy.kind) == ("research-trainings", Kind.TRAINING)
    assert policy.scope == Scope(Level.DEPARTMENT, "research")
    assert str(policy.scope) == "department research"
    assert (policy.id, policy.version) == ("", 0)
    assert policy.body.reserved == Reserved(("security",), ("nodePools",))


def test_the_defaults() -> None:
    given = defaults_of(read(DOCUMENT))
    assert given["compute.cpuCoreRequest"][0].value == "100m"
    assert given["compute.cpuMemoryRequest"][0].value == "1Gi"
    assert given["nodePools"][0].value == ["a", "b"]
    first, second = given["environmentVariables.instances"]
    assert (first.label, first.excluded, second.label, second.excluded) == ("A", False, "B", True)
    (volume,) = given["storage.pvc.instances"]
    said = {member.name: value for member, value in volume.members if member is not None}
    assert said == {"path": "/data", "size": "1Gi", "read_write_once": True}
    assert volume.label == "data"
    assert given["ports.attributes.serviceType"][0].attribute


def test_the_rules() -> None:
    rules = {path: each.rules for path, each in read(DOCUMENT).body.rules.items()}
    limit = rules["backoffLimit"]
    assert (limit.required, limit.can_edit, limit.maximum) == (True, False, Bound(Decimal(5), "5"))
    assert rules["compute.cpuMemoryRequest"].minimum == Bound(1 << 30, "1Gi")
    assert rules["compute.gpuPortionRequest"].said == ("maximum", "step")
    assert rules["imagePullPolicy"].options == Options((1, 3), ("Always", "never"), ("", "Not at all"))
    assert rules["environmentVariables.instances"].locked == ("A",)
    assert rules["storage.hostPath.instances"].blocked


def test_what_defaults_are_worked_out_from() -> None:
    rules = {path: each.rules.default_from for path, each in read(DOCUMENT).body.rules.items()}
    request, memory = rules["compute.cpuCoreRequest"], rules["compute.gpuMemoryRequest"]
    assert request is not None
    assert (request.source.path, request.factor, request.text) == ("compute.cpuCoreLimit", Fraction(1, 2), "0.5")
    assert memory is not None
    assert (memory.source.path, memory.factor) == ("compute.gpuDevicesRequest", Fraction(16 << 30))
    port = rules["ports.attributes.container"]
    assert port is not None
    assert port.source.path == "ports.attributes.external"


def test_a_member_of_an_item_may_be_worked_out_from_a_field_of_its_side() -> None:
    rule = "rules: {exposedUrls.attributes.container: {defaultFrom: {field: backoffLimit, factor: 1}}}"
    read(rule, Frame(Kind.TRAINING, Scope()))


@pytest.mark.parametrize(
    ("scope", "meant"),
    [
        ("tenant", Scope()),
        ("{cluster: north}", Scope(Level.CLUSTER, "north")),
        ("{department: '3'}", Scope(Level.DEPARTMENT, "3")),
        ("{project: 3}", Scope(Level.PROJECT, "3")),
    ],
)
def test_scopes(scope: str, meant: Scope) -> None:
    assert read(f"kind: Policy\nworkload: inference\nscope: {scope}\npolicy: {{}}\n").scope == meant


@pytest.mark.parametrize(
    "body", ["", " {}", " ~", "\n  defaults: null\n  rules: ~", "\n  defaults:\n  rules:\n  reserved:", "\n  # none"]
)
def test_a_policy_may_be_empty(body: str) -> None:
    policy = read(f"kind: Policy\nname: ~\nworkload: workspace\nscope: tenant\npolicy:{body}\n")
    assert (policy.body.defaults, dict(policy.body.rules), policy.body.reserved) == ((), {}, Reserved())


def test_no_assets_are_imposed() -> None:
    read("imposedAssets: []", Frame(Kind.TRAINING, Scope()))
    read("imposedAssets: {worker: [], master: []}", Frame(Kind.DISTRIBUTED, Scope()))


BODIES = [
    "defaults: {backoffLimit: 3}\nrules: {backoffLimit: {max: 5}}\n",
    "{rules: {image: {required: true}}}",
    "--- {rules: {image: {required: true}}}",
    "\n# why\n---\nrules:\n  image: {required: true}\n...\n\n",
    "\ufeffrules: {image: {required: true}}",
    "defaults:\n  command: |\n    a\n      b\n\n    c\n",
    "defaults: {environmentVariables.instances: [{name: A, value: '---'}]}\n",
]


@pytest.mark.parametrize("body", BODIES)
def test_a_body_alone_has_its_frame_from_outside(body: str) -> None:
    frame = Frame(Kind.TRAINING, Scope(Level.PROJECT, 'a "b"'), "named")
    (found,) = read_policies(body, frame)
    assert found.policy is not None, found.violations
    assert (found.policy.kind, found.policy.scope, found.policy.name) == (Kind.TRAINING, frame.scope, "named")
    (again,) = read_policies(found.text)
    assert again.policy == found.policy
    assert again.text == found.text


def test_the_text_of_a_body_is_framed() -> None:
    text = framed("rules:\n  image: {required: true}\n", Frame(Kind.INFERENCE, Scope()))
    assert text == "kind: Policy\nworkload: inference\nscope: tenant\npolicy:\n  rules:\n    image: {required: true}\n"


def test_an_empty_text_has_no_policy() -> None:
    assert read_policies("") == []
    assert read_policies("# nothing\n---\n~\n") == []
    assert read_policies("\n", Frame(Kind.TRAINING, Scope())) == []


SEVERAL = """\
# the first
kind: Policy
workload: training
scope: tenant
policy: {rules: {image: {required: true}}}
--- # parted
kind: Policy
workload: workspace
scope: tenant
policy: {}
...
---
kind: Policy
workload: training
scope: {project: vision}
policy: {}
"""


def test_several_documents_each_have_their_own_text() -> None:
    found = read_policies(SEVERAL)
    assert [each.line for each in found] == [2, 6, 12]
    assert [each.policy.kind for each in found if each.policy] == [Kind.TRAINING, Kind.WORKSPACE, Kind.TRAINING]
    assert found[0].text.startswith("# the first\nkind: Policy\n")
    for each in found:
        (again,) = read_policies(each.text)
        assert again.policy == each.policy
        assert "---" not in each.text


def test_one_document_for_each_kind_and_scope() -> None:
    found = read_policies(SEVERAL + "---\n" + SEVERAL)
    assert [each.policy is not None for each in found] == [True] * 3 + [False] * 3
    (first,) = found[3].violations
    assert first.message == "the training policy of the tenant is given twice, first in line 2"
    assert (first.line, first.column) == (17, 1)
    assert found[5].violations[0].message.endswith("the project vision is given twice, first in line 12")


GANG = """\
defaults:
  worker: {image: workers, compute.cpuCoreRequest: 1}
  master.image: masters
rules:
  worker:
    numWorkers: {max: 8}
    compute: {cpuCoreRequest: {max: 8, defaultFrom: {field: compute.cpuCoreLimit, factor: 1}}}
  master: {compute: {cpuCoreRequest: {max: 2, defaultFrom: {field: master.compute.cpuCoreLimit, factor: 1}}}}
"""


def test_a_gang_has_workers_and_a_master() -> None:
    policy = read(GANG, Frame(Kind.DISTRIBUTED, Scope()))
    assert set(defaults_of(policy)) == {"worker.image", "worker.compute.cpuCoreRequest", "master.image"}
    assert set(policy.body.rules) == {
        "worker.numWorkers",
        "worker.compute.cpuCoreRequest",
        "master.compute.cpuCoreRequest",
    }
    sources = [each.rules.default_from for each in policy.body.rules.values() if each.rules.default_from]
    assert [each.source.path for each in sources] == ["worker.compute.cpuCoreLimit", "master.compute.cpuCoreLimit"]

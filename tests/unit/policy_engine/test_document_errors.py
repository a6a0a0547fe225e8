"""What is wrong with a policy document: each error with its path, line and column, and what would be right."""

from __future__ import annotations

import pytest

from muster_language import Kind, Violation
from muster_language.documents.loading import DEEPEST, LONGEST_DOCUMENT, MOST_NODES
from muster_policy_engine.documents.body import MOST_ITEMS, MOST_OPTIONS, MOST_RULES
from muster_policy_engine.documents.document import MOST_DOCUMENTS, Frame, read_policies
from muster_policy_engine.places import places
from muster_policy_engine.policy import Scope

HEAD = "kind: Policy\nworkload: training\nscope: tenant\npolicy:\n"


def errors(text: str, frame: Frame | None = None) -> list[Violation]:
    found = read_policies(text, frame)
    assert all((each.policy is None) == bool(each.violations) for each in found)
    return [violation for each in found for violation in each.violations]


def of_body(body: str, kind: Kind = Kind.TRAINING) -> Violation:
    """The one error of a body."""
    (found,) = errors(body, Frame(kind, Scope()))
    return found


@pytest.mark.parametrize(
    ("text", "path", "message", "place"),
    [
        ("a: [", "", "this is not YAML", (2, 1)),
        ("[]", "", "a mapping belongs here", (1, 1)),
        ("x", "", "a mapping belongs here", (1, 1)),
        ("kind: Policy\nkind: Policy\n", "", "kind is given twice", (2, 1)),
        ("a: &x 1\nb: *x\n", "b", "an alias (* and a name) is not taken", (2, 4)),
        ("workload: training\nscope: tenant\npolicy: {}\n", "", "the policy lacks kind", (1, 1)),
        ("kind: Policy\n", "", "the policy lacks workload, scope, policy", (1, 1)),
        ("defaults: {}\n", "kind", "the document does not say what it is", (1, 1)),
        (f"{HEAD} {{}}\nnames: x\n", "names", 'unknown field "names"; did you mean name?', (6, 1)),
        (
            "kind: Pollicy\nworkload: training\nscope: tenant\npolicy: {}\n",
            "kind",
            "Pollicy is not a kind of policy",
            (1, 7),
        ),
        (
            "kind: []\nworkload: training\nscope: tenant\npolicy: {}\n",
            "kind",
            "a list or mapping is not a kind",
            (1, 7),
        ),
        (
            "kind: Policy\nworkload: trainings\nscope: tenant\npolicy: {}\n",
            "workload",
            "trainings is not a kind of workload; did you mean training?",
            (2, 11),
        ),
        ("kind: Policy\nworkload: []\nscope: tenant\npolicy: {}\n", "workload", "is not a kind of workload", (2, 11)),
        ("kind: Policy\nworkload: training\nscope: {}\npolicy: {}\n", "scope", "this is not a scope", (3, 8)),
        ("kind: Policy\nworkload: training\nscope: project\npolicy: {}\n", "scope", "this is not a scope", (3, 8)),
        ("kind: Policy\nworkload: training\nscope: {tenant: a}\npolicy: {}\n", "scope", "this is not a scope", (3, 8)),
        ("kind: Policy\nworkload: training\nscope: {project: ~}\npolicy: {}\n", "scope", "this is not a scope", (3, 8)),
        (
            "kind: Policy\nworkload: training\nscope: {project: ''}\npolicy: {}\n",
            "scope",
            "this is not a scope",
            (3, 8),
        ),
        (
            "kind: Policy\nworkload: training\nscope: {project: a, cluster: b}\npolicy: {}\n",
            "scope",
            "this is not a scope",
            (3, 8),
        ),
        (
            "kind: Policy\nworkload: training\nscope: system\npolicy: {}\n",
            "scope",
            "the scope system is read-only",
            (3, 8),
        ),
        (f"name: [a]\n{HEAD} {{}}\n", "name", "this is not the name of a policy", (1, 7)),
        (f"name: {'a' * 254}\n{HEAD} {{}}\n", "name", "this is not the name of a policy", (1, 7)),
        (f'name: "a\\tb"\n{HEAD} {{}}\n', "name", "this is not the name of a policy", (1, 7)),
        (f"{HEAD}  rule: {{}}\n", "policy.rule", 'unknown field "rule"; did you mean rules?', (5, 3)),
        (f"{HEAD}  - a\n", "policy", "a mapping belongs here", (5, 3)),
    ],
)
def test_the_frame(text: str, path: str, message: str, place: tuple[int, int]) -> None:
    (found,) = errors(text)
    assert message in found.message
    assert (found.path, found.line, found.column) == (path, *place)


@pytest.mark.parametrize(
    ("body", "path", "message"),
    [
        ("rules: []", "rules", "a mapping of paths belongs here"),
        ("rules: {compute: 1}", "rules.compute", "a mapping of paths belongs here"),
        ("rules: {comput: {}}", "rules.comput", 'unknown field "comput"; did you mean compute?'),
        (
            "rules: {compute: {gpuDeviceRequest: {}}}",
            "rules.compute.gpuDeviceRequest",
            'unknown field "gpuDeviceRequest"; did you mean gpuDevicesRequest?',
        ),
        (
            "rules: {compute.gpuDeviceRequest: {}}",
            "rules.compute.gpuDeviceRequest",
            'unknown field "compute.gpuDeviceRequest"; did you mean compute.gpuDevicesRequest?',
        ),
        ("rules: {zzzz: {}}", "rules.zzzz", 'unknown field "zzzz"'),
        (
            "rules: {numWorkers: {}}",
            "rules.numWorkers",
            'unknown field "numWorkers": only distributed policies take it',
        ),
        ("defaults: {worker.image: a}", "defaults.worker.image", 'unknown field "worker.image"; did you mean image?'),
        (
            "rules: {servingPort.container: {}}",
            "rules.servingPort.container",
            'unknown field "servingPort.container": only inference policies take it',
        ),
        ("rules: {backoffLimit: {mx: 1}}", "rules.backoffLimit.mx", 'unknown field "mx"; did you mean max?'),
        ("rules: {backoffLimit: [1]}", "rules.backoffLimit", "a mapping belongs here"),
        (
            "rules: {backoffLimit: {options: [1]}}",
            "rules.backoffLimit.options",
            "backoffLimit does not take the rule options",
        ),
        (
            "rules: {ports.instances: {max: 1}}",
            "rules.ports.instances.max",
            "ports.instances does not take the rule max",
        ),
        ("rules: {backoffLimit: {max: many}}", "rules.backoffLimit.max", "many is not a value of backoffLimit"),
        ("rules: {backoffLimit: {max: nan}}", "rules.backoffLimit.max", "nan is not a value"),
        ("rules: {backoffLimit: {max: [1]}}", "rules.backoffLimit.max", "a number belongs here"),
        ("rules: {backoffLimit: {step: 0}}", "rules.backoffLimit.step", "0 is not a step"),
        ("rules: {backoffLimit: {min: 3, max: 2}}", "rules.backoffLimit", "min 3 is above max 2"),
        (
            "rules: {compute: {cpuMemoryRequest: {min: 2Gi, max: 1500Mi}}}",
            "rules.compute.cpuMemoryRequest",
            "is above max",
        ),
        ("rules: {compute: {cpuCoreRequest: {max: 1G}}}", "rules.compute.cpuCoreRequest.max", "1G is not a value"),
        ("rules: {image: {required: maybe}}", "rules.image.required", "maybe is neither true nor false"),
        ("rules: {image: {required: [true]}}", "rules.image.required", "a value belongs here"),
        ("rules: {image: {options: a}}", "rules.image.options", "a list of values belongs here"),
        ("rules: {image: {options: []}}", "rules.image.options", "a list of values belongs here"),
        ("rules: {image: {options: [{displayed: b}]}}", "rules.image.options.0", "a value belongs here"),
        ("rules: {image: {options: [a, ~]}}", "rules.image.options.1", "a value belongs here"),
        ("rules: {imagePullPolicy: {options: [Some]}}", "rules.imagePullPolicy.options.0", "Some is not known"),
        ("rules: {ports: {instances: {locked: a}}}", "rules.ports.instances.locked", "a list of labels belongs here"),
        (
            "rules: {ports: {instances: {locked: [a, ~]}}}",
            "rules.ports.instances.locked",
            "a list of labels belongs here",
        ),
        ("rules: {image: {blocked: true, required: true}}", "rules.image", "a blocked field has no other rule"),
        ("rules: {ports.attributes.zzz: {}}", "rules.ports.attributes.zzz", 'unknown field "ports.attributes.zzz"'),
        ("defaults: {backoffLimit: x}", "defaults.backoffLimit", "x is not a whole number"),
        ("defaults: {backoffLimit: 5000}", "defaults.backoffLimit", "5000 is too large"),
        (
            "defaults: {compute: {gpuPortionRequest: 1.5}}",
            "defaults.compute.gpuPortionRequest",
            "1.5 is not a GPU request",
        ),
        ("defaults: {nodePools: ['a b']}", "defaults.nodePools", "a b is not a name"),
        ("defaults: {nodePools: [a, [b]]}", "defaults.nodePools", "a list of texts belongs here"),
        ("defaults: {environmentVariables: [a]}", "defaults.environmentVariables", "a mapping of paths belongs here"),
        ("defaults: {environmentVariables.instances: a}", "defaults.environmentVariables.instances", "a list of items"),
        (
            "defaults: {environmentVariables.instances: [{nam: a}]}",
            "defaults.environmentVariables.instances.0.nam",
            'unknown field "nam"; did you mean name?',
        ),
        (
            "defaults: {environmentVariables.instances: [{name: a}]}",
            "defaults.environmentVariables.instances.0",
            "no value",
        ),
        (
            "defaults: {ports.instances: [{name: [], container: 1}]}",
            "defaults.ports.instances.0.name",
            "a label belongs",
        ),
        ("defaults: {storage.s3.instances: [{bucket: b}]}", "defaults.storage.s3.instances.0", "the item has no label"),
        (
            "defaults: {storage.git.instances: [{name: g, repository: 'https://a.b/c', path: /c, password: p}]}",
            "defaults.storage.git.instances.0.password",
            "a policy may not hold credentials: name a Secret",
        ),
        (
            "defaults: {storage.pvc.instances: [{name: p, path: /p, claimInfo: {sise: 1Gi}}]}",
            "defaults.storage.pvc.instances.0.claimInfo.sise",
            'unknown field "sise"; did you mean size?',
        ),
        ("defaults: {ports.attributes.container: 70000}", "defaults.ports.attributes.container", "70000 is too large"),
        (
            "defaults: {storage.nfs.instances: [{name: n, mountPath: data}]}",
            "defaults.storage.nfs.instances.0.mountPath",
            "is not",
        ),
        ("defaults: {relatedUrls.attributes.name: a}", "defaults.relatedUrls.attributes.name", "takes no default"),
        ("imposedAssets: [scratch]", "imposedAssets", "assets are not built yet"),
        ("reserved: {rules: security}", "reserved.rules", "a list of paths belongs here"),
        ("reserved: {rules: [securty]}", "reserved.rules.0", 'unknown field "securty"; did you mean security?'),
        ("reserved: {rule: []}", "reserved.rule", 'unknown field "rule"; did you mean rules?'),
    ],
)
def test_a_body(body: str, path: str, message: str) -> None:
    found = errors(body, Frame(Kind.TRAINING, Scope()))
    assert message in found[0].message
    assert found[0].path == path
    assert found[0].line == 1
    assert found[0].column > 1


def test_an_error_is_at_the_line_and_column_of_what_is_wrong() -> None:
    text = f"{HEAD}  rules:\n    compute:\n      gpuDevicesRequest:\n        max: many\n"
    (found,) = errors(text)
    assert (found.line, found.column) == (8, 14)
    assert found.path == "policy.rules.compute.gpuDevicesRequest.max"


def test_every_error_of_a_text_at_once() -> None:
    text = f"{HEAD}  defaults: {{backoffLimit: x, imag: y}}\n  rules: {{image: {{max: 1}}}}\n---\nkind: Policy\n"
    assert [each.line for each in errors(text)] == [5, 5, 6, 8]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "defaults:\n  compute: {cpuCoreRequest: 1}\n  compute.cpuCoreRequest: 2\n",
            "compute.cpuCoreRequest is given twice",
        ),
        ("rules:\n  compute: {cpuCoreRequest: {min: 1}}\n  compute.cpuCoreRequest: {max: 2}\n", "is given twice"),
        (
            "defaults:\n  ports.instances:\n  - {name: a, container: 1}\n  - {name: a, container: 2}\n",
            "'a' is given twice",
        ),
    ],
)
def test_a_path_is_given_once(body: str, message: str) -> None:
    found = of_body(body)
    assert message in found.message
    assert found.allowed in {
        "the first one is in line 2; keep one of them",
        "the first one is in line 3; keep one of them",
    }


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("defaults: {compute: {gpuPortionRequest: 0.5, gpuMemoryRequest: 1Gi}}", "exclude each other"),
        (
            "defaults: {storage: {s3.instances: [{name: a, bucket: b, path: /m}, {name: b, bucket: b, path: /m}]}}",
            "/m is taken by",
        ),
    ],
)
def test_defaults_that_no_workload_could_have_together(body: str, message: str) -> None:
    assert message in of_body(body).message


@pytest.mark.parametrize(
    "body",
    [
        "defaults:\n  image: a\nrules: {image: {blocked: true}}",
        "defaults:\n  ports.instances: [{name: a, container: 1}]\nrules: {ports.instances: {blocked: true}}",
        "defaults:\n  ports.instances: [{name: a, container: 1}]\nrules: {ports.attributes.container: {blocked: true}}",
    ],
)
def test_a_blocked_field_takes_no_default(body: str) -> None:
    found = of_body(body)
    assert found.message.endswith("is blocked, so it takes no default")
    assert found.line == 2


def test_an_excluded_item_says_nothing_else() -> None:
    found = of_body("defaults: {ports.instances: [{name: a, container: 1, exclude: true}]}")
    assert found.message == "an excluded item says nothing else"
    assert found.allowed == "{name: .., exclude: true}"


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("{}", "a field and a factor belong here"),
        ("{field: compute.cpuCoreLimit}", "a field and a factor belong here"),
        ("{field: [a], factor: 1}", "a field and a factor belong here"),
        ("{field: image, factor: 1}", "image is not an amount from which compute.cpuCoreRequest can be worked out"),
        ("{field: compute.cpuCoreRequest, factor: 1}", "is not an amount from which"),
        ("{field: compute.cpuCorLimit, factor: 1}", "did you mean compute.cpuCoreLimit?"),
        ("{field: ports.attributes.container, factor: 1}", "is not an amount from which"),
        ("{field: compute.cpuCoreLimit, factor: 0}", "0 is not a factor"),
        ("{field: compute.cpuCoreLimit, factor: -1}", "-1 is not a factor"),
        ("{field: compute.cpuCoreLimit, factor: x}", "'x' is not a number"),
        ("{field: compute.cpuCoreLimit, factor: 1e999}", "exponent"),
        ("{field: compute.cpuMemoryLimit, factor: 1}", "cannot be worked out from bytes"),
    ],
)
def test_what_a_default_cannot_be_worked_out_from(rule: str, message: str) -> None:
    assert message in of_body(f"rules: {{compute.cpuCoreRequest: {{defaultFrom: {rule}}}}}").message


def test_the_source_is_of_the_same_side_and_item() -> None:
    side = "rules: {worker.backoffLimit: {defaultFrom: {field: master.compute.cpuCoreLimit, factor: 1}}}"
    assert "is not an amount" in of_body(side, Kind.DISTRIBUTED).message
    item = "rules: {ports.attributes.container: {defaultFrom: {field: exposedUrls.attributes.container, factor: 1}}}"
    assert "is not an amount" in of_body(item).message


def test_a_gang_has_worker_and_master_alone() -> None:
    assert of_body("rules: {image: {required: true}}", Kind.DISTRIBUTED).message == (
        'unknown field "image": a distributed policy has worker and master; did you mean worker.image?'
    )
    assert of_body("rules: {master: {numWorkers: {max: 1}}}", Kind.DISTRIBUTED).message.startswith(
        'unknown field "numWorkers"'
    )


def test_a_body_alone_names_neither_kind_nor_scope() -> None:
    frame = Frame(Kind.TRAINING, Scope())
    (found,) = errors(f"{HEAD}  {{}}\n", frame)
    assert found.message == "the document names its kind and scope itself"
    (several,) = errors("rules: {}\n---\nrules: {}\n", frame)
    assert (several.message, several.line) == ("a body without kind and scope stands alone in its text", 2)


def test_as_many_rules_as_there_may_be() -> None:
    assert MOST_RULES == 500
    said = [each for place in places(Kind.DISTRIBUTED).values() for each in place.rules]
    assert len(said) > MOST_RULES
    rules = ["required: true", "canEdit: true", "min: 1", "max: 9", "step: 1"]
    text = "rules:\n"
    count = 0
    for path, place in places(Kind.DISTRIBUTED).items():
        words = [each for each in rules if each.partition(":")[0] in place.rules]
        text += f"  {path}: {{{', '.join(words)}}}\n" if words else ""
        count += len(words)
    assert count > MOST_RULES
    found = of_body(text, Kind.DISTRIBUTED)
    assert (found.message, found.allowed) == (f"the policy has {count} rules", "at most 500")


def test_as_many_default_items_and_options_as_there_may_be() -> None:
    frame = Frame(Kind.TRAINING, Scope())
    items = ", ".join(f"{{name: a{number}, value: b}}" for number in range(MOST_ITEMS))
    assert errors(f"defaults: {{labels.instances: [{items}]}}", frame) == []
    found = of_body(f"defaults: {{labels.instances: [{items}, {{name: b, value: b}}]}}")
    assert (found.message, found.allowed) == ("the policy has 201 default items", "at most 200")
    options = ", ".join(f"a{number}" for number in range(MOST_OPTIONS))
    assert errors(f"rules: {{image: {{options: [{options}]}}}}", frame) == []
    found = of_body(f"rules: {{image: {{options: [{options}, b]}}}}")
    assert (found.message, found.allowed) == ("the policy has 1001 options", "at most 1000")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * (DEEPEST + 1), "nested deeper than 64"),
        (f"a: [{', '.join('b' for _ in range(MOST_NODES))}]", "has more than 20000 values"),
        (f"a: {'b' * LONGEST_DOCUMENT}", "longer than 1048576 characters"),
        ("a: b\n---\n" * (MOST_DOCUMENTS + 1), "has more than 1000 documents"),
    ],
)
def test_the_limits_of_any_document(text: str, message: str) -> None:
    assert message in errors(text)[-1].message

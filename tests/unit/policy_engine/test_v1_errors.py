"""Errors of v1 documents, each at its line and column, and text that means harm."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster_language import Kind
from muster_language.documents.loading import load
from muster_policy_engine.documents.converting import convert
from muster_policy_engine.documents.v1 import read_v1
from muster_policy_engine.documents.v1_fields import fields
from muster_policy_engine.policy import Dialect
from tests.support.policies_v1 import PROJECTS, document, documents, errors
from tests.support.policy_document_drawings import v1_document

HEAD = "apiVersion: run.ai/v2alpha1\nkind: TrainingPolicy\nmetadata: {name: a, namespace: runai}\n"


@pytest.mark.parametrize(
    ("text", "path", "message", "place"),
    [
        ("apiVersion: v1\nkind: TrainingPolicy\n", "apiVersion", "v1 is not a version of policies", (1, 13)),
        ("kind: TrainingPolicy\nspec: {}\n", "apiVersion", "apiVersion is missing", (1, 1)),
        (
            HEAD.replace("TrainingPolicy", "TrainingPolicies") + "spec: {}\n",
            "kind",
            "TrainingPolicies is not a kind of v1 policy; did you mean TrainingPolicy?",
            (2, 7),
        ),
        (HEAD.replace("kind: TrainingPolicy\n", "") + "spec: {}\n", "kind", "kind is missing", (1, 1)),
        (HEAD, "spec", "the document has no spec", (1, 1)),
        (HEAD + "spec: [1]\n", "spec", "spec is not a mapping", (4, 7)),
        (HEAD + "specs: {}\nspec: {}\n", "specs", 'unknown field "specs"; did you mean spec?', (4, 1)),
        (HEAD.replace("name: a, ", "") + "spec: {}\n", "metadata.name", "metadata.name is missing", (3, 11)),
        (HEAD.replace("a,", '"\\n",') + "spec: {}\n", "metadata.name", "metadata.name is not a name", (3, 18)),
        (
            HEAD.replace("runai}", "[x]}") + "spec: {}\n",
            "metadata.namespace",
            "metadata.namespace is not a namespace",
            (3, 32),
        ),
        (
            HEAD.replace(", namespace: runai", "") + "spec: {}\n",
            "metadata.namespace",
            "metadata.namespace is missing",
            (3, 11),
        ),
        (
            HEAD.replace("namespace", "namspace") + "spec: {}\n",
            "metadata.namspace",
            'unknown field "namspace"; did you mean namespace?',
            (3, 21),
        ),
    ],
)
def test_errors_of_the_frame(text: str, path: str, message: str, place: tuple[int, int]) -> None:
    assert errors(text)[path] == (message, *place)


@pytest.mark.parametrize(
    ("spec", "path", "message", "column"),
    [
        ("gpuDeviceRequest: {value: 1}", "spec.gpuDeviceRequest", 'unknown field "gpuDeviceRequest"', 3),
        ("gpuDevice: {value: 1}", "spec.gpuDevice", 'unknown field "gpuDevice"; did you mean gpuDevices?', 3),
        (
            "jupyter: {value: true}",
            "spec.jupyter",
            'unknown field "jupyter": a policy for training does not take it, for workspace it does',
            3,
        ),
        ("name: {value: x}", "spec.name", 'unknown field "name"', 3),
        ("gpu: 4", "spec.gpu", "a mapping belongs here", 8),
        ("gpu: {default: 4}", "spec.gpu.default", 'unknown field "default"', 9),
        ("gpu: {rules: {canAdd: true}}", "spec.gpu.rules.canAdd", "gpu does not take the rule canAdd", 17),
        ("gpu: {rules: {max: much}}", "spec.gpu.rules.max", "much is not a value of compute.gpuPortionRequest", 22),
        ("gpu: {rules: {max: [1]}}", "spec.gpu.rules.max", "a number belongs here", 22),
        ("gpu: {rules: {min: 3, max: 2}}", "spec.gpu.rules", "min 3 is above max 2", 16),
        ("gpu: {rules: {step: 0}}", "spec.gpu.rules.step", "0 is not a step", 23),
        ("gpu: {rules: {required: maybe}}", "spec.gpu.rules.required", "maybe is neither true nor false", 27),
        ("gpu: {value: 1.5}", "spec.gpu.value", "1.5 is not a GPU request", 16),
        ("memory: {value: 4x}", "spec.memory.value", None, 19),
        ("gpu: {value: 1}\n  gpuMemory: {value: 1G}", "spec.gpuMemory.value", None, None),
        ("tty: {rules: {canEdit: false}}", "spec.tty.rules", "tty takes no rules", 16),
        ("args: {value: x}\n  arguments: {value: y}", "spec.arguments", "arguments and args are the same field", 3),
        ("ports: {value: 1}", "spec.ports.value", 'unknown field "value"', 11),
        ("ports: {items: [1]}", "spec.ports.items", "items is not a mapping of labels", 18),
        ("ports: {items: {a: {container: 1}}}", "spec.ports.items.a.container", 'unknown field "container"', 23),
        (
            "ports: {items: {a: {value: {contaner: 1}}}}",
            "spec.ports.items.a.value.contaner",
            'unknown field "contaner"; did you mean container?',
            31,
        ),
        ("ports: {items: {a: {value: {container: 0}}}}", "spec.ports.items.a.value.container", "0 is too small", 42),
        (
            "ports: {items: {DEFAULTS: {value: {container: 0}}}}",
            "spec.ports.items.DEFAULTS.value.container",
            "0 is too small",
            49,
        ),
        (
            "ports: {items: {DEFAULTS: {rules: {canEdit: false}}}}",
            "spec.ports.items.DEFAULTS.rules",
            'unknown field "rules"',
            30,
        ),
        ("ports: {items: {a: {rules: {canAdd: false}}}}", "spec.ports.items.a.rules.canAdd", None, 31),
        ("ports: {itemRules: {contaner: {min: 1}}}", "spec.ports.itemRules.contaner", None, 23),
        (
            "pvcs: {itemRules: {existingPvc: {canEdit: false}}}",
            "spec.pvcs.itemRules.existingPvc",
            "existingPvc takes no rules",
            35,
        ),
        (
            "environment: {itemRules: {value: {canEdit: false}}}",
            "spec.environment.itemRules",
            'unknown field "itemRules"',
            17,
        ),
        (
            "environment: {items: {DEFAULTS: {value: x}}}",
            "spec.environment.items.DEFAULTS",
            "items of environment have no members",
            25,
        ),
        (
            "gitSync: {items: {a: {value: {repository: 'https://x.y/z', path: /x, password: hush}}}}",
            "spec.gitSync.items.a.value.password",
            "a policy may not hold credentials: name a Secret",
            82,
        ),
        (
            "s3: {items: {DEFAULTS: {value: {secret: hush}}}}",
            "spec.s3.items.DEFAULTS.value.secret",
            "a policy may not hold credentials: name a Secret",
            None,
        ),
    ],
)
def test_errors_of_fields(spec: str, path: str, message: str | None, column: int | None) -> None:
    found = errors(f"{HEAD}spec:\n  {spec}\n")
    assert path in found, found
    said, line, at = found[path]
    assert message is None or said == message or said.startswith(f"{message};")
    assert line == 5 + spec.count("\n")
    assert column is None or at == column
    assert "hush" not in str(found)


def test_all_errors_at_once_in_the_order_of_the_text() -> None:
    text = f"{HEAD}spec:\n  gpu: {{value: x}}\n  memory: {{value: 4x}}\n  cpus: {{}}\n  cpu: {{rules: {{maxx: 2}}}}\n"
    (found,) = documents(text)
    assert [each.line for each in found.violations] == [5, 6, 7, 8]


def test_limits() -> None:
    items = ", ".join(f"v{number}: {{value: x}}" for number in range(201))
    said = errors(document(f"environment: {{items: {{{items}}}}}"))
    assert said["spec"][0] == "the policy has 201 default items"


@pytest.mark.parametrize(
    "text",
    [
        f"{HEAD}spec: {'[' * 100}\n",
        f"{HEAD}spec: {'{a: ' * 60}1{'}' * 60}\n",
        f"{HEAD}spec: &x [*x]\n",
        f"{HEAD}spec: {{gpu: {{value: {'9' * 100_000}}}}}\n",
        f"{HEAD}spec: {{gpu: {{rules: {{max: {'9' * 10_000}}}}}}}\n",
        f"{HEAD}spec: {{gpu: {{rules: {{max: 1e999999999}}}}}}\n",
        f"{HEAD}spec: {{gpu: {{rules: {{max: .nan}}}}}}\n",
        f"{HEAD}spec: {{memory: {{rules: {{min: -1e400}}}}}}\n",
        f"{HEAD}spec: {{? [a] : b}}\n",
        f"{HEAD}spec: {{gpu: {{rules: [], value: [1]}}}}\n",
        f"{HEAD}spec: {{ports: {{rules: 1, itemRules: [], items: {{a: [], b: {{value: 1}}, c: {{rules: 1}}}}}}}}\n",
        f'{HEAD}spec: {{readinessProbe: {{value: \'{{"port": [[["\'}}}}\n',
        f"{HEAD}spec: {{imagePullPolicy: {{rules: {{options: {{a: b}}}}}}}}\n",
        f"{HEAD}spec: {{imagePullPolicy: {{rules: {{options: [{{value: nil}}, [x], {{}}]}}}}}}\n",
        f"{HEAD}spec: !!python/object:os.system x\n",
        "apiVersion: [run.ai/v2alpha1]\nkind: {}\nmetadata: []\nspec: 1\n",
        "apiVersion: run.ai/v2alpha1\nkind: [TrainingPolicy]\nmetadata: 1\nspec: {}\n",
    ],
)
def test_text_that_means_harm_is_refused_with_a_place(text: str) -> None:
    (found,) = documents(text)
    assert found.policy is None
    assert found.violations
    assert all(each.line >= 1 and each.column >= 1 for each in found.violations)


_WORDS = st.sampled_from(
    [
        *("rules", "value", "items", "itemRules", "DEFAULTS", "a", "min", "max", "step", "options", "displayed"),
        *("required", "canEdit", "canRemove", "container", "nfsServer", "path", "readOnly", "port", "deleted"),
    ]
)
_SCALARS = st.sampled_from(
    [None, True, False, 0, -1, 3.5, 10**40, "", "nil", "x", "/x", "1Gi", "1e9999", "\u2028", "SECRET:a,b"]
)
_TREES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=4), max_leaves=20
)


@settings(max_examples=400)
@given(st.sampled_from(Kind), st.data())
def test_whatever_a_field_holds_it_is_read_or_refused_with_a_place(kind: Kind, data: st.DataObject) -> None:
    words = st.sampled_from(sorted(fields(kind)))
    spec = data.draw(
        st.dictionaries(words, st.dictionaries(_WORDS, _TREES, max_size=3) | _TREES, min_size=1, max_size=3)
    )
    (found,) = documents(v1_document(kind, spec))
    assert (found.policy is None) is bool(found.violations)
    assert all(each.path and each.line >= 1 and each.column >= 1 for each in found.violations)
    if found.policy is not None:
        assert convert(found.policy).policy.dialect is Dialect.V2


def test_a_number_of_errors_without_end_ends() -> None:
    many = "\n".join(f"  x{number}: {{value: 1}}" for number in range(3_000))
    (found,) = documents(f"{HEAD}spec:\n{many}\n")
    assert found.policy is None
    assert len(found.violations) == 101
    assert found.violations[-1].message == "and more errors; the rest was not read"


def test_a_tree_that_is_no_mapping() -> None:
    root = load("[1, 2]")[0].root
    assert root is not None
    nothing, found = read_v1(root, PROJECTS)
    assert nothing is None
    assert found[0].message == "a mapping belongs here"

"""The reader: documents into typed specs, and every error with its place, what was given and what is allowed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from muster_language import Document, Kind, read
from muster_language.documents.loading import LONGEST_FILE, MOST_NODES
from tests.support.told import format_violations

HEAD = "apiVersion: run.ai/v2alpha1\nkind: {kind}\nmetadata: {{name: t-1, namespace: runai-team-a}}\nspec:\n"


def one(body: str, kind: str = "TrainingWorkload") -> Document:
    documents = read(HEAD.format(kind=kind) + body, source="train.yaml")
    assert len(documents) == 1
    return documents[0]


def said(body: str, kind: str = "TrainingWorkload") -> str:
    return format_violations([one(body, kind)])


def test_a_member_that_is_refused_is_not_missing_too() -> None:
    document = one("  tolerations: {items: {a: {value: {key: k, operator: Exists, effect: Nope}}}}\n")
    assert [(each.path, each.message) for each in document.violations] == [
        ("spec.tolerations.items.a.value.effect", "Nope is not known")
    ]
    both = one("  tolerations: {items: {a: {value: {key: k, operator: Nope}}}}\n")
    assert {(each.path, each.message) for each in both.violations} == {
        ("spec.tolerations.items.a.value.operator", "Nope is not known"),
        ("spec.tolerations.items.a", "effect is missing"),
    }


def test_a_training_as_users_write_it() -> None:
    document = one(
        """  name: {value: train-1}
  usage: Submit
  baseWorkload: defaults
  image: {value: repo/img:1.10}
  gpu: {value: "0.5"}
  cpu: {value: "100m"}
  memory: {value: 250M}
  nodePools: {value: h100, }
  active: {value: True}
  backoffLimit: {value: 0}
  command: {value: python}
  args: {value: "train.py --x 'a b'"}
  environment: {items: {LR: {value: "0.1"}, GONE: {deleted: true}}}
  ports: {items: {http: {value: {container: 8008}}}}
"""
    )
    assert document.violations == []
    assert (document.kind, document.name, document.namespace) == (Kind.TRAINING, "train-1", "runai-team-a")
    spec = document.spec
    assert spec.image == "repo/img:1.10"
    assert spec.gpu_portion_request == 0.5
    assert (spec.cpu, spec.memory, list(spec.node_pools.values)) == ("100m", "250M", ["h100"])
    assert (spec.active, spec.backoff_limit, spec.HasField("backoff_limit")) == (True, 0, True)
    assert spec.args == "train.py --x 'a b'"
    assert [(item.label, item.value, item.deleted) for item in spec.environment] == [
        ("LR", "0.1", False),
        ("GONE", "", True),
    ]
    assert spec.ports[0].container == 8008
    assert not spec.HasField("preemptible")


@pytest.mark.parametrize(
    ("gpu", "portion", "devices"),
    [("0", None, 0), ("0.01", 0.01, None), ("1", 1.0, None), ('"1.0"', 1.0, None), ("2", None, 2), ("64", None, 64)],
)
def test_gpu_is_a_portion_or_a_number_of_devices(gpu: str, portion: float | None, devices: int | None) -> None:
    spec = one(f"  gpu: {{value: {gpu}}}\n").spec
    assert (spec.gpu_portion_request if spec.HasField("gpu_portion_request") else None) == portion
    assert (spec.gpu_devices_request if spec.HasField("gpu_devices_request") else None) == devices


@pytest.mark.parametrize("gpu", ["0.001", "-1", "1.5", "true", "half", "1e400", "nan", "0.015"])
def test_what_is_no_gpu_request(gpu: str) -> None:
    assert said(f"  gpu: {{value: {gpu}}}\n") == (
        f"train.yaml:5:16: spec.gpu.value: {gpu} is not a GPU request\n"
        "  0 is no GPU, 0.01 to 1 a portion, a whole number above 1 that many devices\n"
        "1 error, nothing was submitted"
    )


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (
            "  imagePulPolicy: {value: Always}\n",
            "5:3: spec.imagePulPolicy: unknown field; did you mean imagePullPolicy?",
        ),
        ("  zzz: {value: 1}\n", "5:3: spec.zzz: unknown field\n  known here: name, namePrefix, usage"),
        (
            "  workers: {value: 2}\n",
            "5:3: spec.workers: a TrainingWorkload does not take workers\n  DistributedWorkload",
        ),
        (
            "  backoffLimit: {value: true}\n",
            "5:25: spec.backoffLimit.value: true is not a whole number\n  a whole number from 0",
        ),
        (
            "  backoffLimit: {value: 99999}\n",
            "spec.backoffLimit.value: 99999 is too large\n  a whole number from 0 to 1000",
        ),
        ("  backoffLimit: {value: -1}\n", "spec.backoffLimit.value: -1 is too small"),
        ("  backoffLimit: {value: 5000000000}\n", "spec.backoffLimit.value: 5000000000 is too large"),
        ("  preemptible: {value: yes}\n", "spec.preemptible.value: yes is neither true nor false"),
        (
            "  imagePullPolicy: {value: Alway}\n",
            "Alway is not known; did you mean Always?\n  Always, IfNotPresent or Never",
        ),
        ("  command: python\n", "5:12: spec.command: python stands here without `value:`\n  command: {value: ..}"),
        ("  command: {value: }\n", "spec.command.value: the field has no value"),
        ("  command:\n", "spec.command: the field has no value"),
        ("  command: {}\n", "spec.command: the field has no value"),
        ("  command: {valu: x}\n", "spec.command.valu: unknown field; did you mean value?"),
        ("  command: {value: [a, b]}\n", "spec.command.value: a list stands where a value belongs"),
        ("  command: {value: {a: b}}\n", "spec.command.value: a mapping stands where a value belongs"),
        ("  gpu: {value: [1]}\n", "spec.gpu.value: a list stands where a value belongs"),
        ("  gpu: {value: 65}\n", "spec.gpu.value: 65 is too large\n  a whole number from 0 to 64"),
        (
            "  command: {value: a}\n  command: {value: b}\n",
            "6:3: spec: command is given twice\n  the first one is in line 5",
        ),
        ("  args: {value: a}\n  arguments: {value: b}\n", "6:3: spec.arguments: arguments and args are the same field"),
        (
            "  name: {value: Train_1}\n",
            "spec.name.value: Train_1 is not a name\n  lower-case letters, digits and dashes",
        ),
        (f"  name: {{value: {'a' * 64}}}\n", "is too long: 64 characters\n  at most 63 characters"),
        (
            "  name: {value: a}\n  namePrefix: {value: a}\n",
            "spec.namePrefix.value: name and namePrefix exclude each other",
        ),
        ("  cpu: {value: 1G}\n", "spec.cpu.value: cpu '1G'"),
        ("  cpu: {value: many}\n", "spec.cpu.value: cpu 'many' is not a quantity"),
        ("  memory: {value: 0}\n", "spec.memory.value: 0 is nothing"),
        ("  memory: {value: -4G}\n", "spec.memory.value: memory '-4G' is not a quantity"),
        (
            "  gpu: {value: 0.5}\n  gpuMemory: {value: 4G}\n",
            "spec.gpuMemory.value: gpu and gpuMemory exclude each other",
        ),
        ("  gpu: {value: 0}\n  gpuMemory: {value: 4G}\n", "spec.gpuMemory.value: gpu and gpuMemory exclude each other"),
        (
            "  gpu: {value: 2}\n  gpuDevices: {value: 3}\n",
            "spec.gpuDevices.value: gpu and gpuDevices exclude each other",
        ),
        (
            "  gpuMemory: {value: 4G}\n  migProfile: {value: 1g.5gb}\n",
            "spec.migProfile.value: gpuMemory and migProfile exclude each other\n  one gpu field",
        ),
        ("  migProfile: {value: big}\n", "spec.migProfile.value: big is not a migProfile"),
        (
            "  migProfile: {value: 9g.99gb}\n",
            "spec.migProfile.value: 9g.99gb is not a migProfile\n  a profile that a GPU",
        ),
        ("  masterSpec: {value: x}\n", "spec.masterSpec: masterSpec does not stand inside spec"),
        ('  command: {value: "a\\0b"}\n', "the value has a NUL character"),
        ("  environment: {items: {A: x}}\n", "spec.environment.items.A: the item is not a mapping"),
        ("  environment: {items: {1A: {value: x}}}\n", "spec.environment.items.1A: 1A is not a label"),
        ("  environment: {items: {A: {}}}\n", "spec.environment.items.A: the item has no value"),
        ("  environment: {items: [a]}\n", "spec.environment.items: items is not a mapping of labels"),
        ("  environment: x\n", "spec.environment: the field has no items"),
        ("  environment: {}\n", "spec.environment: the field has no items"),
        ("  environment: {A: {value: b}}\n", "spec.environment.A: unknown field\n  known here: items"),
        ("  environment: {items: {A: {value: x}, A: {value: y}}}\n", "spec.environment.items: A is given twice"),
        ("  environment: {items: {A: {deleted: maybe}}}\n", "spec.environment.items.A.deleted: maybe is neither"),
        ("  ports: {items: {p: {value: {container: 0}}}}\n", "spec.ports.items.p.value.container: 0 is too small"),
        ("  tolerations: {items: {t: {value: {key: a}}}}\n", "operator is missing\n  tolerations needs operator"),
        ("  ports: {items: {p: {value: 80}}}\n", "spec.ports.items.p.value: ports is not a mapping"),
        ("  ports: {items: {p: {value: {containr: 80}}}}\n", "containr: unknown field; did you mean container?"),
        ("  readinessProbe: {value: {port: 70000}}\n", "spec.readinessProbe.value.port: 70000 is too large"),
        ("  readinessProbe: {value: {path: '/a b'}}\n", "path: /a b is not a path"),
        ('  readinessProbe: {value: {host: "x\\r\\nPOST / HTTP/1.1"}}\n', "spec.readinessProbe.value.host: "),
        ("  nodePools: {value: [a, {b: c}]}\n", "spec.nodePools.value.1: an entry of the list is not a text"),
        ("  nodePools: {value: [a, a]}\n", "spec.nodePools.value: a is given twice"),
        ("  nodePools: {value: a b}\n", "spec.nodePools.value: a b is not a name"),
        ("  priorityClass: {value: urgent}\n", "spec.priorityClass.value: urgent is not a priorityClass"),
        ("  active: {value: !!binary x}\n", "a tag (! and a name) is not taken"),
        ("  active: {value: !ruby/x y}\n", "a tag (! and a name) is not taken"),
        ("  cpu: {value: &a 1}\n  memory: {value: *a}\n", "an alias (* and a name) is not taken"),
        (
            "  arguments: {value: a 'b}\n",
            "spec.arguments.value: the text cannot be split into words: the quote ' is not",
        ),
        (
            "  command: {value: a\\}\n",
            "spec.command.value: the text cannot be split into words: it ends in a backslash",
        ),
        ("  <<: {a: b}\n", "a merge key (<<) is not taken"),
        ("  ? [a]\n  : b\n", "a list or a mapping cannot be a key"),
        ("  []\n", "spec: spec is not a mapping"),
    ],
)
def test_errors_say_where_what_and_what_is_allowed(body: str, error: str) -> None:
    assert error in said(body)


def test_zero_workers() -> None:
    assert "spec.workers.value: 0 is too small\n  a whole number from 1 to 10000" in said(
        "  workers: {value: 0}\n", "DistributedWorkload"
    )


def test_a_distributed_workload_with_a_master() -> None:
    text = (
        HEAD.format(kind="distributedworkload") + "  jobType: MPIJob\n  workers: {value: 2}\n  gpuDevices: {value: 8}\n"
    )
    document = read(text + "masterSpec:\n  name: {value: m}\n  gpuDevices: {value: 1}\n")[0]
    assert document.violations == []
    assert document.spec.framework == 1
    assert document.spec.master_spec.gpu_devices_request == 1
    wrong = read(text + "masterSpec:\n  priorityClass: {value: low}\n  gpu: {value: 2}\n")[0]
    assert [each.path for each in wrong.violations] == ["masterSpec.priorityClass"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "1:1: there is no document here"),
        ("# only a comment\n---\n", "there is no document here"),
        ("hello", "1:1: the document is not a mapping"),
        ("a: [", "this is not YAML"),
        ("a:\n\t- b\n", "begins with a tab"),
        ("a: \x01", "this is not YAML"),
        ("a: b\0c", "this is not YAML"),
        ("a: \ud800", "not valid Unicode"),
        ("%YAML 1.1\n---\na: b\n", "a %YAML or %TAG directive is not taken"),
        ("kind: TrainingWorkload\nspec: {}\n", "apiVersion: apiVersion is missing"),
        ("apiVersion: v1\nkind: TrainingWorkload\nspec: {}\n", "apiVersion: v1 is not a version of the language"),
        ("apiVersion: [v1]\nkind: TrainingWorkload\nspec: {}\n", "a list or mapping is not a version"),
        ("apiVersion: run.ai/v2alpha1\nspec: {}\n", "kind: kind is missing"),
        ("apiVersion: run.ai/v2alpha1\nkind: TrainWorkload\nspec: {}\n", "did you mean TrainingWorkload?"),
        ("apiVersion: run.ai/v2alpha1\nkind: [x]\nspec: {}\n", "is not a kind of workload"),
        ("apiVersion: run.ai/v2alpha1\nkind: TrainingWorkload\n", "spec: the document has no spec"),
        (HEAD.format(kind="TrainingWorkload") + "  {}\nspce: {}\n", "spce: unknown field; did you mean spec?"),
        ("metadata: x\n", "metadata: metadata is not a mapping"),
        ("metadata: {name: [x], nam: y}\n", "metadata.name: name is not a text"),
        ("[" * 80 + "]" * 80, "nested deeper than 64"),
        ("a: [" + "b," * MOST_NODES + "]", f"more than {MOST_NODES} values"),
        ("a: " + "b" * (1 << 20), "longer than 1048576 characters"),
        ("b" * (LONGEST_FILE + 1), "the file has"),
        ("---\na: b\n" * 1001, "more than 1000 documents"),
    ],
)
def test_what_is_no_document(text: str, error: str) -> None:
    assert error in format_violations(read(text))


def test_metadata_names_what_the_spec_does_not() -> None:
    assert one("  gpu: {value: 1}\n").name == "t-1"
    assert one("  name: {value: own}\n").name == "own"
    prefixed = one("  namePrefix: {value: own}\n")
    assert prefixed.name == ""
    assert not prefixed.spec.HasField("name")
    named = read("apiVersion: run.ai/v2alpha1\nkind: TrainingWorkload\nmetadata:\n  name: No_Name\nspec: {}\n")[0]
    assert [(each.path, each.line, each.column) for each in named.violations] == [("metadata.name", 4, 9)]


def test_several_documents_in_a_file() -> None:
    documents = read(
        HEAD.format(kind="TrainingWorkload") + "  gpu: {value: 2}\n---\n" + HEAD.format(kind="X") + "  {}\n"
    )
    assert [(each.kind, each.line, len(each.violations)) for each in documents] == [(Kind.TRAINING, 1, 0), (None, 6, 1)]


def test_a_syntax_error_keeps_what_came_before() -> None:
    documents = read(HEAD.format(kind="TrainingWorkload") + "  gpu: {value: 2}\n---\na: [\n")
    assert documents[0].violations == []
    assert "this is not YAML" in documents[1].violations[0].message


def test_a_flood_of_errors_is_cut() -> None:
    body = "".join(f"  x{number}: {{value: 1}}\n" for number in range(300))
    found = one(body).violations
    assert len(found) == 101
    assert found[-1].message == "and more errors; the rest was not read"


def test_a_million_brackets_are_an_error_and_no_signal() -> None:
    code = (
        "from muster_language import read\n"
        "for text in ('[' * 1_000_000, '{a: ' * 1_000_000, '- ' * 500_000, '? ' * 500_000):\n"
        "    assert read(text)[0].violations, text[:3]\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr

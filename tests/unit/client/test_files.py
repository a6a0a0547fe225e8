"""Files of documents on the command line: validate for people, programs and hooks, and apply."""

from __future__ import annotations

import json
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
from google.rpc import code_pb2

from muster.api.v1 import workloads_pb2
from muster_language import read
from tests.support.plane_world import Failure, World
from tests.unit.client.conftest import Command

GOOD = """apiVersion: run.ai/v2alpha1
kind: TrainingWorkload
metadata: {{name: {name}, namespace: runai-team-a}}
spec:
  image: {{value: ubuntu}}
"""


@pytest.fixture
def good(tmp_path: Path) -> str:
    path = tmp_path / "good.yaml"
    path.write_text(GOOD.format(name="bert") + "---\n" + GOOD.format(name="gpt"))
    return str(path)


@pytest.fixture
def bad(tmp_path: Path) -> str:
    path = tmp_path / "bad.yaml"
    path.write_text(GOOD.format(name="bert") + "  gpu: {value: 1.5}\n  imagePulPolicy: {value: Always}\n")
    return str(path)


@pytest.fixture
def binary(tmp_path: Path) -> str:
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"a: b\nc: \xff\n")
    return str(path)


def test_validate_needs_no_control_plane(muster: Command, world: World, good: str) -> None:
    ran = muster("validate", "-f", good, server=False)
    assert (ran.code, ran.out, ran.err) == (0, "2 documents, no errors\n", "")
    assert not world.calls


def test_validate_takes_names_as_shells_and_hooks_give_them(muster: Command, good: str, bad: str) -> None:
    assert muster("validate", good, bad, server=False).code == 2
    assert muster("validate", "-f", good, bad, server=False).code == 2
    assert muster("validate", "-f", good, "-f", good, server=False).out == "4 documents, no errors\n"


@pytest.mark.parametrize(
    "words", [["validate", "-"], ["validate", "-f", "-"], ["submit", "-f", "-"], ["apply", "-f", "-"]]
)
def test_a_hyphen_reads_standard_input(
    muster: Command, world: World, good: str, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(Path(good).read_bytes())))
    assert muster(*words).code == 0
    asked = {"submit": "SubmitWorkload", "apply": "ApplyWorkload"}.get(words[0])
    assert len(world.calls) == (2 if asked else 0)
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"kind: [")))
    ran = muster(*words)
    assert ran.code == 2
    assert ran.err.startswith("<stdin>:2:1: this is not YAML")


def test_validate_says_every_error_of_every_file(muster: Command, good: str, bad: str, binary: str) -> None:
    ran = muster("validate", "-f", bad, good, binary, "no-such-file.yaml", server=False)
    assert ran.code == 2
    assert ran.out == "4 errors in 3 of 5 documents\n"
    assert ran.err.splitlines() == [
        f"{bad}:6:16: spec.gpu.value: 1.5 is not a GPU request",
        "  0 is no GPU, 0.01 to 1 a portion, a whole number above 1 that many devices",
        f"{bad}:7:3: spec.imagePulPolicy: unknown field; did you mean imagePullPolicy?",
        f"{binary}:2:4: byte 8 (0xff) is not UTF-8",
        "  text in UTF-8: save the file in that encoding",
        "no-such-file.yaml: No such file or directory",
    ]


def test_validate_for_programs(muster: Command, good: str, bad: str) -> None:
    ran = muster("validate", "-f", good, bad, "--json", server=False)
    assert ran.code == 2
    told = json.loads(ran.out)
    assert (told["valid"], told["invalid"]) == (2, 1)
    assert told["errors"][0] == {
        "path": "spec.gpu.value",
        "message": "1.5 is not a GPU request",
        "allowed": "0 is no GPU, 0.01 to 1 a portion, a whole number above 1 that many devices",
        "file": bad,
        "line": 6,
        "column": 16,
    }
    assert json.loads(muster("validate", "-f", good, "--json", server=False).out) == {
        "valid": 2,
        "invalid": 0,
        "errors": [],
    }


def test_validate_can_ask_the_control_plane_too(muster: Command, world: World, good: str, bad: str) -> None:
    assert muster("validate", "-f", good, bad, "--remote").code == 2
    assert len(world.asked("ValidateWorkload")) == 2


def test_remarks_are_not_errors(muster: Command, tmp_path: Path) -> None:
    path = tmp_path / "tolerant.yaml"
    item = "{key: gpu, operator: Exists, effect: NoSchedule, name: other}"
    path.write_text(GOOD.format(name="bert") + f"  tolerations: {{items: {{t: {{value: {item}}}}}}}\n")
    ran = muster("validate", "-f", str(path), server=False)
    assert ran.code == 0
    assert "other is not used: the item is known by its label t" in " ".join(ran.err.split())
    for verb in ("submit", "apply"):
        assert "other is not used" in " ".join(muster(verb, "-f", str(path)).err.split())


def test_apply_says_what_it_did(muster: Command, world: World, good: str) -> None:
    first = muster("apply", "-f", good)
    assert first.code == 0
    assert [line.split(": ")[1].split()[0] for line in first.out.splitlines()] == ["created", "created"]
    again = muster("apply", "-f", good)
    assert [line.split(": ")[1].split()[0] for line in again.out.splitlines()] == ["unchanged", "unchanged"]
    told = json.loads(muster("apply", "-f", good, "--json").out)
    assert [each["outcome"] for each in told] == ["unchanged", "unchanged"]
    assert [each["workload"]["name"] for each in told] == ["bert", "gpt"]


def test_apply_with_an_error_in_any_document_applies_none(muster: Command, world: World, good: str, bad: str) -> None:
    ran = muster("apply", "-f", good, bad)
    assert ran.code == 2
    assert ran.err.splitlines()[-1] == "2 errors, nothing was applied"
    assert not world.calls


def test_apply_names_a_key_for_each_document(muster: Command, world: World, good: str) -> None:
    assert muster("apply", "-f", good, "--key", "k").code == 0
    asked = world.asked("ApplyWorkload")
    assert all(isinstance(each, workloads_pb2.ApplyWorkloadRequest) for each in asked)
    assert [each.idempotency_key for each in asked] == ["k-0", "k-1"]


@pytest.mark.parametrize("verb", [("apply",), ("templates", "apply")])
@pytest.mark.parametrize(
    ("namespace", "options", "everywhere", "where"),
    [
        ("runai-team-a", (), False, "all projects"),  # the stub's project is the draft's: here the document says it
        ("runai", (), True, "all projects"),
        ("runai", ("-p", "team-a"), False, "team-a"),
    ],
)
def test_templates_are_for_a_project_or_for_all(
    muster: Command,
    world: World,
    tmp_path: Path,
    verb: tuple[str, ...],
    namespace: str,
    options: tuple[str, ...],
    everywhere: bool,
    where: str,
) -> None:
    path = tmp_path / "base.yaml"
    path.write_text(GOOD.format(name="base").replace("runai-team-a", namespace) + "  usage: Template\n")
    ran = muster(*verb, "-f", str(path), *options)
    assert ran.out == f"template base in {where}: created (version 1)\n"
    (asked,) = world.asked("ApplyTemplate")
    assert (getattr(asked, "global"), asked.draft.project) == (everywhere, options[-1] if options else "")


def test_a_template_is_shown_as_its_document_and_removed(muster: Command, world: World) -> None:
    assert muster("templates", "get", "base", "-o", "yaml").out == "metadata:\n  name: base\n"
    assert "(all)" in muster("templates", "get", "base", "--global").out
    assert [each.project for each in world.asked("GetTemplate")] == ["team-a", ""]
    assert muster("templates", "delete", "base", "-p", "team-b").out == "template base of team-b is gone\n"
    assert muster("templates", "delete", "base", "--global").out == "template base of all projects is gone\n"
    asked = world.asked("DeleteTemplate")
    assert [(each.project, each.name, bool(each.idempotency_key)) for each in asked] == [
        ("team-b", "base", True),
        ("", "base", True),
    ]


JOBS = """---
apiVersion: batch.tensorstack.dev/v1beta1
kind: ColossalAIJobList
items:
  - apiVersion: batch.tensorstack.dev/v1beta1
    kind: ColossalAIJob
    metadata: {name: first, namespace: runai-team-a}
    spec: {torchConfig: {script: [a.py]}, replicaSpecs: [{type: worker, template: {}}]}
  - apiVersion: batch.tensorstack.dev/v1beta1
    kind: ColossalAIJob
    metadata: {name: second, namespace: runai-team-a}
    spec: {torchConfig: {script: [b.py]}, replicaSpecs: [{type: worker, template: {}}]}
---
"""


def test_the_jobs_of_a_list_are_sent_one_by_one(muster: Command, world: World, tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(GOOD.format(name="before") + JOBS + GOOD.format(name="after"))
    assert muster("submit", "-f", str(path)).code == 0
    sent = [read(each.draft.yaml) for each in world.asked("SubmitWorkload")]
    assert [[one.name for one in each] for each in sent] == [["before"], ["first"], ["second"], ["after"]]
    assert not any(one.violations for each in sent for one in each)
    located = workloads_pb2.Violation(path="spec.image", message="not allowed", line=3, column=3)
    world.fail("SubmitWorkload", Failure(code_pb2.INVALID_ARGUMENT, "1 error", [located]), times=4)
    lines = muster("submit", "-f", str(path)).err.splitlines()
    assert [line.removeprefix(f"{path}:").split(":")[0] for line in lines if "not allowed" in line] == [
        "3",
        "10",
        "14",
        "20",
    ]

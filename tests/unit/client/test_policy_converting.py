"""`muster policies convert`: documents to stdout, what is different to stderr, and nothing asked of anybody."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from muster_policy_engine.documents.document import read_policies
from tests.support.plane_world import World
from tests.unit.client.conftest import Command
from tests.unit.client.test_policy_verbs import TENANT


def v1(spec: str, namespace: str = "runai") -> str:
    return f"""apiVersion: run.ai/v2alpha1
kind: TrainingPolicy
metadata: {{name: trainings, namespace: {namespace}}}
spec:
  {spec}
"""


HOUSE = TENANT.replace("workload: training", "workload: workspace")
SAME = v1("memory: {rules: {max: 8Gi}, value: 1Gi}")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "v1.yaml"


def test_what_v2_says_as_well_is_printed_and_the_exit_is_0(muster: Command, world: World, file: Path) -> None:
    file.write_text(SAME)
    ran = muster("policies", "convert", "-f", str(file))
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "kind: Policy\n"
        "name: trainings\n"
        "workload: training\n"
        "scope: tenant\n"
        "policy:\n"
        "  defaults:\n"
        "    compute:\n"
        "      cpuMemoryRequest: 1Gi\n"
        "  rules:\n"
        "    compute:\n"
        "      cpuMemoryRequest:\n"
        "        max: 8Gi\n"
    )
    assert not world.calls


def test_what_is_lost_goes_to_stderr_and_the_exit_is_1(muster: Command, file: Path) -> None:
    file.write_text(f"{SAME}---\n{v1('ports: {rules: {required: true}}', 'runai-vision')}")
    ran = muster("policies", "convert", "-f", str(file))
    assert ran.code == 1
    assert [document.violations for document in read_policies(ran.out)] == [[], []]
    assert ran.err.splitlines() == [
        f"muster: {file}:6: in v1 it replaced the policy of all projects; in v2 that policy holds as well",
        f"muster: {file}:6: spec.ports: required: v2 cannot ask for at least one item",
    ]


def test_notes_are_no_losses(muster: Command, file: Path) -> None:
    file.write_text(v1("gpu: {rules: {max: 4}}"))
    ran = muster("policies", "convert", "-f", str(file))
    assert ran.code == 0
    assert all(line.startswith(f"muster: {file}:1: note: spec.gpu: ") for line in ran.err.splitlines())
    assert ran.err


def test_a_namespace_of_another_name_is_to_be_checked(muster: Command, file: Path) -> None:
    file.write_text(v1("memory: {value: 1Gi}", "science"))
    ran = muster("policies", "convert", "-f", str(file))
    assert ran.code == 1
    assert "scope:\n  project: science\n" in ran.out
    assert "metadata.namespace: the project of science is not known here: check scope.project" in ran.err


def test_documents_of_v2_stay_as_they_are_and_programs_get_json(muster: Command, file: Path) -> None:
    file.write_text(f"{HOUSE}---\n{v1('ports: {rules: {required: true}}')}")
    assert muster("policies", "convert", "-f", str(file)).out.startswith(f"{HOUSE}---\nkind: Policy\n")
    ran = muster("policies", "convert", "-f", str(file), "--json")
    told = json.loads(ran.out)
    assert (ran.code, ran.err, told["lost"]) == (1, "", True)
    first, second = told["policies"]
    assert (first["document"], first["lost"], first["notes"]) == (HOUSE, [], [])
    assert second["lost"] == [{"path": "spec.ports", "message": "required: v2 cannot ask for at least one item"}]
    assert (second["workload"], second["scope"]) == ("training", {"level": "tenant", "unit": ""})


def test_errors_of_a_document_convert_nothing(muster: Command, file: Path) -> None:
    file.write_text(v1("memroy: {value: 1Gi}"))
    ran = muster("policies", "convert", "-f", str(file))
    assert (ran.code, ran.out) == (2, "")
    assert f'{file}:5:3: spec.memroy: unknown field "memroy"; did you mean memory?' in ran.err
    file.write_text("# nothing\n")
    assert muster("policies", "convert", "-f", str(file)).code == 2

"""The demo's documents for pods: valid, with their program in the environment, and without folders of this machine."""

from __future__ import annotations

import shlex
from importlib import resources

import pytest
import yaml

from muster_language import read
from muster_stack.demo.texts import InPods, on_this_machine
from tests.support.told import format_violations

WORKLOADS = sorted(
    each.name.removesuffix(".yaml")
    for each in (resources.files("muster_stack.demo") / "documents").iterdir()
    if each.name != "trigger.yaml"
)
IMAGES = {"python": "py:1", "mpi": "mpi:1", "torch": "torch:1"}


def in_pods(*, gpus: bool = True) -> InPods:
    return InPods("lab", IMAGES, "demo", {"urgent": "narrow"}, gpus)


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("gpus", [True, False])
def test_every_document_is_valid_and_carries_its_program(name: str, *, gpus: bool) -> None:
    text = in_pods(gpus=gpus)(name, address="http://squares:8080")
    (document,) = read(text, source=name)
    assert format_violations([document]) == ""
    spec = yaml.safe_load(text)["spec"]
    local = yaml.safe_load(on_this_machine(name, address="http://squares:8080"))["spec"]
    program, *arguments = shlex.split(local["arguments"]["value"])
    words = shlex.split(spec["command"]["value"])
    assert words[-1 - len(arguments) :] == [program, *arguments]
    source = (resources.files("muster_stack.demo") / "workloads" / program).read_text()
    assert spec["environment"]["items"]["PROGRAM"]["value"] == source
    assert spec["clusters"] == {"value": ["lab"]}
    assert not {"workingDir", "arguments", "nodePools"} & set(spec)
    assert gpus or not {"gpu", "gpuDevices"} & set(spec)


def test_what_starts_a_program_and_the_image_that_has_it() -> None:
    specs = {name: yaml.safe_load(in_pods()(name))["spec"] for name in ("half", "mpi", "parallel")}
    assert {name: shlex.split(spec["command"]["value"])[:-1] for name, spec in specs.items()} == {
        "half": ["sh", "-c", 'exec python3 -c "$PROGRAM" "$@"', "train.py", "--steps"],
        "mpi": ["sh", "-c", 'exec python3 -m mpi4py -c "$PROGRAM" "$@"'],
        "parallel": ["torchrun", "--no-python", "sh", "-c", 'exec python3 -c "$PROGRAM" "$@"'],
    }
    assert {name: spec["image"]["value"] for name, spec in specs.items()} == {
        "half": "py:1",
        "mpi": "mpi:1",
        "parallel": "torch:1",
    }


def test_projects_and_what_is_no_workload() -> None:
    named = {name: yaml.safe_load(in_pods()(name)) for name in ("half", "urgent", "trigger")}
    assert named["half"]["metadata"]["namespace"] == "runai-demo"
    assert named["urgent"]["metadata"]["namespace"] == "runai-narrow"
    assert named["trigger"] == {**yaml.safe_load(on_this_machine("trigger")), "project": "demo"}
    assert named["half"]["spec"]["gpu"] == {"value": 0.5}

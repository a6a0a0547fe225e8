"""Every example of the seed documents on a whole stack: read, submitted, admitted; run, or waiting with a reason.

The local back end has no images, so an example without a command gets one that stays, and a command that is not on
this machine becomes the same. The ColossalAIJob gets a script, and a stand-in for torch where that is not installed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from muster.workload.v1 import workload_pb2 as wl
from muster_client import Muster
from muster_client.phases import Phase
from muster_client.words import phase_of
from muster_language import read
from tests.support.ranks import torch_stand_in
from tests.support.stacks import RunningStack, running_stack
from tests.support.waiting import eventually

SEEDS: Final = Path(__file__).parents[1] / "data" / "seeds"
COMMAND: Final = str(Path(sys.executable).parent / "muster")
STAYS: Final = 'python -c "import time; time.sleep(600)"'
NORTH: Final = """
cluster: north
nodes:
  - name: north-0
    devices: {count: 8, model: A100-40GB, memory: 40Gi}
"""
TEMPLATE: Final = "kind-template"
COLOSSAL: Final = "004-colossal-ai-job"
# A line at once: the ranks of a gang share the launcher's output, and print writes each word by itself.
TRAIN: Final = """
import os
os.write(1, f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}\\n".encode())
"""
# What a machine without Kubernetes cannot give: these wait, and the reason says for what.
WAITING: Final = {"001-extended-resources": "ResourceTooLarge", "001-git-sync": "NotSupported"}
ENDING: Final = frozenset({"kind-training", "kind-mpi", "kind-mpi-training", "kind-pytorch", COLOSSAL})
EXAMPLES: Final = [path.stem for path in sorted(SEEDS.glob("*.yaml")) if path.stem != TEMPLATE]


def original(example: str) -> str:
    return (SEEDS / f"{example}.yaml").read_text()


def name_of(example: str) -> str:
    return read(original(example))[0].name


def runnable(example: str, folder: Path) -> str:
    """The example with a command that this machine has."""
    text = original(example)
    if example == COLOSSAL:
        return with_script(text, folder)
    if "command:" in text:
        return re.sub(r"start-notebook\.sh", lambda _: f"'{STAYS}'", text)
    return f"{text}  command:\n    value: '{STAYS}'\n"


def with_script(text: str, folder: Path) -> str:
    job = yaml.safe_load(text)
    script = folder / "train.py"
    script.write_text(TRAIN)
    job["spec"]["torchConfig"]["script"] = [str(script)]
    if importlib.util.find_spec("torch") is None:
        path = str(torch_stand_in(folder))
        for replica in job["spec"]["replicaSpecs"]:  # each its own: PyYAML would write one that is shared as an alias
            variables = replica["template"]["spec"]["containers"][0].setdefault("env", [])
            variables.append({"name": "PYTHONPATH", "value": path})
    return yaml.safe_dump(job)


class Seeds:
    """The examples on a stack."""

    def __init__(self, stack: RunningStack, folder: Path) -> None:
        self.stack = stack
        self.folder = folder

    def run(self, *arguments: str) -> str:
        """What the command prints."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
        env["MUSTER_HOME"] = str(self.stack.layout.root)
        ran = subprocess.run([COMMAND, *arguments], check=False, capture_output=True, text=True, env=env, timeout=120)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    def __call__(self, *arguments: str) -> Any:
        """What the command prints for programs."""
        return json.loads(self.run(*arguments, "--json"))

    def file(self, name: str, text: str) -> str:
        path = self.folder / f"{name}.yaml"
        path.write_text(text)
        return str(path)


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seeds]:
    folder = tmp_path_factory.mktemp("stack")
    for parent in (folder, folder.parent, folder.parent.parent):
        parent.chmod(0o711)  # root's PostgreSQL runs as another user, who must get through
    programs = tmp_path_factory.mktemp("seeds")
    programs.chmod(0o755)  # replicas of root's stack are other users
    with running_stack(folder / "data", {"north": f"{NORTH}roots: [{{path: {programs}}}]\n"}) as running:
        here = Seeds(running, programs)
        here("projects", "create", "team-a", "--quota", "8")
        here("apply", "-f", str(SEEDS / f"{TEMPLATE}.yaml"))
        files = [here.file(each, runnable(each, here.folder)) for each in EXAMPLES]
        here("submit", "-f", *files, "--no-wait")
        yield here


def arrived(workload: wl.Workload, example: str) -> bool:
    """Whether it is where it belongs, or will never be there."""
    phase = phase_of(workload)
    if example in WAITING:
        return phase is Phase.FAILED or workload.reason.code == WAITING[example]
    return phase in {Phase.FAILED, Phase.COMPLETED, Phase.RUNNING} - ({Phase.RUNNING} if example in ENDING else set())


@pytest.mark.parametrize("example", EXAMPLES)
async def test_an_example_runs_or_says_why_not(seeds: Seeds, example: str) -> None:
    name = name_of(example)
    async with Muster(seeds.stack.server) as muster:
        told = await eventually(
            lambda: muster.get(name, project="team-a"), lambda workload: arrived(workload, example), within=60
        )
    assert told.effective_spec.kind == told.spec.kind
    if example in WAITING:
        assert (phase_of(told), told.reason.code) == (Phase.PENDING, WAITING[example])
        assert told.reason.message
    else:
        assert phase_of(told) is (Phase.COMPLETED if example in ENDING else Phase.RUNNING), told.reason


def test_what_ran_was_given_what_its_document_says(seeds: Seeds) -> None:
    assert "0.1 yes" in seeds.run("logs", name_of("kind-training"))
    for example, pattern in (("kind-mpi", r"rank=([0-9])"), (COLOSSAL, r"rank ([0-9]) of 4")):
        told = seeds.run("logs", name_of(example))
        assert sorted(re.findall(pattern, told)) == ["0", "1", "2", "3"], told


async def test_what_is_got_back_is_the_same_when_it_is_applied(seeds: Seeds) -> None:
    lasting = [name_of(each) for each in EXAMPLES if each not in ENDING]
    async with Muster(seeds.stack.server) as muster:
        got = [await muster.get_yaml(name, project="team-a") for name in lasting]
        applied = [await muster.apply(text, project="team-a") for text in got]
    assert [(each.workload.name, each.outcome) for each in applied] == [(name, "unchanged") for name in lasting]

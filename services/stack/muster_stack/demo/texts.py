"""The demo's documents, as they are submitted where replicas are processes of this machine, and where they are pods.

Called by the scene. A pod has no folder of this machine: its program comes in a variable of its environment.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any, Final, Protocol

import yaml

_PACKAGE: Final = "muster_stack.demo"
_PROGRAM: Final = "PROGRAM"
_IN_PODS: Final[Mapping[str, Mapping[str, Any]]] = {  # what is asked for in other words there
    "template": {"gpu": None, "gpuDevices": 1},
    "service": {"gpu": None, "gpuDevices": 1},
    "patient": {"gpu": None, "gpuDevices": 1},
    "parallel": {"gpuDevices": 1},
    "background": {"gpuDevices": 1, "nodePools": None},
    "urgent": {"gpuDevices": 1, "nodePools": None},
    "giant": {"gpuDevices": 64},
}
_ON_ALL_ADDRESSES: Final = "0.0.0.0"  # noqa: S104 - of a pod, which has an address of its own


class Texts(Protocol):
    """Gives the text of a document of the demo; more: values of its placeholders."""

    def __call__(self, name: str, **more: str) -> str:
        """Return the text."""


def on_this_machine(name: str, **more: str) -> str:
    """Return a document with the folders of this machine filled in."""
    text = (resources.files(_PACKAGE) / "documents" / f"{name}.yaml").read_text()
    programs = Path(str(resources.files(_PACKAGE) / "workloads")).resolve()
    return Template(text).safe_substitute(programs=str(programs), **more)


@dataclass(frozen=True, slots=True)
class InPods:
    """Documents for a Kubernetes cluster.

    images: by `python`, `mpi` and `torch`; gpus: whether the cluster has any; projects: by the document, where it is
    not `project`.
    """

    cluster: str
    images: Mapping[str, str]
    project: str
    projects: Mapping[str, str]
    gpus: bool

    def __call__(self, name: str, **more: str) -> str:
        """Return the text of a document."""
        document = yaml.safe_load(on_this_machine(name, **more))
        project = self.projects.get(name, self.project)
        if "kind" not in document:  # a trigger
            return yaml.safe_dump({**document, "project": project})
        document["metadata"]["namespace"] = f"runai-{project}"
        document["spec"] = self._spec(name, document["spec"])
        return yaml.safe_dump(document)

    def _spec(self, name: str, local: Mapping[str, Any]) -> dict[str, Any]:
        """Return the spec as pods need it."""
        spec = {**local, **{key: {"value": value} for key, value in _IN_PODS.get(name, {}).items()}}
        gpus = {"gpu", "gpuDevices"} if not self.gpus else set()
        left = {key: each for key, each in spec.items() if key not in gpus and each != {"value": None}}
        program, *arguments = shlex.split(left.pop("arguments")["value"])
        del left["workingDir"]
        starter = left["command"]["value"]
        words = [*_starter(starter), "exec " + _interpreter(starter) + f' -c "${_PROGRAM}" "$@"', program, *arguments]
        items = dict(left.get("environment", {}).get("items", {}))
        text = (resources.files(_PACKAGE) / "workloads" / program).read_text()
        items |= {_PROGRAM: {"value": text}, "HOST": {"value": _ON_ALL_ADDRESSES}}
        kind = {"python -m mpi4py": "mpi", "torchrun": "torch"}.get(starter, "python")
        return {
            **left,
            "image": {"value": self.images[kind]},
            "command": {"value": shlex.join(words)},
            "environment": {"items": items},
            "clusters": {"value": [self.cluster]},
        }


def _starter(local: str) -> list[str]:
    """Return the words in front of the shell's own."""
    return ["torchrun", "--no-python", "sh", "-c"] if local == "torchrun" else ["sh", "-c"]


def _interpreter(local: str) -> str:
    return "python3" if local == "torchrun" else local.replace("python", "python3", 1)

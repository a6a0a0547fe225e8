"""The agent's loop on the Kubernetes back end and the fake API server, and what it has told.

Used by the tests of its replicas and of its refusals.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from muster_cluster_agent.adapters.kubernetes import backend as backend_module
from muster_cluster_agent.adapters.kubernetes.backend import KubernetesBackend
from muster_cluster_agent.adapters.kubernetes.evacuation import Evacuation
from muster_cluster_agent.domain.container import Container
from muster_cluster_agent.domain.kubernetes import marks
from muster_cluster_agent.domain.model import Assignment, Framework, Pattern, Release, Revision, Run, Template
from muster_cluster_agent.ports import RefusalReport
from tests.support.agent_loops import Told, running
from tests.support.agents import workload_id
from tests.support.fake_api_server import FakeApiServer
from tests.support.kubernetes_backends import FILE, NAMESPACE, PROJECT, Scene, backend_on
from tests.support.waiting import until

ID = workload_id(1)


def assignment(
    command: str, *, node: str = "n-0", attempt: int = 0, namespace: str = NAMESPACE, count: int = 1
) -> Assignment:
    """A training on one node."""
    template = Template(command=command, container=Container("team/bert:7"))
    run = Run("worker", 0, count, node, slots=(("", 1),))
    pattern = Pattern.SINGLE if count == 1 else Pattern.TRIALS
    revision = Revision(1, attempt, pattern, template, (run,))
    return Assignment(ID, 1, "me", 1 + attempt, (revision,), PROJECT, namespace, "bert", grace=5.0)


def gang(command: str, *, framework: Framework = Framework.PYTORCH, workers: int = 2, attempt: int = 0) -> Assignment:
    """Workers on one node, and a launcher where the framework has one."""
    launched = framework in {Framework.MPI, Framework.COLOSSALAI}
    runs = (Run("worker", 0, workers, "n-0", slots=(("", 1),)), *([Run("launcher", 0, 1, "n-1")] if launched else []))
    pattern = Pattern.MPI if launched else Pattern.GANG
    template = Template(command=command, container=Container("team/bert:7"))
    revision = Revision(1, attempt, pattern, template, runs, framework=framework)
    return Assignment(ID, 1, "me", 1 + attempt, (revision,), PROJECT, NAMESPACE, "bert", grace=5.0)


def release(attempt: int = 0) -> Release:
    return Release(ID, 1, 1, attempt, 5.0, "deleted")


@dataclass
class Loop:
    """An agent on a cluster, and what it has told."""

    scene: Scene
    backend: KubernetesBackend
    told: Told
    agent: Any = field(default=None)

    @property
    def server(self) -> FakeApiServer:
        return self.scene.server

    def pods(self) -> dict[str, Any]:
        return self.server.objects["pods"]

    async def told_last(self, *states: str) -> None:
        """Waits until these are the last states that were told; quick ones before them may be passed over."""
        try:
            await self.until(lambda: self.told.states(1)[-len(states) :] == list(states))
        except TimeoutError:
            assert self.told.states(1)[-len(states) :] == list(states)

    async def refused(self, code: str) -> RefusalReport:
        """Waits for a refusal with that code."""

        def found() -> RefusalReport | None:
            reports = [each for each in self.told.of(RefusalReport) if isinstance(each, RefusalReport)]
            return next((each for each in reports if each.refusal.code == code), None)

        await self.until(lambda: found() is not None)
        report = found()
        assert report is not None
        return report

    async def until(self, what: Callable[[], bool]) -> None:
        """Waits until it holds."""
        await until(what, within=60)  # the agent waits up to 30 s before it tries again

    async def rounds(self, passed: list[bool], count: int = 5) -> None:
        """Waits until the back end has made so many rounds more. passed: of `counted_rounds`."""
        before = len(passed)
        await self.until(lambda: len(passed) >= before + count)

    async def hinder(self, reason: str, message: str) -> str:
        """Takes a training whose container waits for that reason on its node; returns its pod's key."""
        self.scene.kubelets.held.add("n-0")
        self.agent.take(assignment("sleep 1000"))
        await self.until(lambda: bool(self.pods()))
        (key,) = self.pods()

        def wait(pod: Any) -> None:
            pod["spec"]["nodeName"] = "n-0"
            state = {"waiting": {"reason": reason, "message": message}}
            pod["status"]["containerStatuses"] = [{"name": "main", "state": state}]

        self.server.change("pods", key, wait)
        return key

    async def nothing_left(self) -> None:
        """Waits until no object of Muster is left."""
        try:
            await self.until(lambda: self.of_ours() == [])
        except TimeoutError:
            assert self.of_ours() == []

    def of_ours(self) -> list[str]:
        """Every object that carries Muster's label, but the agent's own and the programs of namespaces."""
        found = [item for kind in self.server.objects.values() for item in kind.values()]
        labelled = [item for item in found if (item["metadata"].get("labels") or {}).get(marks.MANAGED_BY)]
        names = [str(item["metadata"]["name"]) for item in labelled]
        return sorted(name for name in names if not name.startswith("muster-programs-"))


def counted_rounds(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Makes rounds of the back end quick; the list grows by one with each that has passed."""
    monkeypatch.setattr(backend_module, "_LOOK_SECONDS", 0.05)
    passed: list[bool] = []
    look = Evacuation.look

    async def counted(self: Evacuation) -> None:
        await look(self)
        passed.append(True)

    monkeypatch.setattr(Evacuation, "look", counted)
    return passed


@asynccontextmanager
async def loop(
    made: Scene, told: Told | None = None, file: str = FILE, *, caught_up: bool = True
) -> AsyncIterator[Loop]:
    """One agent on a cluster, as one process would be. file: the text of its cluster file.

    caught_up: it has read the bus to its end.
    """
    told = told or Told()
    async with backend_on(made.server, file) as backend, running(backend, told, caught_up=caught_up) as agent:
        yield Loop(made, backend, told, agent)

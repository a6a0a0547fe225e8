"""The agent's loop on the Kubernetes back end: pods from their creation to the last object that is taken away."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from muster_cluster_agent.adapters.kubernetes import backend as backend_module
from muster_cluster_agent.adapters.kubernetes.backend import KubernetesBackend
from muster_cluster_agent.domain.container import Container
from muster_cluster_agent.domain.kubernetes import marks
from muster_cluster_agent.domain.model import Assignment, Failure, Pattern, Release, Revision, Run, State, Template
from muster_cluster_agent.domain.plan import replica_plans
from muster_cluster_agent.ports import RefusalReport, StatusReport
from tests.support.agent_loops import Told, running
from tests.support.agents import workload_id
from tests.support.fake_api_server import FakeApiServer, Fault, refusal
from tests.support.fake_kubelet import now
from tests.support.kubernetes_backends import NAMESPACE, PROJECT, Scene, backend_on, scene
from tests.support.waiting import until

ID = workload_id(1)


def assignment(
    command: str, *, node: str = "n-0", attempt: int = 0, namespace: str = NAMESPACE, count: int = 1
) -> Assignment:
    """A training on one node."""
    template = Template(command=command, container=Container("team/bert:7"))
    run = Run("worker", 0, count, node, anonymous=1)
    pattern = Pattern.SINGLE if count == 1 else Pattern.TRIALS
    revision = Revision(1, attempt, pattern, template, (run,))
    return Assignment(ID, 1, "me", 1 + attempt, (revision,), PROJECT, namespace, "bert", grace=5.0)


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

    async def nothing_left(self) -> None:
        """Waits until no object of Muster is left."""
        try:
            await self.until(lambda: self.of_ours() == [])
        except TimeoutError:
            assert self.of_ours() == []

    def of_ours(self) -> list[str]:
        """Every object that carries Muster's label, but the agent's own."""
        found = [item for kind in self.server.objects.values() for item in kind.values()]
        labelled = [item for item in found if (item["metadata"].get("labels") or {}).get(marks.MANAGED_BY)]
        return sorted(item["metadata"]["name"] for item in labelled)


@asynccontextmanager
async def loop(made: Scene, told: Told | None = None) -> AsyncIterator[Loop]:
    """One agent on a cluster, as one process would be."""
    told = told or Told()
    async with backend_on(made.server) as backend, running(backend, told) as agent:
        yield Loop(made, backend, told, agent)


async def test_a_training_lives_and_leaves_nothing() -> None:
    async with scene() as made, loop(made) as here:
        here.agent.take(assignment("sh -c 'echo hello; exit 0'"))
        await here.told_last("SUCCEEDED", "GONE")
        (key,) = here.pods()
        await here.until(lambda: "finalizers" not in here.pods()[key]["metadata"])  # it stays for its log alone
        name = here.pods()[key]["metadata"]["name"]
        assert b"".join([piece async for piece in here.backend.read_log(name)]) == b"hello\n"
        here.agent.take(release())
        await here.nothing_left()
        assert here.scene.kubelets.starts == {name: 1}


async def test_a_run_that_is_released_is_stopped_with_its_grace() -> None:
    async with scene() as made, loop(made) as here:
        here.agent.take(assignment("sleep 1000"))
        await here.told_last("READY")
        here.agent.take(release())
        await here.nothing_left()
        gone = [each.status for each in here.told.of(StatusReport) if isinstance(each, StatusReport)][-1]
        assert (gone.state, gone.failure, gone.evidence) == (State.GONE, Failure.OURS, "containers-terminated")


async def test_an_end_outlives_the_agent_and_its_pod() -> None:
    async with scene() as made:
        async with loop(made) as here:
            here.agent.take(assignment("sh -c 'exit 3'"))
            await here.told_last("FAILED", "GONE")
            (key,) = here.pods()
        made.server.remove("pods", key)  # somebody deletes the pod while no agent watches
        async with loop(made) as here:
            here.agent.take(assignment("sh -c 'exit 3'"))
            await here.told_last("FAILED", "GONE")
            assert list(here.scene.kubelets.starts.values()) == [1]
            here.agent.take(release())
            await here.nothing_left()


async def test_a_pod_that_others_delete_is_no_end_of_its_own() -> None:
    async with scene() as made, loop(made) as here:
        here.agent.take(assignment("sleep 1000"))
        await here.told_last("READY")
        (key,) = here.pods()

        def kill(pod: Any) -> None:
            pod["metadata"] |= {"deletionTimestamp": now(), "deletionGracePeriodSeconds": 0}

        made.server.change("pods", key, kill)
        await here.told_last("READY", "FAILED", "GONE")
        failed = [each.status for each in here.told.of(StatusReport) if isinstance(each, StatusReport)][-2]
        assert (failed.failure, failed.message) == (Failure.INFRASTRUCTURE, "its pod was deleted by others")
        await here.until(lambda: not here.pods())


async def test_a_force_deleted_pod_is_held_until_its_end_is_known() -> None:
    async with scene() as made, loop(made) as here:
        here.agent.take(assignment("sleep 1000"))
        await here.told_last("READY")
        (key,) = here.pods()
        made.kubelets.held.add("n-0")

        def kill(pod: Any) -> None:
            pod["metadata"] |= {"deletionTimestamp": now(), "deletionGracePeriodSeconds": 0}

        made.server.change("pods", key, kill)
        here.agent.take(release())
        assert key in here.pods()
        assert "GONE" not in here.told.states(1)
        made.kubelets.held.clear()
        made.server.change("pods", key, lambda _: None)
        await here.nothing_left()
        assert here.told.states(1)[-1] == "GONE"


async def test_what_fits_nowhere_is_refused_and_not_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_module, "_LOOK_SECONDS", 0.05)
    async with scene() as made, loop(made) as here:
        made.kubelets.full.add("n-0")
        here.agent.take(assignment("sleep 1000"))
        report = await here.refused("ForeignTaken")
        assert (report.refusal.node, report.refusal.retry_after) == ("n-0", 30)
        assert "Insufficient nvidia.com/gpu" in report.refusal.message
        await here.until(lambda: not here.pods())
        here.agent.take(release())
        await here.nothing_left()
        assert here.told.states(1)[-1] == "GONE"  # nothing of the run is here
        assert "FAILED" not in here.told.states(1)


async def test_what_a_kubelet_refuses_is_refused_and_not_failed() -> None:
    async with scene() as made, loop(made) as here:
        made.kubelets.rejects = "UnexpectedAdmissionError"
        here.agent.take(assignment("sleep 1000"))
        report = await here.refused("ForeignTaken")
        assert "the kubelet of n-0 refused it" in report.refusal.message
        await here.until(lambda: not here.pods())
        assert "FAILED" not in here.told.states(1)
        assert made.kubelets.starts == {}


async def test_an_image_that_cannot_be_named_ends_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_module, "_LOOK_SECONDS", 0.05)
    async with scene() as made, loop(made) as here:
        made.kubelets.held.add("n-0")
        here.agent.take(assignment("sleep 1000"))
        await here.until(lambda: bool(here.pods()))
        (key,) = here.pods()

        def wait(pod: Any) -> None:
            pod["spec"]["nodeName"] = "n-0"
            state = {"waiting": {"reason": "InvalidImageName", "message": "no such name"}}
            pod["status"]["containerStatuses"] = [{"name": "main", "state": state}]

        made.server.change("pods", key, wait)
        await here.until(lambda: "FAILED" in here.told.states(1))
        made.server.change("pods", key, lambda pod: pod["status"].update({"phase": "Failed"}))
        await here.until(lambda: "GONE" in here.told.states(1))
        failed = [each.status for each in here.told.of(StatusReport) if isinstance(each, StatusReport)][-1]
        assert (failed.failure, failed.message) == (Failure.START, "InvalidImageName: no such name")


@pytest.mark.parametrize(
    ("namespace", "code", "words"),
    [
        ("none", "NamespaceNotOurs", "namespace none is missing"),
        ("theirs", "NamespaceNotOurs", "belongs to project other, not to p"),
    ],
)
async def test_a_namespace_of_others_is_never_written_to(namespace: str, code: str, words: str) -> None:
    async with scene() as made:
        made.kubelets.add_namespace("theirs", "other")
        async with loop(made) as here:
            here.agent.take(assignment("true", namespace=namespace))
            assert words in (await here.refused(code)).refusal.message
            assert here.of_ours() == []


async def test_what_admission_denies_is_said_in_its_own_words() -> None:
    def deny(body: Any) -> None:
        if body["kind"] == "Pod":
            raise refusal(403, "Forbidden", 'admission webhook "images" denied the request: registry not allowed')

    async with scene() as made:
        made.server.admit = deny
        async with loop(made) as here:
            here.agent.take(assignment("true"))
            assert "registry not allowed" in (await here.refused("AdmissionDenied")).refusal.message


async def test_a_pod_that_admission_changes_is_taken_back() -> None:
    def mirror(body: Any) -> None:
        if body["kind"] == "Pod":
            body["spec"]["containers"][0]["image"] = "mirror/bert:7"

    async with scene() as made:
        made.server.admit = mirror
        made.kubelets.held.add("n-0")
        async with loop(made) as here:
            here.agent.take(assignment("true"))
            assert "spec.containers[main].image" in (await here.refused("Mutated")).refusal.message
            await here.until(lambda: not here.pods())
            assert made.kubelets.starts == {}


async def test_a_name_that_is_taken_is_not_adopted() -> None:
    async with scene() as made, loop(made) as here:
        wanted = assignment("true")
        root = {"metadata": {"name": "w-none", "namespace": NAMESPACE, "labels": {marks.MANAGED_BY: "helm"}}}
        (plan,) = replica_plans(wanted, wanted.newest)
        root["metadata"]["name"] = plan.gang
        made.server.put("configmaps", root)
        here.agent.take(wanted)
        assert "belongs to helm" in (await here.refused("NameConflict")).refusal.message
        assert made.server.objects["configmaps"][f"{NAMESPACE}/{plan.gang}"]["metadata"]["labels"] == {
            marks.MANAGED_BY: "helm"
        }


async def test_a_silent_node_loses_its_replicas_and_gives_them_back() -> None:
    async with scene() as made, loop(made) as here:
        here.agent.take(assignment("sleep 1000"))
        await here.told_last("READY")
        made.kubelets.set_ready("n-0", ready=False)
        await here.told_last("READY", "LOST")
        made.kubelets.set_ready("n-0", ready=True)
        await here.told_last("READY", "LOST", "READY")
        assert list(made.kubelets.starts.values()) == [1]


async def test_a_node_that_is_silent_for_long_is_written_off() -> None:
    async with scene() as made, loop(made) as here:
        here.agent.take(assignment("sleep 1000"))
        await here.told_last("READY")
        made.kubelets.held.add("n-0")
        made.kubelets.set_ready("n-0", ready=False, at="2026-01-01T00:00:00Z")
        await here.until(lambda: "GONE" in here.told.states(1))
        gone = [each.status for each in here.told.of(StatusReport) if isinstance(each, StatusReport)][-1]
        assert (gone.evidence, gone.failure) == ("node-gone", Failure.INFRASTRUCTURE)
        await here.until(lambda: not here.pods())


async def test_a_reboot_is_evidence() -> None:
    async with scene() as made, loop(made) as here:
        here.agent.take(assignment("sleep 1000"))
        await here.told_last("READY")
        made.kubelets.held.add("n-0")
        made.server.change("nodes", "n-0", lambda node: node["status"]["nodeInfo"].update({"bootID": "another"}))
        await here.until(lambda: "GONE" in here.told.states(1))
        gone = [each.status for each in here.told.of(StatusReport) if isinstance(each, StatusReport)][-1]
        assert gone.evidence == "boot-id-changed"


@pytest.mark.parametrize("verb", ["POST", "PATCH", "DELETE"])
@pytest.mark.parametrize("after", [False, True])
async def test_answers_that_are_lost_double_and_lose_nothing(verb: str, *, after: bool) -> None:
    async with scene() as made:
        turns: dict[tuple[str, str], int] = {}

        def fault(asked: str, path: str) -> Fault | None:
            if asked != verb:
                return None
            turns[asked, path] = turns.get((asked, path), 0) + 1
            return Fault(503, "ServiceUnavailable", "try later", after=after) if turns[asked, path] % 2 else None

        made.server.fault = fault
        async with loop(made) as here:
            here.agent.take(assignment("sleep 1000"))
            await here.told_last("READY")
            here.agent.take(release())
            await here.nothing_left()
            assert list(made.kubelets.starts.values()) == [1]
            assert here.told.states(1)[-1] == "GONE"


async def test_a_newer_attempt_waits_until_the_older_one_is_gone() -> None:
    async with scene() as made, loop(made) as here:
        here.agent.take(assignment("sleep 1000"))
        await here.told_last("READY")
        (first,) = here.pods()
        made.kubelets.held.add("n-0")
        here.agent.take(assignment("sleep 1000", node="n-1", attempt=1))
        await here.until(lambda: "deletionTimestamp" in here.pods()[first]["metadata"])
        assert list(here.pods()) == [first]
        made.kubelets.held.clear()
        made.server.change("pods", first, lambda _: None)
        await here.until(lambda: [each for each in here.pods() if "-a1-" in each] != [])
        assert sum(made.kubelets.starts.values()) <= 2


async def test_trials_fill_more_than_one_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("ends", "roots"):
        monkeypatch.setattr(f"muster_cluster_agent.domain.kubernetes.{module}.LINES_IN_SHARD", 3)
    async with scene() as made, loop(made) as here:
        here.agent.take(assignment("true", count=10))
        await here.until(lambda: here.told.states(1).count("GONE") == 10)
        names = sorted(item["metadata"]["name"] for item in made.server.objects["configmaps"].values())
        assert len([name for name in names if "-gone-" in name]) >= 3
        assert all(len(item.get("data") or {}) <= 3 for item in made.server.objects["configmaps"].values())
        here.agent.take(release())
        await here.nothing_left()

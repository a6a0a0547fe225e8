"""Namespaces of projects: made once; one that is deleted goes, and nothing that ran there is forgotten."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from muster_cluster_agent.domain.kubernetes import marks
from muster_cluster_agent.handlers import agenda
from muster_cluster_agent.ports import StatusReport
from tests.support.agents import workload_id
from tests.support.fake_api_server import Fault
from tests.support.kubernetes_backends import NAMESPACE, PROJECT, Scene, scene
from tests.support.kubernetes_loops import Loop, assignment, counted_rounds, gang, loop, release

KEPT = "muster"  # the agent's own namespace


@pytest.fixture(autouse=True)
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    return counted_rounds(monkeypatch)


def delete_namespace(made: Scene) -> None:
    """Its deletion is asked for, and that of all that is in it; what no finalizer holds goes at once."""

    def delete(item: Any) -> None:
        item["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    made.server.change("namespaces", NAMESPACE, delete)
    for kind in ("configmaps", "pods"):
        for key in [key for key in made.server.objects[kind] if key.startswith(f"{NAMESPACE}/")]:
            if made.server.change(kind, key, delete)["metadata"].get("finalizers"):
                continue
            made.server.remove(kind, key)


def held_by_muster(here: Loop) -> list[str]:
    """What a finalizer of Muster holds in the namespace."""
    found = [item for kind in ("pods", "configmaps") for item in here.server.objects[kind].values()]
    return [
        item["metadata"]["name"]
        for item in found
        if item["metadata"]["namespace"] == NAMESPACE and item["metadata"].get("finalizers")
    ]


async def test_a_deleted_namespace_goes_and_its_end_outlives_the_agent() -> None:
    async with scene() as made:
        async with loop(made) as here:
            here.agent.take(assignment("sleep 1000"))
            await here.told_last("READY")
            delete_namespace(made)
            await here.told_last("FAILED", "GONE")
            await here.until(lambda: held_by_muster(here) == [])
            made.server.remove("namespaces", NAMESPACE)
        made.kubelets.add_namespace(NAMESPACE, PROJECT)  # it is back before the scheduler has said anything
        async with loop(made) as here:
            here.agent.take(assignment("sleep 1000"))
            await here.told_last("FAILED", "GONE")
            assert list(made.kubelets.starts.values()) == [1]
            here.agent.take(release())
            await here.nothing_left()


async def test_the_shards_of_a_root_are_kept_too(monkeypatch: pytest.MonkeyPatch, rounds: list[bool]) -> None:
    for module in ("lines", "roots"):
        monkeypatch.setattr(f"muster_cluster_agent.domain.kubernetes.{module}.LINES_IN_SHARD", 3)
    async with scene() as made:
        async with loop(made) as here:
            here.agent.take(assignment("true", count=8))
            await here.until(lambda: here.told.states(1).count("GONE") == 8)
            delete_namespace(made)
            await here.until(lambda: held_by_muster(here) == [])
            made.server.remove("namespaces", NAMESPACE)
            await here.rounds(rounds)
            assert len(await here.backend.list()) == 8
        made.kubelets.add_namespace(NAMESPACE, PROJECT)
        async with loop(made) as here:
            here.agent.take(assignment("true", count=8))
            await here.until(lambda: here.told.states(1).count("GONE") == 8)
            await here.rounds(rounds)
            assert set(made.kubelets.starts.values()) == {1}
            here.agent.take(release())
            await here.nothing_left()


async def test_a_root_stays_while_its_pod_may_run(rounds: list[bool]) -> None:
    async with scene() as made, loop(made) as here:
        here.agent.take(assignment("sleep 1000"))
        await here.told_last("READY")
        made.kubelets.held.add("n-0")  # its kubelet says nothing
        delete_namespace(made)
        await here.rounds(rounds)
        assert len(held_by_muster(here)) == 2
        made.kubelets.held.clear()
        for key in [*here.pods()]:
            made.server.change("pods", key, lambda _: None)
        await here.until(lambda: held_by_muster(here) == [])
        gone = [each.status for each in here.told.of(StatusReport) if isinstance(each, StatusReport)][-1]
        assert gone.evidence == "containers-terminated"
        kept = made.server.objects["configmaps"]
        assert [key for key, item in kept.items() if marks.ROOT_OF in (item["metadata"].get("labels") or {})] == [
            key for key in kept if key.startswith(f"{KEPT}/w-")
        ]
        here.agent.take(release())
        await here.nothing_left()


async def test_a_namespace_that_the_agent_makes_has_the_level_of_its_file() -> None:
    file = "cluster: c\nbackend: kubernetes\nkubeconfig: none\npod_security: baseline\n"
    async with scene() as made, loop(made, file=file) as here:
        here.agent.take(assignment("true", namespace="runai-new"))
        await here.told_last("SUCCEEDED", "GONE")
        labels = made.server.objects["namespaces"]["runai-new"]["metadata"]["labels"]
        assert labels["pod-security.kubernetes.io/enforce"] == "baseline"


async def test_the_first_replicas_of_a_project_make_its_namespace_once() -> None:
    file = "cluster: c\nbackend: kubernetes\nkubeconfig: none\n"
    async with scene() as made, loop(made, file=file) as here:
        asked: list[str] = []

        def count(verb: str, path: str) -> Fault | None:
            if verb == "POST" and path == "/api/v1/namespaces":
                asked.append(path)
            return None

        made.server.fault = count
        here.agent.take(replace(gang("sleep 1000", workers=4), namespace="runai-new", project="new"))
        await here.until(lambda: len(here.pods()) == 4)
        assert len(asked) == 1


async def test_a_namespace_whose_call_is_slow_holds_up_no_other() -> None:
    file = "cluster: c\nbackend: kubernetes\nkubeconfig: none\n"
    async with scene() as made, loop(made, file=file) as here:
        answers = iter([Fault(silent=True)])
        asked: list[str] = []

        def first_is_slow(verb: str, path: str) -> Fault | None:
            if verb != "POST" or path != "/api/v1/namespaces":
                return None
            asked.append(path)
            return next(answers, None)

        made.server.fault = first_is_slow
        here.agent.take(assignment("sleep 1000", namespace="runai-slow"))
        await here.until(lambda: bool(asked))
        here.agent.take(replace(assignment("sleep 1000", namespace="runai-new"), workload_id=workload_id(2)))
        await here.until(lambda: bool(here.pods()))
        assert {pod["metadata"]["namespace"] for pod in here.pods().values()} == {"runai-new"}


async def test_a_pod_that_has_vanished_holds_no_namespace_up() -> None:
    async with scene() as made, loop(made) as here:
        here.agent.take(assignment("sleep 1000"))
        await here.told_last("READY")
        (key,) = here.pods()
        made.kubelets.held.add("n-0")
        made.server.remove("pods", key)  # with its finalizer: its container may run
        await here.told_last("READY", "LOST")
        delete_namespace(made)
        await here.until(lambda: held_by_muster(here) == [])
        assert here.told.states(1)[-1] == "LOST"


async def test_what_waits_for_its_namespace_starts_as_soon_as_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agenda, "_RETRY_SECONDS", 1000.0)  # the clock helps nothing
    monkeypatch.setattr(agenda, "_LONGEST_RETRY", 1000.0)
    async with scene() as made, loop(made) as here:
        here.agent.take(assignment("true", namespace="runai-later"))
        await here.refused("NamespaceNotOurs")
        made.kubelets.add_namespace("runai-later", PROJECT)
        await here.told_last("SUCCEEDED", "GONE")

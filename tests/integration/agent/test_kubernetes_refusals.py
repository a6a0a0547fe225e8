"""What a cluster does not take: refused in its own words, without a failure of the workload."""

from __future__ import annotations

from typing import Any

import pytest

from muster_cluster_agent.adapters.kubernetes import backend as backend_module
from muster_cluster_agent.domain.kubernetes import marks, starting
from muster_cluster_agent.domain.plan import replica_plans
from muster_cluster_agent.ports import RefusalReport
from tests.support.fake_api_server import refusal
from tests.support.fake_kubelet import now
from tests.support.kubernetes_backends import NAMESPACE, scene
from tests.support.kubernetes_loops import assignment, loop, release


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


async def test_a_pod_that_is_bound_after_all_counts_by_its_own_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene() as made, loop(made) as here:
        made.kubelets.full.add("n-0")
        here.agent.take(assignment("sh -c 'exit 3'"))
        await here.until(lambda: any(pod.conditions for pod in here.backend._cache.by_name.values()))
        (pod,) = here.backend._cache.by_name.values()
        made.kubelets.full.clear()
        made.server.change("pods", pod.key, lambda _: None)  # the cluster's scheduler finds a place meanwhile
        await here.backend._acting.withdraw(pod, "too late")
        await here.told_last("FAILED", "GONE")
        assert list(made.kubelets.starts.values()) == [1]
        assert not here.told.of(RefusalReport)


async def test_a_missing_secret_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_module, "_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(starting, "_WAITING_SECONDS", 0.2)
    async with scene() as made, loop(made) as here:
        key = await here.hinder("CreateContainerConfigError", 'secret "x" not found')
        await here.until(lambda: "deletionTimestamp" in here.pods()[key]["metadata"])
        made.server.change("pods", key, lambda pod: pod["status"].update({"phase": "Failed"}))
        assert 'secret "x" not found' in (await here.refused("MissingObject")).refusal.message
        assert "FAILED" not in here.told.states(1)


async def test_a_volume_that_the_events_call_missing_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_module, "_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(starting, "_WAITING_SECONDS", 0.2)
    async with scene() as made, loop(made) as here:
        key = await here.hinder("ContainerCreating", "")
        uid = here.pods()[key]["metadata"]["uid"]
        event = {
            "metadata": {"name": "e", "namespace": NAMESPACE},
            "involvedObject": {"uid": uid},
            "reason": "FailedMount",
            "message": 'configmap "conf" not found',
            "lastTimestamp": now(),
            "count": 2,
        }
        made.server.put("events", event)
        await here.until(lambda: "deletionTimestamp" in here.pods()[key]["metadata"])
        made.server.change("pods", key, lambda pod: pod["status"].update({"phase": "Failed"}))
        assert 'configmap "conf" not found' in (await here.refused("MissingObject")).refusal.message


async def test_a_pod_that_starts_as_it_should_asks_for_no_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_module, "_LOOK_SECONDS", 0.05)
    async with scene() as made, loop(made) as here:
        asked: list[str] = []
        made.server.fault = lambda _, path: asked.append(path) if path.endswith("/events") else None
        here.agent.take(assignment("sleep 1000"))
        await here.told_last("READY")
        assert asked == []

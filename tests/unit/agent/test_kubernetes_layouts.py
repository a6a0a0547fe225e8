"""A MIG layout on the fake API server: the label is set once, and only where the node holds nothing."""

from __future__ import annotations

from typing import Any

import pytest

from muster_cluster_agent.adapters.kubernetes.client import ApiError
from muster_cluster_agent.adapters.kubernetes.layouts import NO_MIG_MANAGER
from muster_cluster_agent.domain.kubernetes.layouts import CONFIG, STATE
from muster_cluster_agent.domain.layouts import LayoutAnswer
from tests.support.kubernetes_backends import FILE, Scene, backend_on, scene

WITH_MIG = f"{FILE}mig_manager: true\n"


def labels(there: Scene, node: str = "n-0") -> dict[str, str]:
    found: dict[str, str] = there.server.objects["nodes"][node]["metadata"].get("labels") or {}
    return found


def put(there: Scene, node: str = "n-0", **change: str) -> None:
    item: dict[str, Any] = there.server.objects["nodes"][node]
    names = {"config": CONFIG, "state": STATE}
    item["metadata"]["labels"] = {**labels(there, node), **{names[key]: text for key, text in change.items()}}
    there.server.put("nodes", item)


async def test_the_label_is_set_and_an_old_answer_is_taken_away() -> None:
    async with scene() as there:
        put(there, config="all-disabled", state="success")
        async with backend_on(there.server, WITH_MIG) as backend:
            assert await backend.lay_out("n-0", "all-1g.10gb") is None
            assert (labels(there)[CONFIG], labels(there).get(STATE)) == ("all-1g.10gb", None)
            put(there, state="pending")
            assert await backend.lay_out("n-0", "all-1g.10gb") is None
            assert labels(there)[STATE] == "pending", "what the mig-manager says is left alone"
            put(there, state="success")
            answer = await backend.lay_out("n-0", "all-1g.10gb")
    assert answer is not None
    assert answer.node is not None
    assert (answer.node.name, dict(answer.node.labels)[CONFIG]) == ("n-0", "all-1g.10gb")


async def test_a_mig_manager_that_fails() -> None:
    async with scene() as there, backend_on(there.server, WITH_MIG) as backend:
        await backend.lay_out("n-0", "no-such")
        put(there, state="failed")
        answer = await backend.lay_out("n-0", "no-such")
    assert answer is not None
    assert "`failed`" in answer.failure


async def test_without_a_mig_manager_nothing_is_touched() -> None:
    async with scene() as there, backend_on(there.server) as backend:
        assert await backend.lay_out("n-0", "all-1g.10gb") == LayoutAnswer(None, NO_MIG_MANAGER)
        assert CONFIG not in labels(there)


async def test_a_node_that_is_not_there_is_waited_for() -> None:
    async with scene() as there, backend_on(there.server, WITH_MIG) as backend:
        assert await backend.lay_out("n-9", "all-1g.10gb") is None


async def test_a_node_on_which_others_hold_a_device_is_refused() -> None:
    async with scene() as there:
        limits = {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}
        pod = {
            "metadata": {"name": "other", "namespace": "default"},
            "spec": {"nodeName": "n-0", "containers": [{"name": "c", "resources": limits}]},
            "status": {"phase": "Running"},
        }
        there.server.put("pods", pod)
        async with backend_on(there.server, WITH_MIG) as backend:
            answer = await backend.lay_out("n-0", "all-1g.10gb")
            assert CONFIG not in labels(there)
    assert answer is not None
    assert "another tenant" in answer.failure


async def test_a_missing_right_is_said_and_other_trouble_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene() as there, backend_on(there.server, WITH_MIG) as backend:
        client = backend._layouts._client

        async def denied(path: str, body: Any) -> Any:
            raise ApiError(403, "Forbidden", "nodes is forbidden")

        async def conflict(path: str, body: Any) -> Any:
            raise ApiError(409, "Conflict", "the object has been modified")

        monkeypatch.setattr(client, "patch", conflict)
        assert await backend.lay_out("n-0", "all-1g.10gb") is None
        monkeypatch.setattr(client, "patch", denied)
        answer = await backend.lay_out("n-0", "all-1g.10gb")
    assert answer is not None
    assert "nodes is forbidden" in answer.failure

"""Work of many replicas on the Kubernetes back end: a slow call holds up no other, and is not made twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster_cluster_agent.adapters.kubernetes import backend as backend_module
from tests.support.agents import workload_id
from tests.support.fake_api_server import Fault
from tests.support.kubernetes_backends import scene
from tests.support.kubernetes_loops import assignment, counted_rounds, loop
from tests.support.waiting import until


async def test_a_run_whose_line_is_not_taken_holds_no_other_up() -> None:
    async with scene() as made, loop(made) as here:
        here.agent.take(assignment("sh -c 'exit 0'"))
        await here.until(lambda: len(here.pods()) == 1)
        (first,) = (root["metadata"]["name"] for root in here.server.objects["configmaps"].values())
        slow = f"/configmaps/{first}"
        made.server.fault = lambda verb, path: Fault(silent=True) if verb == "PATCH" and path.endswith(slow) else None
        here.agent.take(replace(assignment("sh -c 'exit 0'"), workload_id=workload_id(2)))
        await here.until(lambda: here.told.states(2)[-1:] == ["GONE"])
        assert "GONE" not in here.told.states(1)


async def test_others_run_while_every_replica_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_module, "_TURN", 2)
    async with scene() as made, loop(made) as here:
        here.agent.take(assignment("sleep 1000", count=5))
        await here.until(lambda: len(here.backend._cache.used_names()) == 5)
        portions = [portion async for portion in here.backend.portions()]
        assert [len(portion) for portion in portions] == [2, 2, 1]
        assert {one.name for portion in portions for one in portion} == set(made.kubelets.starts)


async def test_a_pod_whose_call_is_under_way_is_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = counted_rounds(monkeypatch)
    asked: list[str] = []

    def fault(verb: str, path: str) -> Fault | None:
        if verb == "POST" and path.endswith("/pods"):
            asked.append(path)
            return Fault(silent=True)
        return None

    async with scene() as made, loop(made) as here:
        made.server.fault = fault
        here.agent.take(assignment("sleep 1000"))
        await until(lambda: bool(asked))
        before = len(passed)
        await until(lambda: len(passed) > before + 3)
        assert len(asked) == 1

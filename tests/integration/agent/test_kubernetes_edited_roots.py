"""Roots that others edit, or forge: nothing that runs is ended by it, and nothing that has ended is started again."""

from __future__ import annotations

from typing import Any

import pytest

from muster_cluster_agent.domain.kubernetes import lines, marks
from tests.support.kubernetes_backends import NAMESPACE, Scene, scene
from tests.support.kubernetes_loops import Loop, assignment, counted_rounds, loop, release

OTHER = "runai-other"
STOP = '{"reason": "deleted"}'


@pytest.fixture(autouse=True)
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    return counted_rounds(monkeypatch)


def root_of(made: Scene) -> str:
    """The key of the one root that there is."""
    (key,) = [key for key in made.server.objects["configmaps"] if key.endswith("-g1-a0")]
    return key


async def running(here: Loop) -> str:
    """The name of a pod that runs."""
    here.agent.take(assignment("sleep 1000"))
    await here.told_last("READY")
    (key,) = here.pods()
    return key.partition("/")[2]


async def test_lines_that_others_take_away_end_nothing_and_start_nothing(rounds: list[bool]) -> None:
    async with scene() as made, loop(made) as here:
        here.agent.take(assignment("true", count=2))
        await here.until(lambda: here.told.states(1).count("GONE") == 2)
        await here.until(lambda: not any(pod["metadata"].get("finalizers") for pod in here.pods().values()))
        made.server.change("configmaps", root_of(made), lambda root: root["data"].clear())
        await here.rounds(rounds)
        assert len(here.pods()) == 2  # for their logs
        await here.agent.resync()
        await here.rounds(rounds)
        assert set(made.kubelets.starts.values()) == {1}


@pytest.mark.parametrize("said", ['{"grace": 1e999}', '{"grace": -1}', "[]", ""])
async def test_an_odd_line_ends_no_agent(said: str, rounds: list[bool]) -> None:
    async with scene() as made, loop(made) as here:
        name = await running(here)
        made.server.change(
            "configmaps", root_of(made), lambda root: root.update(data={lines.stop_key(name): said, name: said})
        )
        await here.rounds(rounds)
        assert not [task for task in here.backend._tasks if task.done()]


@pytest.mark.parametrize("own_labels", [False, True])
@pytest.mark.parametrize("form", ["removed", "stop"])
async def test_a_root_of_another_namespace_ends_no_pod(form: str, *, own_labels: bool, rounds: list[bool]) -> None:
    async with scene() as made:
        async with loop(made) as here:
            name = await running(here)
            genuine = made.server.objects["configmaps"][root_of(made)]
            labels: dict[str, Any] = dict(genuine["metadata"]["labels"])
            if own_labels:
                labels["muster.io/workload"] = "00000000-0000-7000-8000-00000000beef"
            data = {name: lines.REMOVED} if form == "removed" else {lines.stop_key(name): STOP}
            made.kubelets.add_namespace(OTHER, "other")
            forged = {"name": genuine["metadata"]["name"], "namespace": OTHER, "labels": labels}
            made.server.put("configmaps", {"metadata": forged, "data": data})
            await here.rounds(rounds)
            assert "deletionTimestamp" not in here.pods()[f"{NAMESPACE}/{name}"]["metadata"]
        async with loop(made) as here:  # an agent that lists both
            here.agent.take(assignment("sleep 1000"))
            await here.told_last("READY")
            await here.rounds(rounds)
            assert "deletionTimestamp" not in here.pods()[f"{NAMESPACE}/{name}"]["metadata"]
            made.server.remove("configmaps", f"{OTHER}/{forged['name']}")
            await here.rounds(rounds)  # its lines go with it, and mean as little
            assert here.pods()[f"{NAMESPACE}/{name}"]["metadata"]["finalizers"] == [marks.GONE]
            here.agent.take(release())
            await here.nothing_left()

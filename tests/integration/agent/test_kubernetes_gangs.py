"""Gangs on the Kubernetes back end: their members' objects, their ends, and what is left of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster_cluster_agent.adapters.kubernetes.keys import new_pair
from muster_cluster_agent.domain.model import Assignment, Failure, Framework, State
from muster_cluster_agent.ports import StatusReport
from muster_kernel.ids import base_name
from tests.support.kubernetes_backends import NAMESPACE, scene
from tests.support.kubernetes_loops import ID, Loop, assignment, gang, loop, release

SHARED = ("services", "poddisruptionbudgets", "networkpolicies")


def states(here: Loop, role: str) -> list[State]:
    """The last state that was told of each replica of a role."""
    found: dict[str, State] = {}
    for each in here.told.of(StatusReport):
        if isinstance(each, StatusReport) and each.status.role == role:
            found[each.status.name] = each.status.state
    return list(found.values())


async def test_a_torch_gang_lives_and_leaves_nothing() -> None:
    async with scene() as made, loop(made) as here:
        here.agent.take(gang("torchrun t.py 'exit 0'"))
        await here.until(lambda: states(here, "worker") == [State.GONE] * 2)
        assert all(len(made.server.objects[kind]) == 1 for kind in SHARED)
        assert len(made.server.objects["configmaps"]) >= 2  # the root, and the programs of the namespace
        here.agent.take(release())
        await here.nothing_left()
        assert not any(made.server.objects[kind] for kind in SHARED)
        assert set(made.kubelets.starts.values()) == {1}


async def test_the_launcher_starts_after_its_workers_and_its_end_ends_them() -> None:
    async with scene() as made, loop(made) as here:
        made.kubelets.held.add("n-0")
        here.agent.take(gang("./solve 'exit 0'", framework=Framework.MPI))
        await here.until(lambda: len(here.pods()) == 2)
        assert {pod["metadata"]["labels"]["muster.io/role"] for pod in here.pods().values()} == {"worker"}
        made.kubelets.held.clear()
        for key in [*here.pods()]:
            made.server.change("pods", key, lambda _: None)
        await here.until(lambda: states(here, "launcher") == [State.GONE])
        await here.until(lambda: states(here, "worker") == [State.GONE] * 2)
        (keys,) = made.server.objects["secrets"].values()
        assert keys["type"] == "Opaque"
        here.agent.take(release())
        await here.nothing_left()


async def test_a_member_that_fails_takes_the_others_with_it() -> None:
    async with scene() as made, loop(made) as here:
        here.agent.take(gang("torchrun t.py"))
        await here.until(lambda: states(here, "worker") == [State.READY] * 2)
        made.kubelets.finish(next(iter(here.pods())), 3, "Error", '{"ok": false, "rank": 1, "exit_code": 3}')
        await here.until(lambda: states(here, "worker") == [State.GONE] * 2)
        told = [each.status for each in here.told.of(StatusReport) if isinstance(each, StatusReport)]
        failed = {status.failure: status.message for status in told if status.state is State.FAILED}
        assert failed[Failure.EXIT] == "rank 1 ended first, with 3"
        assert Failure.OURS in failed


@pytest.mark.parametrize(("workers", "most"), [(20, 4), (1, 8)])
@pytest.mark.parametrize("stopped", [False, True])
async def test_a_replica_costs_few_calls(workers: int, most: int, *, stopped: bool) -> None:
    async with scene() as made, loop(made) as here:
        before = _writes(made.server.calls)
        command = "torchrun t.py" if stopped else "torchrun t.py 'exit 0'"
        here.agent.take(gang(command, workers=workers) if workers > 1 else assignment(command))
        last = State.READY if stopped else State.GONE
        await here.until(lambda: states(here, "worker") == [last] * workers)
        here.agent.take(release())
        await here.nothing_left()
        assert (_writes(made.server.calls) - before) / workers <= most


def _writes(calls: dict[str, int]) -> int:
    return sum(count for verb, count in calls.items() if verb != "WATCH")


@pytest.mark.parametrize("kind", [*SHARED, "secrets"])
async def test_an_object_of_others_is_neither_adopted_nor_deleted(kind: str) -> None:
    async with scene() as made, loop(made) as here:
        root = base_name(ID, 1, 0)
        name = f"{root}-ssh" if kind == "secrets" else root
        made.server.put(kind, {"metadata": {"name": name, "namespace": NAMESPACE, "labels": {}}})
        here.agent.take(gang("./solve", framework=Framework.MPI))
        report = await here.refused("NameConflict")
        assert f"{NAMESPACE}/{name} is there already" in report.refusal.message
        here.agent.take(release())
        await here.nothing_left()
        assert f"{NAMESPACE}/{name}" in made.server.objects[kind]


async def test_an_agent_that_follows_finds_what_its_run_shares_and_clears_it_away() -> None:
    async with scene() as made:
        async with loop(made) as here:
            here.agent.take(gang("./solve", framework=Framework.MPI))
            await here.until(lambda: states(here, "launcher") == [State.READY])
        keys = dict(made.server.objects["secrets"])
        async with loop(made) as here:
            here.agent.take(gang("./solve", framework=Framework.MPI))
            await here.until(lambda: states(here, "launcher") == [State.READY])
            assert made.server.objects["secrets"] == keys
            here.agent.take(release())
            await here.nothing_left()


async def test_a_gang_that_grows_has_a_budget_of_all_its_members() -> None:
    def elastic(workers: int, revision: int) -> Assignment:
        of = gang("torchrun t.py", workers=workers)
        return replace(of, revision=revision, revisions=(replace(of.newest, least=1, most=4),))

    async with scene() as made, loop(made) as here:
        here.agent.take(elastic(2, 1))
        await here.until(lambda: states(here, "worker") == [State.READY] * 2)
        here.agent.take(elastic(3, 2))
        await here.until(lambda: states(here, "worker") == [State.READY] * 3)
        (budget,) = made.server.objects["poddisruptionbudgets"].values()
        assert budget["spec"]["minAvailable"] == 3


def test_every_run_has_keys_of_its_own() -> None:
    first, second = new_pair(), new_pair()
    assert first.private != second.private
    assert first.private.startswith("-----BEGIN OPENSSH PRIVATE KEY-----")
    assert first.public.startswith("ssh-ed25519 ")

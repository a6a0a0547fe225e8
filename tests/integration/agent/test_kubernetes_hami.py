"""Nodes of HAMi on the fake API server: what is reported of them, and what a replica is given there.

HAMi is a stand-in (`tests/support/hami.py`).
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

import pytest

from muster_cluster_agent.domain.findings import Severity
from muster_cluster_agent.domain.fleet import Identity, Mig
from muster_cluster_agent.domain.model import Assignment, Failure, Run, Share, State
from tests.integration.agent.test_kubernetes_device_claims import last, node_of
from tests.support.hami import ALLOCATED, MEBIBYTES, allocation, device, register
from tests.support.kubernetes_backends import FILE, Scene, scene
from tests.support.kubernetes_loops import Loop, assignment, counted_rounds, loop, release

UUIDS: Final = ("GPU-a", "GPU-b")
HALF: Final = 500


def shared(*shares: Share) -> Assignment:
    """A training whose replica has these shares of devices."""
    made = assignment("sleep 1000")
    revision = replace(made.newest, runs=(Run("worker", 0, 1, "n-0", shares=(shares,)),))
    return replace(made, revisions=(revision,))


def whole(*uuids: str) -> Assignment:
    return shared(*(Share(uuid, whole=True) for uuid in uuids))


def put_pod(made: Scene, text: str, resource: str = "nvidia.com/gpu") -> None:
    """A pod of others on n-0, to which HAMi gave what the text says."""
    metadata = {"name": "theirs", "namespace": "team", "uid": "t", "annotations": {ALLOCATED: text}}
    spec = {"nodeName": "n-0", "containers": [{"name": "c", "resources": {"requests": {resource: "1"}}}]}
    made.server.put("pods", {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}})


def limits(here: Loop) -> dict[str, str]:
    (pod,) = here.pods().values()
    found: dict[str, str] = pod["spec"]["containers"][0]["resources"]["limits"]
    return {name: amount for name, amount in found.items() if "/" in name}


async def test_a_node_of_hami_has_devices_that_can_be_split() -> None:
    async with scene() as made:
        made.kubelets.add_hami("n-0", register(*UUIDS))
        async with loop(made) as here:
            node, other = await node_of(here), await node_of(here, "n-1")
            assert [(one.uuid, one.memory_bytes) for one in node.devices] == [(uuid, MEBIBYTES << 20) for uuid in UUIDS]
            assert (node.slots, [group.count for group in other.slots]) == ((), [2])
            profile = (await here.backend.fleet()).profile
            assert (profile.identity, profile.mig) == (Identity.UUID, Mig.NONE)
            assert (profile.portions, profile.memory_requests, profile.memory_isolation) == (True, True, True)
            assert "gpuMemory" not in profile.refused_fields


async def test_devices_that_a_driver_lists_are_given_by_claims() -> None:
    async with scene() as made:
        made.kubelets.add_hami("n-0", register(*UUIDS))
        made.kubelets.add_devices("n-0", "GPU-c")
        async with loop(made) as here:
            assert [one.uuid for one in (await node_of(here)).devices] == ["GPU-c"]
            profile = (await here.backend.fleet()).profile
            assert (profile.portions, "gpuMemory" in profile.refused_fields) == (False, True)


@pytest.mark.parametrize(
    ("said", "devices", "others"),
    [("devices: {source: counted}", 0, 1), ("devices: {source: hami}", 2, 0), ("binder: direct", 0, 1)],
)
async def test_the_cluster_file_says_whether_hami_gives_devices(said: str, devices: int, others: int) -> None:
    async with scene() as made:
        made.kubelets.add_hami("n-0", register(*UUIDS))
        async with loop(made, file=f"{FILE}{said}\n") as here:
            node = await node_of(here)
            assert (len(node.devices), node.slots) == (devices, ())
            assert len((await node_of(here, "n-1")).slots) == others


@pytest.mark.parametrize(
    ("share", "asked", "charge"),
    [
        (Share("GPU-b", whole=True), {"nvidia.com/gpu": "1"}, 7_000),
        (
            Share("GPU-b", portion_milli=HALF),
            {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "50", "nvidia.com/gpucores": "50"},
            3_500,
        ),
        (Share("GPU-b", memory_bytes=20 << 30), {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "20480"}, 1_750),
    ],
)
async def test_a_replica_has_its_share_of_a_device(share: Share, asked: dict[str, str], charge: int) -> None:
    async with scene() as made:
        made.kubelets.add_hami("n-0", register(*UUIDS))
        async with loop(made) as here:
            here.agent.take(shared(share))
            await here.told_last("READY")
            assert limits(here) == asked
            (replica,) = await here.backend.list()
            assert (replica.devices, replica.moved, replica.charge) == (("GPU-b",), False, charge)
            assert here.server.objects["resourceclaims"] == {}
            assert (await node_of(here)).foreign.devices == ()
            here.agent.take(release())
            await here.told_last("GONE")
            await here.nothing_left()


async def test_mig_and_unequal_parts_are_refused() -> None:
    async with scene() as made:
        made.kubelets.add_hami("n-0", register(*UUIDS))
        async with loop(made) as here:
            here.agent.take(shared(Share("GPU-a", portion_milli=HALF), Share("GPU-b", portion_milli=250)))
            assert "equal parts" in (await here.refused("Unsupported")).refusal.message
            assert here.pods() == {}


async def test_other_devices_than_the_assigned_ones_are_told() -> None:
    async with scene() as made:
        made.kubelets.add_hami("n-0", register(*UUIDS))
        made.kubelets.instead["n-0"] = ["GPU-a"]
        async with loop(made) as here:
            here.agent.take(shared(Share("GPU-b", portion_milli=HALF)))
            await here.until(lambda: here.told.states(1)[-1:] == ["READY"] and last(here).devices == ("GPU-a",))
            assert last(here).state is State.READY


@pytest.mark.parametrize("instead", [["GPU-a"], [], None])
async def test_another_number_of_devices_is_a_fault_of_the_cluster(
    instead: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted_rounds(monkeypatch)
    async with scene() as made:
        made.kubelets.add_hami("n-0", register(*UUIDS))
        made.kubelets.instead["n-0"] = instead
        async with loop(made) as here:
            here.agent.take(whole(*UUIDS))
            await here.told_last("FAILED", "GONE")
            assert "READY" not in here.told.states(1)
            assert last(here).failure is Failure.INFRASTRUCTURE


async def test_devices_of_others_are_told() -> None:
    async with scene() as made:
        made.kubelets.add_hami("n-0", register(*UUIDS))
        put_pod(made, allocation("GPU-b"))
        async with loop(made) as here:
            assert (await node_of(here)).foreign.devices == ("GPU-b",)
            put_pod(made, "odd")
            await here.until(lambda: here.backend._cache.nodes.unread() == {"n-0"})
            assert (await node_of(here)).foreign.devices == UUIDS
            put_pod(made, "odd", resource="cpu")  # a pod that requests no device was given none
            await here.until(lambda: not here.backend._cache.nodes.unread())
            assert (await node_of(here)).foreign.devices == ()
            put_pod(made, "odd")
            await here.until(lambda: here.backend._cache.nodes.unread() == {"n-0"})
            made.server.remove("pods", "team/theirs")
            await here.until(lambda: not here.backend._cache.nodes.unread())
            assert (await node_of(here)).foreign.devices == ()


async def test_an_annotation_that_cannot_be_read_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = counted_rounds(monkeypatch)
    async with scene() as made:
        made.kubelets.add_hami("n-0", register(*UUIDS))
        async with loop(made) as here:
            here.agent.take(whole("GPU-a"))
            await here.told_last("READY")
            made.kubelets.add_hami("n-0", "?")
            await here.rounds(passed)
            node = await node_of(here)
            assert (node.devices, node.slots) == ((), ())
            assert here.told.states(1)[-1] == "READY"
            found = [one for one in await here.backend.check() if one.subject == "hami"]
            assert [one.severity for one in found] == [Severity.ERROR]


async def test_a_device_that_hami_reports_as_unhealthy_stops_its_replica() -> None:
    async with scene() as made:
        made.kubelets.add_hami("n-0", register(*UUIDS))
        async with loop(made) as here:
            here.agent.take(whole("GPU-b"))
            await here.told_last("READY")
            made.kubelets.add_hami("n-0", _without_health("GPU-b"))
            await here.told_last("FAILED", "GONE")
            assert last(here).failure is Failure.INFRASTRUCTURE
            assert [one.healthy for one in (await node_of(here)).devices] == [True, False]


def _without_health(lost: str) -> str:
    return json.dumps([device(uuid, health=uuid != lost) for uuid in UUIDS])

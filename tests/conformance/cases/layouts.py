"""MIG layouts of nodes: what is asked of a mig-manager, when, and what is answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from muster.events.v1 import agent_pb2
from muster.fleet.v1 import fleet_pb2
from tests.conformance.mig_manager import CONFIG, mig_manager
from tests.conformance.platforms import Capability
from tests.conformance.platforms.played import cluster_of
from tests.conformance.registry import case
from tests.conformance.stage import SUCCEEDED, Stage
from tests.support.waiting import eventually

WHOLE: Final = "nvidia.com/gpu"
SLICES: Final = "nvidia.com/mig-1g.10gb"
LAYOUTS: Final[Mapping[str, Mapping[str, str] | None]] = {
    "all-1g.10gb": {WHOLE: "0", SLICES: "56"},
    "all-disabled": {WHOLE: "8", SLICES: "0"},
    "broken": None,
}


async def wish(stage: Stage, node: str, layout: str, revision: int, **said: Any) -> None:
    """What a scheduler writes."""
    made = fleet_pb2.NodeWish(node=node, layout=layout, revision=revision, **{"epoch": stage.bus.epoch, **said})
    await stage.bus.write(f"node/{node}", made.SerializeToString())


async def end(stage: Stage, node: str, revision: int) -> None:
    """Its tombstone."""
    headers = {"epoch": stage.bus.epoch, "revision": revision, "reason": "Answered"}
    await stage.bus.write(f"node/{node}", None, [(name, str(value).encode()) for name, value in headers.items()])


async def changed(stage: Stage, node: str, revision: int, start: int = 0) -> agent_pb2.LayoutChanged:
    found = await stage.bus.first(
        lambda m: (
            isinstance(m, agent_pb2.LayoutChanged)
            and (m.node, m.revision) == (node, revision)
            and m.order.start >= start
        )
    )
    assert isinstance(found, agent_pb2.LayoutChanged)
    return found


async def label(stage: Stage, node: str) -> str:
    """What the node asks its mig-manager for."""
    found = await cluster_of(stage).kubelets.call("GET", f"/api/v1/nodes/{node}")
    return str((found["metadata"].get("labels") or {}).get(CONFIG, ""))


@case(Capability.LAYOUTS)
async def a_layout_is_made_and_told_with_its_slices(stage: Stage) -> None:
    node = stage.node()
    async with mig_manager(cluster_of(stage).kubelets, node, LAYOUTS):
        await wish(stage, node, "all-1g.10gb", 1)
        told = await changed(stage, node, 1)
        assert {group.resource: group.count for group in told.now.slots} == {SLICES: 56}
        await end(stage, node, 1)
        await wish(stage, node, "all-disabled", 2)
        told = await changed(stage, node, 2)
        assert {group.resource: group.count for group in told.now.slots} == {WHOLE: 8}
        await end(stage, node, 2)


@case(Capability.LAYOUTS)
async def a_layout_that_cannot_be_made_is_told(stage: Stage) -> None:
    node = stage.node()
    async with mig_manager(cluster_of(stage).kubelets, node, LAYOUTS):
        await wish(stage, node, "broken", 1)
        told = await stage.bus.first(lambda m: isinstance(m, agent_pb2.LayoutFailed) and m.node == node)
        assert (told.revision, "`failed`" in told.reason.message) == (1, True)
        await end(stage, node, 1)


@case(Capability.LAYOUTS)
async def a_layout_waits_for_what_runs_on_the_node(stage: Stage) -> None:
    node = stage.node()
    work = await stage.running(node)
    async with mig_manager(cluster_of(stage).kubelets, node, LAYOUTS):
        await wish(stage, node, "all-1g.10gb", 1)
        await stage.passed()
        assert await label(stage, node) == ""
        await work.finish(0)
        await work.state(SUCCEEDED)
        await changed(stage, node, 1)
        await end(stage, node, 1)


@case(Capability.LAYOUTS)
async def records_of_a_node_that_are_old_change_nothing(stage: Stage) -> None:
    node = stage.node()
    async with mig_manager(cluster_of(stage).kubelets, node, LAYOUTS):
        await wish(stage, node, "all-1g.10gb", 5)
        await changed(stage, node, 5)
        await end(stage, node, 5)
        await wish(stage, node, "all-disabled", 4)
        await wish(stage, node, "all-disabled", 5)
        await wish(stage, node, "all-disabled", 6, epoch=stage.bus.epoch - 1)
        await wish(stage, node, "all-disabled", 6, agent_instance="another")
        await stage.passed()
        assert await label(stage, node) == "all-1g.10gb"


@case(Capability.LAYOUTS, alone=True, long=True)
async def an_agent_that_is_killed_meanwhile_goes_on_and_answers(stage: Stage) -> None:
    node = stage.node()
    await wish(stage, node, "all-1g.10gb", 1)

    async def is_asked() -> bool:
        return await label(stage, node) == "all-1g.10gb"

    await eventually(is_asked)
    await stage.kill()
    async with mig_manager(cluster_of(stage).kubelets, node, LAYOUTS):
        await stage.up()
        await changed(stage, node, 1, start=stage.started)
        await stage.kill()
        await stage.up()
        await changed(stage, node, 1, start=stage.started)  # it may have been lost: no tombstone has come
        await end(stage, node, 1)

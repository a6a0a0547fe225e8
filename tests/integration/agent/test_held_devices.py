"""The devices that a restarted agent finds in use are known from the journals of their replicas."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from muster_cluster_agent.adapters.local.backend import LocalBackend
from muster_cluster_agent.adapters.local.state import StateFolder
from muster_cluster_agent.domain.actions import Create, Outcome, Stop
from muster_cluster_agent.domain.model import Observed, Share, Slice
from muster_cluster_agent.domain.plan import ReplicaPlan, replica_plans
from muster_cluster_agent.end import end
from muster_kernel.reasons import RefusalCode
from tests.support.agent_loops import assignment
from tests.support.waiting import eventually

FILE = """
cluster: c
profile: {mig: STATIC}
nodes:
  - name: n-0
    devices:
      - {uuid: GPU-a, model: A100-40GB, memory: 40Gi}
      - {uuid: GPU-b, model: A100-40GB, memory: 40Gi}
      - uuid: GPU-c
        model: A100-40GB
        memory: 40Gi
        mig: {enabled: true, slices: [{profile: 3g.20gb, start: 0}, {profile: 3g.20gb, start: 4}]}
"""


def on(share: Share, number: int) -> ReplicaPlan:
    wanted = assignment(number, "sleep 1000")
    run = replace(wanted.newest.runs[0], shares=((share,),))
    (plan,) = replica_plans(wanted, replace(wanted.newest, runs=(run,)))
    return plan


async def test_a_restarted_agent_gives_no_device_away_that_is_in_use(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(FILE)
    low, high = Share("GPU-c", slice=Slice("3g.20gb", 0)), Share("GPU-c", slice=Slice("3g.20gb", 4))
    state = StateFolder(tmp_path / "state")
    try:
        async with LocalBackend(file, state) as before:
            running = [
                on(Share("GPU-a", portion_milli=600), 1),
                on(Share("GPU-b", memory_bytes=30 << 30), 2),
                on(low, 3),
            ]
            for plan in running:
                assert (await before.act(Create(plan))).outcome is Outcome.DONE
            two = await asyncio.gather(*(before.act(Create(on(high, number))) for number in (4, 5)))
            assert sorted(answer.outcome.value for answer in two) == ["done", "refused"], "two at once for one slice"
        async with LocalBackend(file, state) as after:
            assert [found.lines for found in after._replicas if found.gone] == []
            for number, share in enumerate(
                (Share("GPU-a", portion_milli=500), Share("GPU-b", memory_bytes=11 << 30), low, high), start=6
            ):
                answer = await after.act(Create(on(share, number)))
                assert (answer.outcome, answer.code) == (Outcome.REFUSED, RefusalCode.DEVICE_IN_USE), share
            assert (await after.act(Create(on(Share("GPU-a", portion_milli=400), 10)))).outcome is Outcome.DONE
            await after.act(Stop(running[2].name, 0.0, "released"))

            async def look() -> Observed:
                return next(one for one in await after.list() if one.name == running[2].name)

            await eventually(look, lambda one: one.gone, within=60)
            assert (await after.act(Create(on(low, 8)))).outcome is Outcome.DONE
    finally:
        state.close()
        assert await asyncio.to_thread(end, state.root) == 0

"""A8: a researcher who lost his place to another project asks by every way whose workload took it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import httpx

from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2
from muster_client import Muster, Phase
from tests.attacks.attack import Actor, Attack, Verdict, broken, held
from tests.attacks.stage import Stage, python

_SLEEP: Final = python("import time; time.sleep(600)")
_TAKER: Final = "secret-taker"
_PLACED: Final = 15.0  # seconds
_EACH: Final = 8  # GPUs of one workload: the whole of a node
_PROOF: Final = "tests/rules/test_attacks_seen.py::test_the_takers_name_is_told_to_those_alone_who_may_read_it"


def _training(name: str, gpus: int) -> workload_pb2.WorkloadSpec:
    return workload_pb2.WorkloadSpec(
        kind=options_pb2.KIND_TRAINING, name=name, image="python", command=_SLEEP, gpu_devices_request=gpus
    )


@asynccontextmanager
async def _displaced(stage: Stage) -> AsyncIterator[tuple[str, str]]:
    """The id of a workload of the researcher that lost its place, and the taker's; both go at the end."""
    mark = time.time_ns()
    made: list[str] = []
    async with stage.client(Actor.RESEARCHER) as muster, stage.admin() as admin:
        nodes = [each async for each in admin.nodes.list()]
        for number in range(len(nodes)):
            asked = await muster.submit(_training(f"a8-{mark}-{number}", _EACH), project=stage.project)
            made.append(asked.id)
        try:
            await asyncio.gather(*(_running(muster, each) for each in made))
            taker = (await admin.submit(_training(f"{_TAKER}-{mark}", 1), project=stage.other_project)).id
            made.append(taker)
            yield await _first_to_leave(muster, made[:-1]), taker
        finally:
            await asyncio.gather(*(admin.delete(each) for each in made))


async def _running(muster: Muster, workload: str) -> None:
    await muster.wait(workload, phases=[Phase.RUNNING], timeout=_PLACED)


async def _first_to_leave(muster: Muster, workloads: list[str]) -> str:
    """The one that was preempted. Raises TimeoutError."""
    async with asyncio.timeout(_PLACED):
        while True:
            for each in workloads:
                if any([event.event == "WorkloadPreempted" async for event in muster.events(each)]):
                    return each
            await asyncio.sleep(0.2)


async def _by_the_sdk(stage: Stage) -> Verdict:
    async with _displaced(stage) as (victim, taker), stage.client(Actor.RESEARCHER) as muster:
        shown = [str(await muster.get(victim)), str(await muster.why(victim))]
        shown += [str(event) async for event in muster.events(victim)]
        shown += [str(each) async for each in muster.list(project=stage.project)]
        async for item in muster.watch(workload=victim):
            shown.append(str(item))
            if item.kind != "snapshot":
                break
        return _judged(" ".join(shown), taker)


async def _by_rest(stage: Stage) -> Verdict:
    async with _displaced(stage) as (victim, taker), httpx.AsyncClient(base_url=f"http://{stage.rest}") as http:
        shown = ""
        for path in ("", f"/{victim}", f"/{victim}/events", f"/{victim}/history", f"/trainings/{victim}"):
            answer = await http.get(f"/api/v1/workloads{path}", headers=stage.headers(Actor.RESEARCHER))
            shown += answer.text
        return _judged(shown, taker)


def _judged(shown: str, taker: str) -> Verdict:
    if _TAKER in shown or taker in shown:
        return broken("the answers have the name or the id of a workload of another project")
    if "a workload of another project" not in shown:
        return broken("the answers do not say that another project took the place")
    return held(f"{len(shown)} characters of answers say 'a workload of another project' and no name")


ATTACKS: Final = (
    Attack("A8", "taker-by-sdk", Actor.RESEARCHER, _by_the_sdk, _PROOF),
    Attack("A8", "taker-by-rest", Actor.RESEARCHER, _by_rest, _PROOF),
)

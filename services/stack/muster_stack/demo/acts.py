"""The eight acts. Each submits something, waits for what should happen, and proves from evidence that it did.

Called by the command, all at once. Holds: an act returns its proof as a sentence, or raises: there is no third way to
end.
"""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from aiokafka import AIOKafkaProducer

from muster.events.v1 import scheduler_pb2
from muster_client import Phase, phase_word
from muster_client.cli.render.why import why_text
from muster_stack.demo.diary import DidNotHappen, Entry
from muster_stack.demo.scene import START, Scene, exit_codes, processes_of

TRIGGERS_TOPIC: Final = "muster.triggers"
_DATASET: Final = "s3://datasets/2031-04-01"
_HTTP_SECONDS: Final = 5.0
_QUESTIONS: Final = 20
UNDECIDED: Final = frozenset({"", "NotEvaluated", "NoProject"})
"""Reasons of `why` while the scheduler has not looked at a workload."""


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that the demo shows. `workloads`: the names under which it stands on the screen."""

    title: str
    workloads: tuple[str, ...]
    play: Callable[[Scene], Awaitable[str]]


def require(holds: object, otherwise: str) -> None:
    """Raise DidNotHappen with these words unless it holds."""
    if not holds:
        raise DidNotHappen(otherwise)


def require_falling(summary: dict[str, Any]) -> str:
    """Return how the loss fell. Raises DidNotHappen where it did not."""
    first, last = float(summary["first_loss"]), float(summary["last_loss"])
    require(last < first / 2, f"the loss did not fall: {first:.4f} to {last:.4f}")
    return f"loss {first:.3g} to {last:.2g}"


async def half(scene: Scene) -> str:
    """A training gets half a device, and no more than that is charged."""
    workload = await scene.submit("half")
    entry = await scene.completed(workload.id)
    summary = await scene.summary(workload.id)
    devices = summary["devices"]
    require(len(devices) == 1 and devices[0].get("portion") == 0.5, f"it was not given half a device: {devices}")  # noqa: PLR2004
    require(exit_codes(entry) == [0], f"exit code {exit_codes(entry)}")
    require(entry.passed(Phase.RUNNING, Phase.COMPLETED), f"phases were {entry.phases}")
    return f"half of {devices[0]['uuid'][:12]}, {require_falling(summary)}"


async def parallel(scene: Scene) -> str:
    """Two workers of torchrun train one model in four processes."""
    workload = await scene.submit("parallel")
    await scene.completed(workload.id)
    logs = {worker: await scene.log(workload.id, f"worker-{worker}") for worker in range(2)}
    for worker, ranks in ((0, (0, 1)), (1, (2, 3))):
        for rank in ranks:
            line = f"rank {rank} of 4 in worker {worker}"
            require(line in logs[worker], f"the log of worker-{worker} lacks `{line}`")
    summary = await scene.summary(workload.id)
    require(summary["in_step"] is True, "the ranks did not come to the same weights")
    return f"4 ranks in step, {require_falling(summary)}"


async def allreduce(scene: Scene) -> str:
    """Four ranks of MPI on two workers add up what they have."""
    workload = await scene.submit("mpi")
    await scene.completed(workload.id)
    summary = await scene.summary(workload.id)
    require(summary["ranks"] == 4 and summary["right"] is True, f"wrong: {summary}")  # noqa: PLR2004
    by_worker = sorted(summary["workers"].values())
    require(by_worker == ["0", "0", "1", "1"], f"the ranks were not two on each worker: {summary['workers']}")
    return f"4 ranks on 2 workers, sum {summary['sum']:g} as expected"


async def service(scene: Scene) -> str:
    """A service of two replicas answers over HTTP behind one address."""
    workload = await scene.submit("service")
    entry = await scene.diary.until(
        workload.id,
        lambda each: each.phase == Phase.RUNNING.word and bool(each.workload.endpoints),
        seconds=START,
        what="squares runs and has an address",
    )
    address = entry.workload.endpoints[0]
    answered: set[str] = set()
    for number in range(_QUESTIONS):
        answer = await asyncio.to_thread(_ask, f"{address}/square?n={number}")
        require(answer["square"] == number * number, f"{number} squared is not {answer['square']}")
        answered.add(answer["replica"])
    require(len(answered) == 2, f"{len(answered)} of 2 replicas answered")  # noqa: PLR2004
    await scene.delete(workload.id)
    return f"{_QUESTIONS} answers from 2 replicas at {address}"


def _ask(address: str) -> dict[str, Any]:
    with urllib.request.urlopen(address, timeout=_HTTP_SECONDS) as answer:  # noqa: S310  it is http on the loopback
        told: dict[str, Any] = json.loads(answer.read())
    return told


async def event(scene: Scene) -> str:
    """An event on Kafka starts a run of a template; the same event again starts nothing."""
    await scene.muster.templates.apply(scene.document("template"), project=scene.project, key="demo-template")
    await scene.muster.triggers.apply(scene.trigger("trigger"), key="demo-trigger")
    identity = f"demo-{time.time_ns()}"
    await _publish(scene.kafka, identity, times=2)
    entry = await scene.diary.find(
        lambda each: identity in each.workload.caused_by, seconds=START, what="an event starts a run"
    )
    await scene.completed(entry.workload.id)
    summary = await scene.summary(entry.workload.id)
    require(summary["dataset"] == _DATASET, f"the run's DATASET is {summary['dataset']!r}, not the event's")
    runs = [each async for each in scene.muster.list(project=scene.project) if identity in each.caused_by]
    require(len(runs) == 1, f"the event came twice and started {len(runs)} runs")
    return f"{entry.workload.name}, once for an event that came twice"


async def _publish(kafka: Mapping[str, str], identity: str, *, times: int) -> None:
    headers = {
        "ce_specversion": "1.0",
        "ce_id": identity,
        "ce_source": "demo/datasets",
        "ce_type": "org.example.dataset.ready",
        "content-type": "application/json",
    }
    async with AIOKafkaProducer(**kafka, acks="all") as producer:
        for _ in range(times):
            await producer.send_and_wait(
                TRIGGERS_TOPIC,
                json.dumps({"uri": _DATASET}).encode(),
                headers=[(name, value.encode()) for name, value in headers.items()],
            )


async def patient(scene: Scene) -> str:
    """A training is suspended, gives its device back, and goes on later where it was."""
    workload = await scene.submit("patient")
    await scene.diary.becomes(workload.id, Phase.RUNNING, seconds=START)
    await _until_checkpoint(scene, workload.id, "patient")
    await scene.muster.suspend(workload.id, key="demo-suspend")
    await scene.diary.becomes(workload.id, Phase.STOPPED, seconds=START)
    left = processes_of(workload.id)
    require(not left, f"{len(left)} processes of it still run while it is suspended")
    await scene.muster.resume(workload.id, key="demo-resume")
    entry = await scene.completed(workload.id)
    summary = await scene.summary(workload.id)
    require(summary["resumed_at"] > 0, "it started from the beginning instead of where it was")
    require(entry.passed(Phase.RUNNING, Phase.STOPPED, Phase.COMPLETED), f"phases were {entry.phases}")
    return f"went on at step {summary['resumed_at']} of {summary['steps']}, attempt {summary['attempt']}"


async def _until_checkpoint(scene: Scene, workload_id: str, name: str) -> None:
    deadline = time.monotonic() + START
    while not scene.kept(workload_id, f"{name}.json"):
        if time.monotonic() > deadline:
            raise DidNotHappen(f"{name} made no step within {START:g} s")
        await asyncio.sleep(0.05)


async def preempted(scene: Scene) -> str:
    """Something urgent takes the place of something less urgent, which finishes later."""
    background = await scene.submit("background")
    entry = await scene.diary.becomes(background.id, Phase.RUNNING, seconds=START)
    places = {replica.node for replica in entry.workload.replicas}
    require(places == {"south-0"}, f"it was placed on {places}; the other node is being drained")
    await _until_checkpoint(scene, background.id, "background")
    urgent = await scene.submit("urgent")
    await scene.diary.until(
        background.id,
        lambda entry: any(phase in entry.phases[_running(entry) :] for phase in (Phase.TERMINATING, Phase.PENDING)),
        seconds=START,
        what="background gives its place up",
    )
    done = await scene.completed(urgent.id)
    first = await scene.completed(background.id)
    summary = await scene.summary(background.id)
    require((done.ended or 0) < (first.ended or 0), "the urgent one ended after the one that it preempted")
    require(first.passed(Phase.RUNNING, Phase.PENDING, Phase.RUNNING, Phase.COMPLETED), f"phases were {first.phases}")
    require(summary["resumed_at"] > 0, "it started from the beginning instead of where it was")
    require(done.workload.cluster == "south", f"it ran in {done.workload.cluster}, not on south's anonymous devices")
    return (
        f"by urgent on {done.workload.cluster}; went on at step {summary['resumed_at']}, attempt {summary['attempt']}"
    )


def _running(entry: Entry) -> int:
    return entry.phases.index(Phase.RUNNING) if Phase.RUNNING in entry.phases else 0


async def why_waiting(scene: Scene, workload: str) -> scheduler_pb2.Explanation:
    """Return why a workload waits, once the scheduler has looked at it."""
    await scene.diary.becomes(workload, Phase.PENDING, seconds=START)
    told = await scene.muster.why(workload)
    deadline = time.monotonic() + START
    while told.reason.code in UNDECIDED and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
        told = await scene.muster.why(workload)
    return told


async def giant(scene: Scene) -> str:
    """What can never fit waits, and says why."""
    workload = await scene.submit("giant")
    told = await why_waiting(scene, workload.id)
    require(told.reason.code == "TooLarge", f"why says {told.reason.code}: {told.reason.message}")
    require(phase_word(told.phase) == Phase.PENDING.word, f"it is {phase_word(told.phase)}")
    scene.diary.explanations.append(why_text(told, datetime.now(UTC)))
    await scene.delete(workload.id)
    require(Phase.RUNNING not in scene.diary.entries[workload.id].phases, "it ran all the same")
    return told.reason.message


ACTS: Final = (
    Act("training on half a GPU", ("half-a-gpu",), half),
    Act("torchrun, 2 x 2 processes", ("data-parallel",), parallel),
    Act("MPI, 4 ranks", ("allreduce",), allreduce),
    Act("inference over HTTP", ("squares",), service),
    Act("run started by an event", ("nightly",), event),
    Act("suspended and resumed", ("patient",), patient),
    Act("preempted, finished later", ("background", "urgent"), preempted),
    Act("never fits, and why", ("giant",), giant),
)

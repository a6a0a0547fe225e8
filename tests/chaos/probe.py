"""What people notice of a kill when a service has several instances: five calls a second, through each in turn.

Called by `run.py`. Two kinds of calls: a submission that waits for its verdict, and the log of something that has
ended. Calls that touch the ten seconds after a kill are left out: what died then is just starting again.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from muster_client import Muster
from muster_client.calls import Patience
from muster_client.errors import MusterError, Unavailable
from muster_client.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PROJECT: Final = "probe"
LEFT_OUT: Final = 10.0
"""Seconds after a kill."""
_PAUSE: Final = 0.2
_VERDICT: Final = 4.0
_AT_ONCE: Final = Patience(attempt=10.0, whole=0.0)  # one attempt: what a person would wait for is what is measured
_TEXT: Final = """
apiVersion: run.ai/v2alpha1
kind: TrainingWorkload
metadata: {{name: probe-{number}, namespace: runai-{project}}}
spec:
  image: {{value: none}}
  gpu: {{value: '64'}}
  command: {{value: 'true'}}
"""  # no node has as many devices: it is judged, and nothing of it runs


@dataclass(frozen=True, slots=True)
class Sample:
    """One call: seconds of the monotonic clock. kind: `verdict` or `log`; error: empty where it was answered."""

    kind: str
    began: float
    ended: float
    error: str = ""


@dataclass(slots=True)
class Probe:
    """The calls of one run."""

    samples: list[Sample] = field(default_factory=list)

    async def run(self, servers: Sequence[str], phases: Mapping[str, Phase]) -> None:
        """For ever. servers: one address an instance. phases: of the run's workloads, of which some have ended."""
        calls = set[asyncio.Task[None]]()
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(Muster(server, patience=_AT_ONCE)) for server in servers]
            try:
                for number in itertools.count():
                    client, kind = clients[number // 2 % len(clients)], ("verdict", "log")[number % 2]
                    call = asyncio.create_task(self._call(client, kind, number, phases), name=f"probe {number}")
                    calls.add(call)
                    call.add_done_callback(calls.discard)
                    await asyncio.sleep(_PAUSE)
            finally:
                for call in calls:
                    call.cancel()
                await asyncio.gather(*calls, return_exceptions=True)

    async def _call(self, client: Muster, kind: str, number: int, phases: Mapping[str, Phase]) -> None:
        ended = [name for name, phase in phases.items() if phase is Phase.COMPLETED]
        if kind == "log" and not ended:
            return
        began, error = time.monotonic(), ""
        try:
            if kind == "verdict":
                text = _TEXT.format(number=number, project=PROJECT)
                await client.submit(text, project=PROJECT, verdict=_VERDICT)
            else:
                async for _ in client.logs(ended[number % len(ended)]):
                    pass
        except Unavailable as trouble:
            error = str(trouble)
        except MusterError as trouble:
            # A log that was cut or never begun is an answer; only that there is none counts.
            error = "" if kind == "log" else str(trouble)
        self.samples.append(Sample(kind, began, time.monotonic(), error))

    def result(self, kills: Sequence[float]) -> dict[str, object]:
        """The figures. kills: their moments, on the monotonic clock."""
        calm = [
            one for one in self.samples if not any(kill <= one.ended and one.began < kill + LEFT_OUT for kill in kills)
        ]
        waits = sorted(one.ended - one.began for one in calm if one.kind == "verdict" and not one.error)
        silent = [one for one in calm if one.kind == "log" and one.error]
        refused = [one for one in calm if one.kind == "verdict" and one.error]
        for one in (*silent, *refused):
            print(f"  {one.kind} probe without an answer: {one.error}", file=sys.stderr, flush=True)
        return {
            "probe_samples": len(calm),
            "log_unavailable": len(silent),
            "verdict_unavailable": len(refused),
            "verdict_wait_p99_ms": round(waits[int(len(waits) * 0.99)] * 1000, 1) if waits else None,
        }

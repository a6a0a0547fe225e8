"""Waiting for policy's verdict on a workload that was just made; gRPC and REST answer with what it says."""

from __future__ import annotations

from muster.workload.v1 import workload_pb2 as wl
from muster_submission.adapters.reading import Reading
from muster_submission.adapters.verdicts import Verdicts
from muster_submission.domain.progress import NOT_JUDGED


async def judged(reading: Reading, verdicts: Verdicts, made: wl.Workload, seconds: float) -> tuple[wl.Workload, int]:
    """The workload and its verdict once policy has judged it, or as they are after that time."""
    with verdicts.expect(made.id) as expectation:
        shown, verdict = await reading.with_verdict(made.id)
        if verdict == NOT_JUDGED:
            await expectation.wait(seconds)
            shown, verdict = await reading.with_verdict(made.id)
    return shown or made, verdict

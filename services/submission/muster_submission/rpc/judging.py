"""Wait for policy's verdict on a workload that was just made or changed; gRPC and REST answer with it.

Holds: it never fails. The workload is made or changed by then, and an error would tell the caller that it is not.
"""

from __future__ import annotations

from typing import Final

import asyncpg

from muster.workload.v1 import workload_pb2 as wl
from muster_chassis import logs
from muster_chassis.database import TRANSIENT
from muster_submission.adapters.reading import Reading
from muster_submission.adapters.verdicts import Verdicts
from muster_submission.domain.progress import NOT_JUDGED

_log = logs.get(__name__)
_AWAY: Final = (*TRANSIENT, asyncpg.PostgresError, TimeoutError)


async def judged(reading: Reading, verdicts: Verdicts, made: wl.Workload, seconds: float) -> tuple[wl.Workload, int]:
    """The workload and its verdict once policy has judged it, or as they are after that time."""
    try:
        with verdicts.expect(made.id, made.generation) as expectation:
            shown, verdict = await reading.with_verdict(made.id, made.generation)
            if verdict == NOT_JUDGED:
                await expectation.wait(seconds)
                shown, verdict = await reading.with_verdict(made.id, made.generation)
    except _AWAY as error:
        _log.warning("a verdict cannot be read, the answer goes without it", workload=made.id, error=repr(error))
        return made, NOT_JUDGED
    return shown or made, verdict

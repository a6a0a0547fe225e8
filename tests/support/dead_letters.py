"""Dead letters of a test's service, as an operator lists them, hands them over again, and gives them up.

Used by the tests of rule 11. Holds: each is the call that the command makes, answered by the chassis itself.
"""

from __future__ import annotations

import asyncio

from muster.api.v1 import dead_letters_pb2 as pb
from muster_chassis import identity
from muster_chassis.database import Database
from muster_chassis.dead_letters import DeadLetters
from muster_chassis.intake import Intake
from tests.support.calls import Call


async def dead(here: Database, *, done: bool = False) -> list[pb.DeadLetter]:
    """The dead letters of a service."""
    request = pb.ListDeadLettersRequest(include_done=done)
    return list((await DeadLetters(here).ListDeadLetters(request, Call())).dead_letters)


async def redrive(here: Database, consumer: Intake, *ids: str) -> pb.RedriveDeadLettersResponse:
    """The call, and beside it the sweep that the consumer's loop makes."""
    request = pb.RedriveDeadLettersRequest(ids=ids, idempotency_key=identity.event_id())
    answer = asyncio.ensure_future(DeadLetters(here).RedriveDeadLetters(request, Call()))
    while not answer.done():
        await consumer.sweep()
        await asyncio.wait({answer}, timeout=0.02)
    return answer.result()


async def discard(here: Database, *ids: str) -> pb.DiscardDeadLettersResponse:
    """Gives letters up: what waits behind them goes on."""
    request = pb.DiscardDeadLettersRequest(ids=ids, idempotency_key=identity.event_id())
    return await DeadLetters(here).DiscardDeadLetters(request, Call())

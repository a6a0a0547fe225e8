"""The calls that the services behind submission refused, asked of each and written into the audit.

app.py runs it next to the calls. Holds: a batch becomes lines of the audit once, however often it is given; a service
that does not answer is asked again, and its log has the same calls.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import asyncpg

from muster.api.v1 import refused_calls_pb2 as pb
from muster.api.v1.refused_calls_pb2_grpc import RefusedCallsServiceStub
from muster_chassis import logs
from muster_chassis.database import TRANSIENT, Database
from muster_chassis.errors import ServiceError
from muster_chassis.rpc import Caller
from muster_kernel.ids import is_uuid
from muster_submission.adapters.owners import Owner
from muster_submission.audit import Entry, audit

CALL: Final = "services.call"
"""The verb of these lines."""
_PAUSE: Final = 5.0
_SECONDS: Final = 2.0
_SILENT: Final = 60.0  # seconds for which a service that did not answer is not asked again
_WRITTEN: Final = (
    "INSERT INTO inbox (event_id, outcome, at) VALUES ($1::uuid, 'done', $2) ON CONFLICT DO NOTHING RETURNING 1"
)
_log = logs.get(__name__)


class _Deadline:
    """Replaces the context of a call, which the requests of this task do not have."""

    def time_remaining(self) -> float:
        """Seconds for one question."""
        return _SECONDS


class RefusedCalls:
    """The task. services: one `Owner` for each address, by the name of the service and the address."""

    def __init__(self, database: Database, services: Mapping[str, Owner]) -> None:
        self._database = database
        self._services = services
        self._acknowledged: dict[str, str] = {}
        self._silent: dict[str, float] = {}

    async def run(self) -> None:
        """Ask and write. An eternal task."""
        while True:
            now = time.monotonic()
            await asyncio.gather(
                *(self._quietly(where) for where in self._services if self._silent.get(where, 0.0) <= now)
            )
            await asyncio.sleep(_PAUSE)

    async def close(self) -> None:
        """Close the channels."""
        for owner in self._services.values():
            await owner.close()

    async def collect(self, where: str) -> None:
        """Write what one service refused since it was asked last. Raises ServiceError, and what PostgreSQL raises."""
        owner = self._services[where]
        asked = pb.TakeRefusedCallsRequest(acknowledged=self._acknowledged.get(where, ""))
        context: Any = _Deadline()
        found = await owner.ask(
            RefusedCallsServiceStub, "TakeRefusedCalls", asked, pb.TakeRefusedCallsResponse, context
        )
        if is_uuid(found.batch) and found.batch != asked.acknowledged:
            await self._write(owner.name, found)
            self._acknowledged[where] = found.batch

    async def _quietly(self, where: str) -> None:
        try:
            await self.collect(where)
        except ServiceError as error:
            self._silent[where] = time.monotonic() + _SILENT
            _log.debug("a service was not asked for the calls that it refused", where=where, error=error.message)
        except (*TRANSIENT, asyncpg.PostgresError, TimeoutError) as error:
            _log.warning("refused calls could not be written, tried again", where=where, error=repr(error))

    async def _write(self, service: str, found: pb.TakeRefusedCallsResponse) -> None:
        async with self._database.unit() as unit:
            if await unit.connection.fetchval(_WRITTEN, found.batch, unit.now) is None:
                return  # written before a restart, or by another instance
            for call in found.calls:
                who = Caller(call.caller, channel="grpc", peer=call.address)
                times = "1 call" if call.count == 1 else f"{call.count} calls within a minute"
                line = Entry(
                    CALL, f"method/{call.method.lstrip('/')}", outcome=call.reason, detail=f"{service}: {times}"
                )
                await audit(unit, line, who=who)


def by_address(owners: Sequence[Owner]) -> dict[str, Owner]:
    """One `Owner` for each address of these, since each instance counts what it refused itself."""
    return {f"{owner.name} at {where}": owner.at(where) for owner in owners for where in owner.where}

"""The part of the composition root that runs for ever next to the calls: pruning and keys.

Called by app.py alone. Holds: a database that is away for a while ends none of these tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Final

import asyncpg

from muster_chassis import identity, logs
from muster_chassis.database import TRANSIENT, Database
from muster_chassis.retention import paced
from muster_submission.adapters.firings import PostgresFirings
from muster_submission.adapters.reading import Reading
from muster_submission.adapters.secrets import PostgresSecrets
from muster_submission.adapters.vault import BadKeys, Vault
from muster_submission.app_access import AccessParts
from muster_submission.handlers.sealing import Rotation

_log = logs.get(__name__)
_LOG_KEPT: Final = timedelta(hours=24)
_HISTORY_KEPT: Final = timedelta(days=90)
_PRUNE_SECONDS: Final = 60.0
_PRUNE_ROWS: Final = 5000
_ROTATE_SECONDS: Final = 60.0


class Upkeep:
    """Eternal tasks over the database."""

    def __init__(
        self,
        database: Database,
        *,
        reading: Reading,
        access: AccessParts,
        firings: PostgresFirings,
        secrets: PostgresSecrets,
        vault: Vault,
    ) -> None:
        self._database = database
        self._reading = reading
        self._access = access
        self._firings = firings
        self._secrets = secrets
        self._vault = vault

    async def keep_bounded(self) -> None:
        """Make a new signing key when the newest is old, and prune, once a minute. An eternal task."""
        while True:
            try:
                await self._access.renew()
                await self.prune()
            except (*TRANSIENT, asyncpg.PostgresError, TimeoutError) as error:
                _log.warning("old rows could not be removed, tried again in a minute", error=repr(error))
            await asyncio.sleep(_PRUNE_SECONDS)

    async def prune(self) -> None:
        """Remove all rows that are due now, batch by batch: changes, histories, firings, refresh tokens, credentials.

        The batches of the tables take turns, so that a long backlog of one table delays no other table.
        """
        now = identity.now()
        changes = now - min(_LOG_KEPT, self._database.settings.retention)
        steps: list[Callable[[], Awaitable[bool]]] = [
            partial(self._reading.prune, changes, _PRUNE_ROWS),
            partial(self._reading.forget, now - _HISTORY_KEPT, _PRUNE_ROWS),
            partial(self._firings.forget, now, _PRUNE_ROWS),
            partial(self._access.forget, _PRUNE_ROWS),
            partial(self._secrets.forget, _PRUNE_ROWS),
        ]
        while steps:
            steps = [step for step in steps if await paced(step)]

    async def keep_sealed(self) -> None:
        """Reads the keys again where their file has changed, and seals anew what an older key has sealed. Eternal."""
        rotation = Rotation(self._vault, self._secrets)
        while True:
            try:
                self._vault.renew()
                more = True
                while more:
                    async with self._database.unit() as unit:
                        more = await rotation.turn(unit)
            except BadKeys as error:
                _log.error("the keys for credentials cannot be read, those that were read stay", error=str(error))
            except (*TRANSIENT, asyncpg.PostgresError, TimeoutError) as error:
                _log.warning("credentials could not be sealed anew, tried again in a minute", error=repr(error))
            await asyncio.sleep(_ROTATE_SECONDS)

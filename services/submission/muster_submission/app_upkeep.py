"""The part of the composition root that runs for ever next to the calls: pruning and keys.

Called by app.py alone. Holds: a database that is away for a while ends none of these tasks.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final

import asyncpg

from muster_chassis import identity, logs
from muster_chassis.database import TRANSIENT, Database
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
        """Prunes the log of changes, histories and old firings, once a minute. An eternal task."""
        kept = min(_LOG_KEPT, self._database.settings.retention)
        while True:
            try:
                while await self._reading.prune(identity.now() - kept, _PRUNE_ROWS):
                    pass
                while await self._reading.forget(identity.now() - _HISTORY_KEPT, _PRUNE_ROWS):
                    pass
                await self._firings.forget(identity.now(), _PRUNE_ROWS)
                await self._access.renew()
                await self._access.forget(_PRUNE_ROWS)
                await self._secrets.forget(_PRUNE_ROWS)
            except (*TRANSIENT, asyncpg.PostgresError, TimeoutError) as error:
                _log.warning("old rows could not be removed, tried again in a minute", error=repr(error))
            await asyncio.sleep(_PRUNE_SECONDS)

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

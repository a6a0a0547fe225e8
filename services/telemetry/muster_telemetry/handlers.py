"""What telemetry does: counts samples, and tells changed accounts.

Called by the stream within a batch's transaction, and by the announcing task once a second.
Holds: what is told is the account as it is in the database, so that telling it twice or late does no harm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from muster.events.v1.telemetry_pb2 import UsageAccounted
from muster_chassis.codec import ACCOUNT_BEGUN
from muster_chassis.topics import ADVICE
from muster_chassis.unit import Unit
from muster_telemetry.domain.accounts import Sample, count, gpu_seconds
from muster_telemetry.ports import Account, Accounts

AT_ONCE: Final = 1_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NO_HEADERS: Final[Mapping[str, str]] = {}


class Handlers:
    """The work of the service."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts

    async def on_samples(self, unit: Unit, samples: Sequence[Sample]) -> None:
        """Counts what is new in the samples."""
        if not samples:
            return
        covered = await self._accounts.covered(unit, {sample.replica for sample in samples})
        spans, growth = count(samples, covered)
        await self._accounts.keep(unit, spans, growth)

    async def announce(self, unit: Unit) -> int:
        """Tells the accounts that have changed; how many."""
        changed = await self._accounts.take_changed(unit, AT_ONCE)
        for account in changed:
            # No version: only the last value counts, and old rows may go from the outbox without leaving a gap.
            unit.publish(ADVICE, account.workload, message(account), headers=headers(account), versioned=False)
        return len(changed)


def message(account: Account) -> UsageAccounted:
    """What the others are told."""
    told = UsageAccounted(
        workload_id=account.workload,
        project=account.project,
        name=account.name,
        gpu_seconds=gpu_seconds(account.amount),
    )
    told.until.FromDatetime(account.until)
    return told


def headers(account: Account) -> Mapping[str, str]:
    """Return the headers of an account's message.

    A reader that knows use of the workload from before the beginning of this account adds the account to it.
    """
    if account.begun is None:
        return _NO_HEADERS
    return {ACCOUNT_BEGUN: str((account.begun - _EPOCH) // timedelta(microseconds=1))}

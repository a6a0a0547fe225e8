"""Taking in what telemetry has accounted. It may be late, missing or repeated without harm."""

from __future__ import annotations

from collections.abc import Mapping

from muster_chassis.unit import Unit
from muster_submission.ports import Account, Usage


class Accounts:
    """Keeps usage by workload."""

    def __init__(self, usage: Usage) -> None:
        self._usage = usage

    async def take(self, unit: Unit, accounts: Mapping[str, Account]) -> None:
        """Takes in the newest account of each workload."""
        if accounts:
            await self._usage.keep(unit, accounts)

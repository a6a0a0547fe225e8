"""What the handlers need of the world: the accounts. The real ones are in `adapters/postgres.py`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from muster_chassis.unit import Unit
from muster_telemetry.domain.accounts import Growth
from muster_telemetry.domain.coverage import Span


@dataclass(frozen=True, slots=True)
class Account:
    """What one workload has held since `begun`, in 1/7,000 GPU times microseconds.

    begun: the beginning of the first use that this account has; None: it is older than this column.
    """

    workload: str
    project: str
    name: str
    amount: int
    until: datetime
    begun: datetime | None = None


class Accounts(Protocol):
    """Coverage of replicas and accounts of workloads, in one transaction."""

    async def covered(self, unit: Unit, replicas: Iterable[str]) -> Mapping[str, Sequence[Span]]:
        """What of these replicas was counted already. Nobody else counts until the transaction ends."""
        ...

    async def keep(self, unit: Unit, covered: Mapping[str, Sequence[Span]], growth: Sequence[Growth]) -> None:
        """Writes the coverage and lets the accounts grow; they are to be told."""
        ...

    async def take_changed(self, unit: Unit, limit: int) -> Sequence[Account]:
        """Accounts that have changed since they were told, at most `limit`; they count as told."""
        ...

    async def forget_replicas(self, unit: Unit, before: datetime, at_most: int) -> bool:
        """Remove the coverage of replicas not heard of since then; return whether there may be more."""
        ...

    async def forget_workloads(self, unit: Unit, before: datetime, at_most: int) -> bool:
        """Remove accounts without use since then that the others know; return whether there may be more."""
        ...

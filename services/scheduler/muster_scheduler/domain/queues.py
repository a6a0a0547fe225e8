"""Projects, their quotas, and what they use: the accounts in 1/7,000 GPU.

Called by the cycle (may this be charged?) and by the mutators of workloads (charge, release).
Holds: the accounts are the sum of what is charged, per (project, node pool); non-preemptible work never exceeds what
the project deserves at the moment it is placed; lowering a quota stops nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from muster_kernel.reasons import Reason, WaitingReason
from muster_scheduler.domain.journal import Journal
from muster_scheduler.domain.rules import ANY_TYPE, NO_RULES, NodeTypes, Rules


class Quota(NamedTuple):
    """What a project deserves in one node pool, and the most it may hold (None: no limit), in 1/7,000 GPU."""

    deserved: int
    limit: int | None = None
    weight: int = 0


NO_QUOTA = Quota(0)


@dataclass(slots=True, eq=False)
class Project:
    """One queue."""

    name: str
    department: str = ""
    version: int = 0
    quotas: dict[str, Quota] = field(default_factory=dict)
    rules: Rules = NO_RULES
    node_types: NodeTypes = ANY_TYPE


class Account(NamedTuple):
    """What a project holds in one node pool, in 1/7,000 GPU."""

    allocated: int = 0
    non_preemptible: int = 0


_EMPTY = Account()


class Queues:
    """All projects and their accounts."""

    def __init__(self, journal: Journal) -> None:
        """Begins without projects."""
        self._journal = journal
        self.projects: dict[str, Project] = {}
        self.accounts: dict[tuple[str, str], Account] = {}

    def put(self, project: Project) -> None:
        """Takes a project as it stands now."""
        self._journal.put(self.projects, project.name, project)

    def remove(self, name: str) -> None:
        """Forgets a project; what runs of it stays in the accounts."""
        self._journal.drop(self.projects, name)

    def quota(self, project: str, pool: str) -> Quota:
        """What the project deserves there; nothing where nothing is said."""
        known = self.projects.get(project)
        return known.quotas.get(pool, NO_QUOTA) if known else NO_QUOTA

    def account(self, project: str, pool: str) -> Account:
        """What the project holds there."""
        return self.accounts.get((project, pool), _EMPTY)

    def charge(self, project: str, pool: str, units: int, *, preemptible: bool) -> None:
        """Adds to the account; a negative amount releases."""
        if units:
            was = self.account(project, pool)
            now = Account(was.allocated + units, was.non_preemptible + (0 if preemptible else units))
            if now == _EMPTY:
                self._journal.drop(self.accounts, (project, pool))
            else:
                self._journal.put(self.accounts, (project, pool), now)

    def refusal(self, project: str, pool: str, units: int, *, preemptible: bool) -> Reason | None:
        """Why `units` more may not be charged, or None where they may."""
        if project not in self.projects:
            return Reason(WaitingReason.NO_PROJECT)
        quota, account = self.quota(project, pool), self.account(project, pool)
        if not units:
            return None
        if quota.limit is not None and account.allocated + units > quota.limit:
            short = account.allocated + units - quota.limit
            return Reason(WaitingReason.OVER_LIMIT, (account.allocated, quota.limit, short))
        over = account.non_preemptible + units - quota.deserved
        if not preemptible and over > 0:
            return Reason(WaitingReason.OVER_QUOTA, (account.non_preemptible, quota.deserved, over))
        return None

    def ratio(self, project: str, pool: str) -> tuple[int, int]:
        """How full a project is there, for ordering: (class, scaled ratio); within quota before over quota."""
        quota, account = self.quota(project, pool), self.account(project, pool)
        if not quota.deserved:
            return 1, account.allocated << 20
        return int(account.allocated >= quota.deserved), (account.allocated << 20) // quota.deserved

"""Departments over projects and their quotas: whose a project is, and what it may hold in every node pool.

What they do hold stands in their accounts (accounts.py). Called by the cycle (may this be charged?) and by the mutators
of workloads (charge, release).
Holds: at the moment it is placed, non-preemptible work stays within what its project and its department deserve, and
all work within their limits; lowering a quota stops nothing. A department that names no quota for a pool bounds nothing
there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from muster_kernel.reasons import WaitingReason
from muster_kernel.sentences import Reason
from muster_scheduler.domain.asked.quotas import (
    NO_QUOTA,
    NOTHING,
    Amount,
    Level,
    ModelQuota,
    Quota,
    UserLimit,
    beyond,
    verdict,
)
from muster_scheduler.domain.asked.rules import ANY_TYPE, NO_RULES, NodeTypes, Rules
from muster_scheduler.domain.books.accounts import Accounts, Owner, difference
from muster_scheduler.domain.journal import Journal
from muster_scheduler.domain.shares.decay import Faded, fade


@dataclass(frozen=True, slots=True)
class Project:
    """One queue into which workloads go, as people want it; quotas by node pool.

    rank: the higher is served first from what nobody deserves; home: the cluster that it prefers, empty: none.
    """

    name: str
    department: str = ""
    quotas: dict[str, Quota] = field(default_factory=dict)
    version: int = 0
    rules: Rules = NO_RULES
    node_types: NodeTypes = ANY_TYPE
    rank: int = 0
    user_limits: tuple[UserLimit, ...] = ()
    models: tuple[ModelQuota, ...] = ()
    home: str = ""


@dataclass(frozen=True, slots=True)
class Department:
    """A queue over projects, as people want it; quotas by node pool."""

    name: str
    quotas: dict[str, Quota] = field(default_factory=dict)
    version: int = 0
    rules: Rules = NO_RULES
    node_types: NodeTypes = ANY_TYPE
    rank: int = 0
    models: tuple[ModelQuota, ...] = ()


class Queues(Accounts):
    """All departments and projects and their accounts."""

    def __init__(self, journal: Journal) -> None:
        """Begins without queues."""
        super().__init__(journal)
        self.projects: dict[str, Project] = {}
        self.departments: dict[str, Department] = {}
        self.usage: dict[tuple[str, str], Faded] = {}  # of (project, pool): GPUs held lately; kept where it counts

    # -- what people change ------------------------------------------------------------------------------------------

    def put(self, project: Project) -> None:
        """Takes a project as it stands now; what it holds goes with it into another department."""
        self._move(project.name, project.department)
        self._journal.put(self.projects, project.name, project)

    def remove(self, name: str) -> None:
        """Forgets a project; what runs of it stays in its accounts."""
        self._move(name, "")
        self._journal.drop(self.projects, name)
        for key in sorted(key for key in self.usage if key[0] == name):
            self._journal.drop(self.usage, key)

    def put_department(self, department: Department) -> None:
        """Takes a department as it stands now."""
        self._journal.put(self.departments, department.name, department)

    def remove_department(self, name: str) -> None:
        """Forgets a department; its projects, if any are left, stand alone."""
        self._journal.drop(self.departments, name)

    def _move(self, project: str, to: str) -> None:
        before = self.department_name(project)
        if before != to:
            self.move(project, before, to)

    # -- asking ------------------------------------------------------------------------------------------------------

    def quota(self, project: str, pool: str) -> Quota:
        """What the project deserves there; nothing where nothing is said."""
        known = self.projects.get(project)
        return known.quotas.get(pool, NO_QUOTA) if known else NO_QUOTA

    def department_of(self, project: str) -> Department | None:
        """The department of a project, where both are known."""
        known = self.projects.get(project)
        return self.departments.get(known.department) if known else None

    def department_name(self, project: str) -> str:
        """The department of a project, whether or not more is known of it; empty: none."""
        known = self.projects.get(project)
        return known.department if known is not None else ""

    def refusal(self, owner: Owner, pool: str, amount: Amount) -> Reason | None:
        """Why `amount` more may not be charged, or None where it may: project, then department, then the user."""
        known = self.projects.get(owner.project)
        if known is None:
            return Reason(WaitingReason.NO_PROJECT)
        quota, account = self.quota(owner.project, pool), self.account(owner.project, pool)
        found = verdict(quota, account, amount, Level.PROJECT, preemptible=owner.preemptible)
        department = self.departments.get(known.department)
        over = department.quotas.get(pool) if department else None
        if found is None and over is not None:
            account = self.department_account(known.department, pool)
            found = verdict(over, account, amount, Level.DEPARTMENT, preemptible=owner.preemptible)
        return found or self._user_refusal(known, owner, pool, amount.gpu)

    def beyond_limits(self, owner: Owner, pool: str, amount: Amount) -> dict[Level, Amount] | None:
        """By how much `amount` more would break the limits of the project and its department, where it would.

        None where something else than these limits stands in the way: that no release of others lifts.
        """
        known = self.projects.get(owner.project)
        if known is None or self._user_refusal(known, owner, pool, amount.gpu) is not None:
            return None
        found: dict[Level, Amount] = {}
        department = self.departments.get(known.department)
        over = department.quotas.get(pool) if department else None
        levels = [(Level.PROJECT, self.quota(owner.project, pool), self.account(owner.project, pool))]
        if over is not None:
            levels.append((Level.DEPARTMENT, over, self.department_account(known.department, pool)))
        for level, quota, account in levels:
            excess = beyond(quota, account, amount)
            given_back = account._replace(held=account.held.plus(excess, -1))
            if verdict(quota, given_back, amount, level, preemptible=owner.preemptible) is not None:
                return None
            if excess != NOTHING:
                found[level] = excess
        return found

    def _user_refusal(self, project: Project, owner: Owner, pool: str, gpu: int) -> Reason | None:
        for limit in project.user_limits:
            if limit.pool not in {"", pool}:
                continue
            spells = self.spells_of(owner, limit.pool)
            held = sum(spell.gpu for spell in spells.values())
            if limit.gpu is not None and gpu and held + gpu > limit.gpu:
                return Reason(WaitingReason.USER_OVER_LIMIT, (held, limit.gpu, held + gpu - limit.gpu))
            if limit.workloads is not None and owner.workload not in spells and len(spells) >= limit.workloads:
                return Reason(WaitingReason.USER_RUNS_ENOUGH, (len(spells), limit.workloads))
        return None

    # -- past use ----------------------------------------------------------------------------------------------------

    def settle(self, project: str, pool: str, now: int, half_life: int) -> None:
        """Counts what the project has held there until `now`: called before that changes."""
        past = fade(
            self.usage.get((project, pool), Faded(at=now)), self.account(project, pool).allocated, now, half_life
        )
        self._journal.put(self.usage, (project, pool), past)

    def used(self, project: str, pool: str, now: int, half_life: int) -> int:
        """What the project has held there lately, the average that fades, in 2^-16 of 1/7,000 GPU."""
        past = self.usage.get((project, pool))
        return fade(past, self.account(project, pool).allocated, now, half_life).level if past else 0

    # -- invariants --------------------------------------------------------------------------------------------------

    def check(self, charged: Iterable[tuple[Owner, str, Amount]]) -> None:
        """Raises AssertionError where the accounts are not the sum of what is charged: (owner, pool, amount)."""
        fresh = Queues(Journal())
        fresh.projects = self.projects
        for owner, pool, amount in charged:
            fresh.charge(owner, pool, amount)
        for text in difference(self, fresh):
            raise AssertionError(text)

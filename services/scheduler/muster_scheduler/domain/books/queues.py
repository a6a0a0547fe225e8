"""Departments over projects, their quotas, and what they hold: the accounts of every queue in every node pool.

Called by the cycle (may this be charged?) and by the mutators of workloads (charge, release).
Holds: a project's account is the sum of what is charged to it, a department's that of its projects; at the moment it is
placed, non-preemptible work stays within what its project and its department deserve, and all work within their limits;
lowering a quota stops nothing. A department that names no quota for a pool bounds nothing there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from muster_kernel.reasons import WaitingReason
from muster_kernel.sentences import Reason
from muster_scheduler.domain.asked.quotas import (
    EMPTY,
    NO_QUOTA,
    NOTHING,
    Account,
    Amount,
    Level,
    ModelQuota,
    Quota,
    UserLimit,
    beyond,
    verdict,
)
from muster_scheduler.domain.asked.rules import ANY_TYPE, NO_RULES, NodeTypes, Rules
from muster_scheduler.domain.journal import Journal
from muster_scheduler.domain.shares.decay import Faded, fade
from muster_scheduler.domain.tuples import new

K = TypeVar("K")


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


class Owner(NamedTuple):
    """Whose account is charged: a workload of a user in a project."""

    project: str
    user: str
    workload: str
    preemptible: bool


class Spell(NamedTuple):
    """What one workload holds in one pool: how many charges, and how many GPUs in 1/7,000."""

    charges: int = 0
    gpu: int = 0


_NO_SPELL = Spell()
_NOWHERE = ("", "")
_NOBODY: dict[str, Spell] = {}
Entry = tuple[dict[Any, Any], Any, Any]
"""Of a dict, a key, and what stood there: None for nothing."""


class Queues:
    """All departments and projects and their accounts."""

    def __init__(self, journal: Journal) -> None:
        """Begins without queues."""
        self._journal = journal
        self.projects: dict[str, Project] = {}
        self.departments: dict[str, Department] = {}
        self.accounts: dict[tuple[str, str], Account] = {}  # of (project, pool)
        self.above: dict[tuple[str, str], Account] = {}  # of (department, pool)
        self.usage: dict[tuple[str, str], Faded] = {}  # of (project, pool): GPUs held lately; kept where it counts
        self.changed: dict[tuple[str, str], None] = {}  # accounts that were written, for whoever clears it
        self.risen: dict[tuple[str, str], None] = {}  # those to which something was charged, likewise
        self.fallen: dict[tuple[str, str], None] = {}  # those from which something was taken back, likewise
        self.spells: dict[tuple[str, str, str], dict[str, Spell]] = {}  # of (project, user, pool), by workload
        self._stirs: dict[str, int] = {}

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
        known = self.projects.get(project)
        before = known.department if known else ""
        if before == to:
            return
        for (name, pool), account in sorted(self.accounts.items()):
            if name == project:
                self._rewrite(before, pool, self._over(before, pool).joined(account, -1))
                self._rewrite(to, pool, self._over(to, pool).joined(account))

    def _rewrite(self, department: str, pool: str, account: Account) -> None:
        if department:
            was = _write(self.above, (department, pool), None if account == EMPTY else account)
            self._stir(pool)
            self._journal.note(self._take_back, pool, [was])

    # -- asking ------------------------------------------------------------------------------------------------------

    def quota(self, project: str, pool: str) -> Quota:
        """What the project deserves there; nothing where nothing is said."""
        known = self.projects.get(project)
        return known.quotas.get(pool, NO_QUOTA) if known else NO_QUOTA

    def account(self, project: str, pool: str) -> Account:
        """What the project holds there."""
        return self.accounts.get((project, pool), EMPTY)

    def department_of(self, project: str) -> Department | None:
        """The department of a project, where both are known."""
        known = self.projects.get(project)
        return self.departments.get(known.department) if known else None

    def department_account(self, department: str, pool: str) -> Account:
        """What the projects of a department hold there together."""
        return self._over(department, pool)

    def _over(self, department: str, pool: str) -> Account:
        return self.above.get((department, pool), EMPTY)

    def stirs(self, pool: str) -> int:
        """How often accounts of a pool were written, or a write was taken back: where it stays, they have stayed."""
        return self._stirs.get(pool, 0)

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
            account = self._over(known.department, pool)
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
            levels.append((Level.DEPARTMENT, over, self._over(known.department, pool)))
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
            spells = self._spells_of(owner, limit.pool)
            held = sum(spell.gpu for spell in spells.values())
            if limit.gpu is not None and gpu and held + gpu > limit.gpu:
                return Reason(WaitingReason.USER_OVER_LIMIT, (held, limit.gpu, held + gpu - limit.gpu))
            if limit.workloads is not None and owner.workload not in spells and len(spells) >= limit.workloads:
                return Reason(WaitingReason.USER_RUNS_ENOUGH, (len(spells), limit.workloads))
        return None

    def _spells_of(self, owner: Owner, pool: str) -> dict[str, Spell]:
        if pool:
            return self.spells.get((owner.project, owner.user, pool), _NOBODY)
        found: dict[str, Spell] = {}
        for (project, user, _), spells in self.spells.items():
            if (project, user) == (owner.project, owner.user):
                found.update(spells)
        return found

    # -- the mutator -------------------------------------------------------------------------------------------------

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

    def charge(self, owner: Owner, pool: str, amount: Amount, times: int = 1, charges: int = 1) -> None:
        """Charges `amount` to the project and its department, or takes it back (times -1).

        charges: as how many it counts, where it is what so many replicas hold that give it back one by one.
        """
        project, user, workload, preemptible = owner
        key, noted = (project, pool), self.risen if times > 0 else self.fallen
        self.changed[key] = None
        was: list[Entry] = []
        if key not in noted:
            was.append((noted, key, None))  # what is only tried, and taken back, wakes nobody
            noted[key] = None
        known = self.projects.get(project)
        above = (known.department, pool) if known is not None else _NOWHERE
        for accounts, whose in ((self.accounts, key), (self.above, above)):
            if whose[0]:
                now = accounts.get(whose, EMPTY).plus(amount, preemptible=preemptible, times=times)
                was.append(_write(accounts, whose, None if now == EMPTY else now))
        self._count(was, (project, user, pool), workload, times * charges, times * amount.gpu)
        self._stir(pool)
        self._journal.note(self._take_back, pool, was)

    def charge_many(self, project: str, pool: str, account: Account, spells: Mapping[str, Mapping[str, Spell]]) -> None:
        """Charges what many workloads of a project take together, none of which held anything in the pool.

        spells: what each of them holds, by user and workload.
        """
        key = (project, pool)
        self.changed[key] = None
        was: list[Entry] = []
        if key not in self.risen:
            was.append((self.risen, key, None))
            self.risen[key] = None
        known = self.projects.get(project)
        above = (known.department, pool) if known is not None else _NOWHERE
        for accounts, whose in ((self.accounts, key), (self.above, above)):
            if whose[0]:
                was.append(_write(accounts, whose, accounts.get(whose, EMPTY).joined(account)))
        for user, fresh in spells.items():
            held = self.spells.get((project, user, pool))
            if held is None:
                was.append(_write(self.spells, (project, user, pool), dict(fresh)))
            else:
                self._journal.note(_forget, held, fresh)
                held.update(fresh)
        self._stir(pool)
        self._journal.note(self._take_back, pool, was)

    def _count(self, was: list[Entry], key: tuple[str, str, str], workload: str, charges: int, gpu: int) -> None:
        """Counts charges of a workload in one pool. was: gets what stood where it writes."""
        spells = self.spells.get(key)
        if spells is None:
            spells = {}
            was.append(_write(self.spells, key, spells))
        before, held = spells.get(workload, _NO_SPELL)
        charges += before
        was.append(_write(spells, workload, new(Spell, (charges, held + gpu)) if charges else None))
        if not spells:
            was.append(_write(self.spells, key, None))

    def _take_back(self, pool: str, was: Sequence[Entry]) -> None:
        """Undoes a charge: one entry of the journal for all that it wrote, since there are thousands a second."""
        for entry in reversed(was):
            _write(*entry)
        self._stir(pool)

    def _stir(self, pool: str) -> None:
        self._stirs[pool] = self._stirs.get(pool, 0) + 1

    # -- invariants --------------------------------------------------------------------------------------------------

    def check(self, charged: Iterable[tuple[Owner, str, Amount]]) -> None:
        """Raises AssertionError where the accounts are not the sum of what is charged: (owner, pool, amount)."""
        fresh = Queues(Journal())
        fresh.projects = self.projects
        for owner, pool, amount in charged:
            fresh.charge(owner, pool, amount)
        for name in ("accounts", "above", "spells"):
            kept, summed = getattr(self, name), getattr(fresh, name)
            if kept != summed:
                raise AssertionError(f"{name} say {kept}, what is charged sums to {summed}")


def _write(entries: dict[K, Any], key: K, value: object) -> Entry:
    """Sets an entry, or drops it where it is None; what stood there, in the form in which it is set again."""
    before = entries.get(key)
    if value is None:
        entries.pop(key, None)
    else:
        entries[key] = value
    return entries, key, before


def _forget(spells: dict[str, Spell], workloads: Iterable[str]) -> None:
    for workload in workloads:
        del spells[workload]

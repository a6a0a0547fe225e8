"""What projects, departments and users hold in every node pool: the accounts, and the one way in which they change.

The lower half of the queues (queues.py), which know whose projects are whose and what each may hold.
Holds: a project's account is the sum of what is charged to it, a department's that of its projects; an account that
holds nothing is not there; what a charge wrote is one entry of the journal, since there are thousands a second.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from muster_scheduler.domain.asked.quotas import EMPTY, Account, Amount
from muster_scheduler.domain.journal import Journal
from muster_scheduler.domain.tuples import new

Key = tuple[str, str]
"""A project or a department, and a node pool."""


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


_NO_SPELL: Final = Spell()
_NOBODY: Final[dict[str, Spell]] = {}


class Accounts(ABC):
    """All accounts."""

    def __init__(self, journal: Journal) -> None:
        """Begins with nothing held."""
        self._journal = journal
        self.accounts: dict[Key, Account] = {}  # of (project, pool)
        self.above: dict[Key, Account] = {}  # of (department, pool)
        self.spells: dict[tuple[str, str, str], dict[str, Spell]] = {}  # of (project, user, pool), by workload
        self.changed: dict[Key, None] = {}  # accounts that were written, for whoever clears it
        self.risen: dict[Key, None] = {}  # those to which something was charged, likewise
        self.fallen: dict[Key, None] = {}  # those from which something was taken back, likewise
        self._stirs: dict[str, int] = {}

    @abstractmethod
    def department_name(self, project: str) -> str:
        """The department that counts what a project holds; empty: none does."""

    def account(self, project: str, pool: str) -> Account:
        """What the project holds there."""
        return self.accounts.get((project, pool), EMPTY)

    def department_account(self, department: str, pool: str) -> Account:
        """What the projects of a department hold there together."""
        return self.above.get((department, pool), EMPTY)

    def stirs(self, pool: str) -> int:
        """How often accounts of a pool were written, or a write was taken back: where it stays, they have stayed."""
        return self._stirs.get(pool, 0)

    def spells_of(self, owner: Owner, pool: str) -> Mapping[str, Spell]:
        """What each workload of a user holds in a project there, by id. pool: empty for all together."""
        if pool:
            return self.spells.get((owner.project, owner.user, pool), _NOBODY)
        found: dict[str, Spell] = {}
        for (project, user, _), spells in self.spells.items():
            if (project, user) == (owner.project, owner.user):
                found.update(spells)
        return found

    def charge(self, owner: Owner, pool: str, amount: Amount, times: int = 1, charges: int = 1) -> None:
        """Charges `amount` to the project and its department, or takes it back (times -1).

        charges: as how many it counts, where it is what so many replicas hold that give it back one by one.
        """
        project, user, workload, preemptible = owner
        key, at = (project, pool), (project, user, pool)
        account, over, above = self._begin(key, self.risen if times > 0 else self.fallen)
        spell = self.spells.get(at, _NOBODY).get(workload, _NO_SPELL)
        self._journal.note(self._put, key, account, above, over, at, workload, spell)
        after = account.plus(amount, preemptible=preemptible, times=times)
        after_over = over.plus(amount, preemptible=preemptible, times=times)
        held = new(Spell, (spell.charges + times * charges, spell.gpu + times * amount.gpu))
        self._put(key, after, above, after_over, at, workload, held)

    def charge_many(self, project: str, pool: str, account: Account, spells: Mapping[str, Mapping[str, Spell]]) -> None:
        """Charges what many workloads of a project take together, none of which held anything in the pool.

        spells: what each of them holds, by user and workload.
        """
        key = (project, pool)
        before, over, above = self._begin(key, self.risen)
        self._journal.note(self._take_back, key, before, above, over, spells)
        self._lay(key, before.joined(account), above, over.joined(account))
        for user, fresh in spells.items():
            self.spells.setdefault((project, user, pool), {}).update(fresh)

    def _begin(self, key: Key, noted: dict[Key, None]) -> tuple[Account, Account, Key]:
        """Notes that an account changes; what it and that of its department hold, and whose that is."""
        self.changed[key] = None
        if key not in noted:
            noted[key] = None
            self._journal.note(noted.pop, key, None)  # what is only tried, and taken back, wakes nobody
        above = self.department_name(key[0]), key[1]
        return self.accounts.get(key, EMPTY), self.above.get(above, EMPTY), above

    def _put(
        self,
        key: Key,
        account: Account,
        above: Key,
        over: Account,
        at: tuple[str, str, str],
        workload: str,
        held: Spell,
    ) -> None:
        """Writes a charge, or undoes it: both accounts, and what the workload holds of them."""
        self._lay(key, account, above, over)
        spells = self.spells.get(at)
        if spells is None:
            spells = self.spells[at] = {}
        if held.charges:
            spells[workload] = held
            return
        spells.pop(workload, None)
        if not spells:
            del self.spells[at]

    def _take_back(
        self, key: Key, account: Account, above: Key, over: Account, spells: Mapping[str, Mapping[str, Spell]]
    ) -> None:
        """Undoes `charge_many`."""
        self._lay(key, account, above, over)
        for user, fresh in spells.items():
            at = key[0], user, key[1]
            held = self.spells[at]
            for workload in fresh:
                del held[workload]
            if not held:
                del self.spells[at]

    def _lay(self, key: Key, account: Account, above: Key, over: Account) -> None:
        _write(self.accounts, key, account)
        _write(self.above, above, over)
        self._stirs[key[1]] = self._stirs.get(key[1], 0) + 1

    def move(self, project: str, before: str, to: str) -> None:
        """What a project holds counts in another department from now on."""
        for key, account in sorted(self.accounts.items()):
            if key[0] == project:
                for department, times in ((before, -1), (to, 1)):
                    above = department, key[1]
                    over = self.department_account(*above)
                    self._journal.note(self._lay, key, account, above, over)
                    self._lay(key, account, above, over.joined(account, times))


def _write(accounts: dict[Key, Account], key: Key, account: Account) -> None:
    if account == EMPTY:
        accounts.pop(key, None)
    elif key[0]:  # what is nobody's is counted nowhere
        accounts[key] = account


def difference(kept: Accounts, summed: Accounts) -> Iterable[str]:
    """What two books of the same charges hold otherwise; for checks."""
    for name in ("accounts", "above", "spells"):
        one, other = getattr(kept, name), getattr(summed, name)
        if one != other:
            yield f"{name} say {one}, what is charged sums to {other}"

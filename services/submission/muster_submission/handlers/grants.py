"""Giving and taking roles.

Called by the rpc and the REST routes, in a unit of theirs. Holds: nobody gives, takes or sees a rule beyond their own
rights; the last one who has the whole tenant keeps it, so that nobody is locked out of everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from muster_chassis.errors import FailedPrecondition, NotFound, PermissionDenied, ResourceExhausted
from muster_chassis.text import clean
from muster_chassis.unit import Unit
from muster_submission.access_ports import ApplicationBooks, GivenRule, RuleBooks
from muster_submission.audit import Entry, audit
from muster_submission.domain.access import Binding, Place, Role, Scope, ScopeKind, Verb
from muster_submission.domain.bindings import Holder, HolderKind
from muster_submission.domain.grants import MOST_RULES, check_rule, may_give, rule_of
from muster_submission.errors import DraftRefused, NoSuchDepartment, NoSuchProject
from muster_submission.handlers.access import Rights
from muster_submission.ports import Tenancy


class Grants:
    """Changes who has which role."""

    def __init__(
        self, rules: RuleBooks, applications: ApplicationBooks, tenancy: Tenancy, changed: Callable[[], None]
    ) -> None:
        """changed: called after a commit, so that this process counts by it at once."""
        self._rules = rules
        self._applications = applications
        self._tenancy = tenancy
        self._changed = changed

    async def give(
        self, unit: Unit, rights: Rights, kind: str, holder: str, issuer: str, role: str, scope_kind: str, scope: str
    ) -> GivenRule:
        """The rule, made where it is new. Raises DraftRefused, NotFound, PermissionDenied and ResourceExhausted."""
        problems = check_rule(kind, holder, issuer, role, scope_kind, scope)
        if problems:
            raise DraftRefused("the rule", problems)
        who, binding = rule_of(kind, holder, issuer, role, scope_kind, scope)
        rights.require_at(Verb.ACCESS_WRITE, binding.scope.place)
        _no_more_than_own(rights, binding)
        await self._exists(unit, binding.scope)
        who = await self._known(unit, who)
        if await self._rules.count(unit) >= MOST_RULES:
            raise ResourceExhausted(f"there are {MOST_RULES} rules, the most that there can be: give roles to groups")
        rule, new = await self._rules.add(unit, who, binding, rights.who.subject)
        if new:
            await audit(unit, _entry(rule, "given"))
            unit.after_commit(self._changed)
        return rule

    async def take(self, unit: Unit, rights: Rights, number: int) -> GivenRule:
        """Removes a rule. Raises NotFound, PermissionDenied, and FailedPrecondition for the last system admin."""
        absent = NotFound(f"rule {number} does not exist; `muster access list` shows those that do", reason="NO_RULE")
        rule = await self._rules.lock(unit, number)
        if rule is None:
            raise absent
        rights.require_at(Verb.ACCESS_WRITE, rule.binding.scope.place, absent)
        _no_more_than_own(rights, rule.binding)
        if rule.binding.role is Role.SYSTEM_ADMIN and await self._rules.admins(unit) == 1:
            raise FailedPrecondition("this is the last system admin: give somebody else the role first")
        await self._rules.remove(unit, number)
        await audit(unit, _entry(rule, "taken"))
        unit.after_commit(self._changed)
        return rule

    async def require_place(self, unit: Unit, place: Place) -> None:
        """Raises NoSuchProject and NoSuchDepartment for a place that is not there."""
        if place.project and ("\x00" in place.project or await self._tenancy.project(place.project) is None):
            raise NoSuchProject(f"project {clean(place.project, 80)!r} does not exist")
        if place.department:
            known = None if "\x00" in place.department else await self._tenancy.department(unit, place.department)
            if known is None:
                raise NoSuchDepartment(f"department {clean(place.department, 80)!r} does not exist")

    async def _exists(self, unit: Unit, scope: Scope) -> None:
        if scope.kind is ScopeKind.PROJECT and await self._tenancy.lock_project(unit, scope.name) is None:
            raise NoSuchProject(f"project {scope.name!r} does not exist")
        if scope.kind is ScopeKind.DEPARTMENT and await self._tenancy.department(unit, scope.name) is None:
            raise NoSuchDepartment(f"department {scope.name!r} does not exist")

    async def _known(self, unit: Unit, holder: Holder) -> Holder:
        """The holder as rules name it: an application by its id, whichever of its names was given."""
        if holder.kind is not HolderKind.APPLICATION:
            return holder
        found = await self._applications.find(holder.name, unit)
        if found is None:
            raise NotFound(f"application {holder.name!r} does not exist", reason="NO_SUCH_APPLICATION")
        return Holder(HolderKind.APPLICATION, found.id)


def visible(rights: Rights, rules: Iterable[GivenRule]) -> list[GivenRule]:
    """The rules that somebody may look at."""
    return [rule for rule in rules if rights.allows_at(Verb.ACCESS_READ, rule.binding.scope.place)]


def _no_more_than_own(rights: Rights, binding: Binding) -> None:
    if not may_give(rights.grants, binding):
        raise PermissionDenied(
            f"{rights.who.subject} does not have the role {binding.role} in {binding.scope}: only who has it, or a "
            "greater one, gives and takes it"
        )


def _entry(rule: GivenRule, what: str) -> Entry:
    scope = rule.binding.scope
    detail = f"{what}: {rule.binding.role} in {scope}"
    project = scope.name if scope.kind is ScopeKind.PROJECT else ""
    return Entry(Verb.ACCESS_WRITE, f"{rule.holder.kind}/{rule.holder.name}", project, detail=detail)

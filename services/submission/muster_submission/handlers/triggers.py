"""Rules: judged when somebody writes them, tried against a sample event, changed and removed.

Called by the rpc of triggers. Holds: nobody writes a rule that could do what they may not do themselves; a test makes
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Final

from muster.workload.v1 import workload_pb2 as wl
from muster_chassis.errors import PermissionDenied, Unauthenticated
from muster_chassis.unit import Unit
from muster_language.sensitive import has_sensitive
from muster_submission.audit import Entry, audit
from muster_submission.domain.access import Verb
from muster_submission.domain.cloudevents import CloudEvent
from muster_submission.domain.firings import Before, Drop, Load, Outcome, Start, Wait, decide, number
from muster_submission.domain.grants import within
from muster_submission.domain.names import run_name
from muster_submission.domain.problems import Problem
from muster_submission.domain.taken import PROJECT
from muster_submission.domain.triggers import Rule, check
from muster_submission.errors import DraftRefused, NoSuchTemplate, NoSuchTrigger
from muster_submission.handlers.access import Rights
from muster_submission.handlers.drafts import Drafts, Refusal
from muster_submission.handlers.runs import APPLICATION, Failed, Passed, Run, Runs, fields
from muster_submission.ports import Base
from muster_submission.trigger_ports import Expressions, Firings, StoredRule, Triggers

_NEVER: Final = {
    "name": "runs are named after the template and the event",
    "namePrefix": "runs are named after the template and the event",
    "usage": "a run is no template",
    "baseWorkload": "the rule's template is the base",
    "environment": "use the rule's environment",
    "arguments": "use the rule's arguments",
    "args": "use the rule's arguments",
}


Apart = Callable[[], AbstractAsyncContextManager[Unit]]


@dataclass(frozen=True, slots=True)
class Prospect:
    """What would come of an event now. `outcome` None: nothing."""

    matches: bool
    why: str
    outcome: Outcome | None = None
    name: str = ""
    spec: wl.WorkloadSpec | None = None
    remembered: bool = False


class Rules:
    """Writes rules down and tries them."""

    def __init__(
        self, triggers: Triggers, firings: Firings, drafts: Drafts, expressions: Expressions, runs: Runs
    ) -> None:
        self._triggers = triggers
        self._firings = firings
        self._drafts = drafts
        self._expressions = expressions
        self._runs = runs

    async def check(self, rule: Rule, rights: Rights) -> Rule:
        """The rule as it may be written. Raises DraftRefused, NoSuchProject, NoSuchTemplate and what rights say."""
        rights.require(Verb.TRIGGERS_WRITE, project=rule.project)
        problems = check(rule) or await self._expression_problems(rule)
        if problems:
            raise DraftRefused("the trigger", problems)
        base = await self._base(rule)
        problems = _field_problems(rule, base)
        if problems:
            raise DraftRefused("the trigger", problems)
        return await self._identity(rule, rights)

    async def save(self, unit: Unit, rule: Rule, owner: wl.Owner) -> StoredRule:
        """Makes the rule or changes the one of its name."""
        await audit(unit, Entry(Verb.TRIGGERS_WRITE, f"trigger/{rule.full_name}", project=rule.project))
        return await self._triggers.save(unit, rule, owner)

    async def delete(self, unit: Unit, project: str, name: str) -> int:
        """Removes a rule; how many waiting firings were dropped with it. Raises NoSuchTrigger."""
        await self._triggers.lock(unit, [(project, name)])
        if not await self._triggers.delete(unit, project, name):
            raise NoSuchTrigger(project, name)
        target = f"trigger/{project}/{name}"
        await audit(unit, Entry(Verb.TRIGGERS_WRITE, target, project=project, detail="deleted"))
        return await self._firings.drop(unit, project, name, "the trigger was deleted")

    async def test(self, apart: Apart, stored: StoredRule, event: CloudEvent) -> Prospect:
        """What the rule would do with the event now. `apart`: opens a transaction, in which nothing is made."""
        outlook = await self._runs.of(stored, event)
        if isinstance(outlook, Passed):
            return Prospect(matches=False, why=outlook.why)
        async with apart() as unit:
            return await self._prospect(unit, stored.rule, event, outlook)

    async def _prospect(self, unit: Unit, rule: Rule, event: CloudEvent, outlook: Run | Failed) -> Prospect:
        before = await self._firings.before(unit, rule, event)
        if isinstance(outlook, Failed):
            return Prospect(matches=True, why=outlook.why, outcome=Outcome.ERROR, remembered=_remembered(before, unit))
        count = number(before, unit.now, replayed=True) or 1
        outcome, why = _expected(rule, await self._firings.load(unit, rule), unit)
        return Prospect(
            matches=True,
            why=why,
            outcome=outcome,
            name=run_name(rule.template, trigger=rule.full_name, source=event.source, event_id=event.id, number=count),
            spec=outlook.draft.spec,
            remembered=_remembered(before, unit),
        )

    async def _identity(self, rule: Rule, rights: Rights) -> Rule:
        """The rule with its identity. Raises PermissionDenied where it would give its writer more than they have."""
        _require_choices(rule, rights)
        own = f"{APPLICATION}{rights.who.subject}" if rights.who.credential is not None else ""
        if not rule.run_as or rule.run_as in {own, rights.who.subject}:
            return replace(rule, run_as=own)
        rights.require(Verb.ACCESS_WRITE, project=rule.project)
        await self._require_within(rule.run_as, rights)
        return rule

    async def _require_within(self, run_as: str, rights: Rights) -> None:
        try:
            named = await self._runs.of_run_as(run_as)
        except Unauthenticated:
            named = None
        if named is None or not within(named.grants, rights.grants):
            # One answer for an unknown application and for a mighty one: it must not tell who has which rights.
            raise PermissionDenied(
                f"runAs {run_as[:80]!r} is not allowed: no such application exists, or it has a role that "
                f"{rights.who.subject} does not have in the same scope; leave runAs out, or name an application whose "
                "roles are all among your own"
            )

    async def _base(self, rule: Rule) -> Base:
        project = await self._drafts.project(rule.project, "")
        if isinstance(project, Refusal):
            raise project.error()
        if isinstance(project, Problem):
            raise DraftRefused("the trigger", [project])
        base = await self._drafts.base(rule.project, rule.template)
        if base is None:
            raise NoSuchTemplate(f"template {rule.template!r} exists neither in project {rule.project} nor globally")
        return base

    async def _expression_problems(self, rule: Rule) -> list[Problem]:
        found = await self._expressions.check(rule.expressions(), rule.schema, rule.project, rule.name)
        return [Problem(f"trigger.{key}", why) for key, why in found.items()]


def _require_choices(rule: Rule, rights: Rights) -> None:
    """Raises where the rule could make a run in a project in which its writer may make none."""
    for choice in rule.choices:
        for project in choice.allowed if choice.path == PROJECT else ():
            rights.require(Verb.WORKLOADS_CREATE, project=project)
    rights.require(Verb.WORKLOADS_CREATE, project=rule.project)


def _expected(rule: Rule, load: Load, unit: Unit) -> tuple[Outcome, str]:
    match decide(rule.limits, load, unit.now):
        case Start():
            return Outcome.STARTED, ""
        case Wait(why=why):
            return Outcome.WAITING, why
        case Drop(why=why):
            return Outcome.DROPPED, why


def _remembered(before: Before | None, unit: Unit) -> bool:
    return number(before, unit.now) is None


def _field_problems(rule: Rule, base: Base) -> list[Problem]:
    """What is wrong with the fields that an event may choose: each allowed value is read as a document's would be."""
    found = list[Problem]()
    for one in rule.choices:
        path = f"trigger.fields.{one.path[:80]}"
        if one.path in _NEVER:
            found.append(Problem(path, f"no event chooses it: {_NEVER[one.path]}"))
        elif one.path != PROJECT:
            reads = (fields(base.spec.kind, {one.path: text}) for text in one.allowed)
            found.extend(Problem(path, said) for said in map(_unfit, reads) if said)
    return found


def _unfit(read: wl.WorkloadSpec | str) -> str:
    """What is wrong with a value that an event may choose: a rule is shown as it is, and no place for a credential."""
    if isinstance(read, str):
        return read
    return "is a credential, which no event chooses" if has_sensitive(read) else ""

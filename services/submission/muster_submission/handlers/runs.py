"""The run that a rule would start for an event: its draft and for whom it is, or why there is none.

Called before a rule fires, when one that waited goes on, at a replay, and for a test, which makes nothing. Holds: the
rights of the rule's identity are asked every time; what comes from the event enters as `taken` allows and no other way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from muster.workload.v1 import workload_pb2 as wl
from muster_chassis.errors import PermissionDenied, ServiceError
from muster_language import Kind, check_layer, read
from muster_language.spec import API_VERSION
from muster_submission.domain.access import Verb
from muster_submission.domain.cloudevents import CloudEvent
from muster_submission.domain.expressions import Broken, Question
from muster_submission.domain.names import Given, run_name
from muster_submission.domain.problems import Problem
from muster_submission.domain.taken import Lacks, Taken, appended, take
from muster_submission.domain.triggers import Rule
from muster_submission.handlers.access import Rights
from muster_submission.handlers.drafts import LARGEST_SPEC, Checked, Drafts, Refusal
from muster_submission.ports import Base
from muster_submission.trigger_ports import Expressions, StoredRule

APPLICATION: Final = "application/"
"""How `run_as` names an application, the only identity that a rule names."""
_BARE: Final = re.compile(r"[0-9]+(\.[0-9]+)?|true|false")


class Authority(Protocol):
    """Who may do what."""

    async def of_application(self, application: str) -> Rights:
        """The rights of an application, whichever secret it has now."""
        ...

    async def of_recorded(self, subject: str, groups: Sequence[str], issuer: str) -> Rights:
        """The rights that a caller who was written down has now, person or application."""
        ...


@dataclass(frozen=True, slots=True)
class Run:
    """What would be started; its name depends on the firing's number."""

    draft: Checked
    owner: wl.Owner

    def named(self, rule: Rule, event: CloudEvent, number: int) -> Checked:
        """The draft under the name of that firing."""
        name = run_name(rule.template, trigger=rule.full_name, source=event.source, event_id=event.id, number=number)
        spec = wl.WorkloadSpec()
        spec.CopyFrom(self.draft.spec)
        spec.name = name
        draft = self.draft
        return Checked(draft.project, spec, Given(name), draft.origin, draft.cluster, draft.base)


@dataclass(frozen=True, slots=True)
class Passed:
    """The rule does not take the event; `why` is a sentence for people."""

    why: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The rule takes the event, and no run can be made of it. `runaway`: an expression took too much."""

    why: str
    runaway: bool = False


Outlook = Run | Passed | Failed


class Runs:
    """Makes drafts of events."""

    def __init__(self, expressions: Expressions, drafts: Drafts, authority: Authority) -> None:
        self._expressions = expressions
        self._drafts = drafts
        self._authority = authority

    async def of(self, stored: StoredRule, event: CloudEvent) -> Outlook:
        """What a rule would start for an event. Raises only what goes away by itself."""
        rule = stored.rule
        if not rule.takes(event):
            return Passed("the rule does not take events of this type, source and subject, or it is not enabled")
        found = await self._expressions.evaluate(
            Question(rule.expressions(), event, rule.schema), rule.project, rule.name
        )
        if isinstance(found, Broken):
            return Failed(found.why, found.runaway)
        if not found.matched:
            return Passed("the condition is false")
        taken = take(rule, found.texts)
        if isinstance(taken, Lacks):
            return Failed(taken.why)
        return await self._draft(stored, taken)

    async def _draft(self, stored: StoredRule, taken: Taken) -> Run | Failed:
        rule = stored.rule
        wanted = taken.project or rule.project
        project = await self._drafts.project(wanted, "")
        if isinstance(project, Refusal | Problem):
            # Not the message of the drafts: it lists projects, and firings are read by those who see only this one.
            return Failed(f"project {wanted!r} does not exist")
        refused = await self._forbidden(stored, project.name)
        if refused:
            return Failed(refused)
        base = await self._drafts.base(project.name, rule.template)
        if base is None:
            return Failed(f"template {rule.template!r} exists neither in project {project.name} nor globally")
        spec = own_layer(base, rule.template, taken)
        if isinstance(spec, Failed):
            return spec
        draft = Checked(project, spec, Given(rule.template), wl.ORIGIN_TRIGGER, "", base)
        return Run(draft, acting_owner(stored))

    async def _forbidden(self, stored: StoredRule, project: str) -> str:
        """Why the rule may not make a run there; empty: it may.

        The identity and the writer both need the right at this moment: an application that got more roles since the
        rule was written, or a writer who lost theirs, must not give the rule what its writer may not do.
        """
        try:
            for rights in await self.identities(stored):
                rights.require(Verb.WORKLOADS_CREATE, project=project)
        except ServiceError as error:
            return str(error)
        return ""

    async def identities(self, stored: StoredRule) -> Sequence[Rights]:
        """The rights, as they are now, of the writer of a rule and of the application that it names."""
        run_as, owner = stored.rule.run_as, stored.owner
        if run_as == f"{APPLICATION}{owner.subject}":
            return (await self.of_run_as(run_as),)
        writer = await self._authority.of_recorded(owner.subject, owner.groups, owner.issuer)
        return (writer, await self.of_run_as(run_as)) if run_as else (writer,)

    async def of_run_as(self, run_as: str) -> Rights:
        """The rights of a named identity. Raises Unauthenticated for an unknown one, PermissionDenied for a person."""
        if not run_as.startswith(APPLICATION):
            raise PermissionDenied(
                f"runAs names {run_as[:80]!r}: a trigger acts for its writer or for an application (application/ID), "
                "never for another person"
            )
        return await self._authority.of_application(run_as.removeprefix(APPLICATION))


def acting_owner(stored: StoredRule) -> wl.Owner:
    """The owner of a rule's runs: its identity, with the rule that acted for it."""
    owner = wl.Owner(trigger=stored.rule.full_name)
    if stored.rule.run_as:
        owner.subject = stored.rule.run_as.removeprefix(APPLICATION)
    else:
        owner.MergeFrom(stored.owner)
        owner.trigger = stored.rule.full_name
    return owner


def own_layer(base: Base, name: str, taken: Taken) -> wl.WorkloadSpec | Failed:
    """The run's own layer: its kind, what it inherits from, and what it takes from the event."""
    spec = wl.WorkloadSpec(kind=base.spec.kind, base_workload=name)
    chosen = fields(base.spec.kind, taken.fields)
    if isinstance(chosen, str):
        return Failed(chosen)
    spec.MergeFrom(chosen)
    for variable, value in taken.environment.items():
        spec.environment.add(label=variable, value=value)
    if taken.arguments:
        try:
            spec.args = appended(base.spec.args, taken.arguments)
            if base.spec.master_spec.HasField("args"):
                # The launcher has arguments of its own, which would hide those of all roles.
                spec.master_spec.args = appended(base.spec.master_spec.args, taken.arguments)
        except ValueError as error:
            return Failed(f"the template's arguments cannot be split into words: {error}")
    found = check_layer(spec)
    if found:
        return Failed("; ".join(f"{one.path}: {one.text}" for one in found[:5]))
    size = spec.ByteSize()
    if size > LARGEST_SPEC:
        return Failed(f"the run's own layer has {size} bytes; at most {LARGEST_SPEC} are allowed")
    return spec


def fields(kind: int, chosen: Mapping[str, str]) -> wl.WorkloadSpec | str:
    """A layer with these fields, read as a document's are; or what is wrong with them."""
    if not chosen:
        return wl.WorkloadSpec()
    (read_back,) = read(_document(Kind(kind), chosen))
    problems: Sequence[str] = [f"{one.path}: {one.text}" for one in read_back.violations]
    if problems:
        return "; ".join(problems[:5])
    spec = read_back.spec
    spec.ClearField("kind")
    spec.ClearField("name")
    return spec


def _document(kind: Kind, chosen: Mapping[str, str]) -> str:
    """A document with these values. JSON's strings are YAML's; numbers and words stand bare, as people write them."""
    lines = [f"apiVersion: {API_VERSION}", f"kind: {kind.document}", "metadata:", "  name: run", "spec:"]
    for path, text in chosen.items():
        value = text if _BARE.fullmatch(text) else json.dumps(text, ensure_ascii=False)
        lines.append(f"  {json.dumps(path, ensure_ascii=False)}: {{value: {value}}}")
    return "\n".join(lines)

"""TriggersService: rules that turn events into runs."""

from __future__ import annotations

from typing import Any, Final

from muster.api.v1 import triggers_pb2 as api
from muster.api.v1 import triggers_pb2_grpc
from muster_chassis.database import Database
from muster_chassis.errors import InvalidArgument, Violation
from muster_chassis.rpc import caller, once
from muster_chassis.unit import Unit
from muster_kernel.ids import is_uuid
from muster_submission.adapters.firings import PostgresFirings
from muster_submission.adapters.protobuf_events import event_of
from muster_submission.adapters.trigger_records import rule_of, shown, shown_firing
from muster_submission.adapters.triggers import PostgresTriggers
from muster_submission.audit import Entry, audit
from muster_submission.domain.access import Verb
from muster_submission.domain.cloudevents import LARGEST, CloudEvent, NoCloudEvent
from muster_submission.domain.cursors import page_token
from muster_submission.domain.firings import Outcome
from muster_submission.errors import BadQuestion, CannotReplay, NoSuchFiring, NoSuchTrigger
from muster_submission.handlers.access import Access, Rights
from muster_submission.handlers.firing import Firing
from muster_submission.handlers.runs import Passed, Runs
from muster_submission.handlers.triggers import Rules
from muster_submission.rpc.reading import owner, page_of
from muster_submission.trigger_ports import StoredRule

_LONGEST: Final = 200


class Triggers(triggers_pb2_grpc.TriggersServiceServicer):
    """The servicer."""

    def __init__(
        self,
        database: Database,
        access: Access,
        books: PostgresTriggers,
        firings: PostgresFirings,
        rules: Rules,
        runs: Runs,
        firing: Firing,
    ) -> None:
        self._database = database
        self._access = access
        self._books = books
        self._firings = firings
        self._rules = rules
        self._runs = runs
        self._firing = firing

    async def ApplyTrigger(self, request: api.ApplyTriggerRequest, context: Any) -> api.ApplyTriggerResponse:
        """Makes a trigger or changes it."""
        rule = await self._rules.check(rule_of(request.trigger), await self._rights())

        async def work(unit: Unit) -> api.ApplyTriggerResponse:
            return api.ApplyTriggerResponse(trigger=shown(await self._rules.save(unit, rule, owner())))

        return await once(self._database, "ApplyTrigger", request, api.ApplyTriggerResponse, work)

    async def GetTrigger(self, request: api.GetTriggerRequest, context: Any) -> api.GetTriggerResponse:
        """One trigger, and what it has under way."""
        stored = await self._seen(Verb.TRIGGERS_READ, request.project, request.name)
        load = await self._firings.under_way(request.project, request.name)
        return api.GetTriggerResponse(trigger=shown(stored), running=load.running, waiting=load.waiting)

    async def ListTriggers(self, request: api.ListTriggersRequest, context: Any) -> api.ListTriggersResponse:
        """The triggers, by project and name."""
        _plain(project=request.project)
        rights = await self._rights()
        if request.project:
            rights.require(Verb.TRIGGERS_READ, project=request.project)
        bound = b"triggers\x00" + request.project.encode()
        size, after = page_of(request.page_size, request.page_token, bound)
        project, _, name = after.partition("/")
        found = await self._books.page(request.project, rights.projects(Verb.TRIGGERS_READ), size, (project, name))
        token = page_token(found[-1].rule.full_name, bound) if len(found) == size else ""
        return api.ListTriggersResponse(triggers=[shown(one) for one in found], next_page_token=token)

    async def DeleteTrigger(self, request: api.DeleteTriggerRequest, context: Any) -> api.DeleteTriggerResponse:
        """Removes a trigger."""
        await self._named(Verb.TRIGGERS_WRITE, request.project, request.name)

        async def work(unit: Unit) -> api.DeleteTriggerResponse:
            return api.DeleteTriggerResponse(dropped=await self._rules.delete(unit, request.project, request.name))

        return await once(self._database, "DeleteTrigger", request, api.DeleteTriggerResponse, work)

    async def TestTrigger(self, request: api.TestTriggerRequest, context: Any) -> api.TestTriggerResponse:
        """What a trigger would do with an event."""
        event = _event(request)
        rule = await self._rules.check(rule_of(request.trigger), await self._rights())
        found = await self._rules.test(self._database.unit, StoredRule(rule, owner(), 0, 0), event)
        return api.TestTriggerResponse(
            matches=found.matches,
            why=found.why,
            outcome=api.FiringOutcome.ValueType(int(found.outcome or 0)),
            workload=found.name,
            spec=found.spec,
            remembered=found.remembered,
        )

    async def ListFirings(self, request: api.ListFiringsRequest, context: Any) -> api.ListFiringsResponse:
        """What a trigger did, the newest first."""
        _plain(project=request.project, trigger=request.trigger)
        (await self._rights()).require(Verb.TRIGGERS_READ, project=request.project)
        outcomes = sorted(set(request.outcomes))
        if any(one not in {int(known) for known in Outcome} for one in outcomes):
            raise BadQuestion("outcomes holds one that there is not")
        bound = f"firings\x00{request.project}\x00{request.trigger}\x00{outcomes}".encode()
        size, after = page_of(request.page_size, request.page_token, bound)
        if after and not is_uuid(after):
            raise BadQuestion("page_token is not one of these firings: begin with an empty one")
        found = await self._firings.page(request.project, request.trigger, outcomes, size, after)
        token = page_token(found[-1].id, bound) if len(found) == size else ""
        return api.ListFiringsResponse(firings=[shown_firing(one) for one in found], next_page_token=token)

    async def ReplayFiring(self, request: api.ReplayFiringRequest, context: Any) -> api.ReplayFiringResponse:
        """Fires again by the event of a firing."""
        _plain(project=request.project)
        (await self._rights()).require(Verb.TRIGGERS_WRITE, project=request.project)
        found = await self._firings.find(request.project, request.id) if is_uuid(request.id) else None
        if found is None:
            raise NoSuchFiring(request.project, request.id[:_LONGEST])
        if found.outcome is Outcome.WAITING:
            raise CannotReplay(f"firing {found.id} waits until {found.deadline}: it goes on by itself ({found.why})")
        stored = await self._books.find(found.project, found.trigger)
        if stored is None:
            raise NoSuchTrigger(found.project, found.trigger)
        outlook = await self._runs.of(stored, found.event)
        if isinstance(outlook, Passed):
            raise CannotReplay(f"trigger {stored.rule.full_name} does not fire by {found.event.name}: {outlook.why}")

        async def work(unit: Unit) -> api.ReplayFiringResponse:
            made = await self._firing.replay(unit, stored, found.event, outlook)
            if isinstance(made, str):
                raise CannotReplay(f"trigger {stored.rule.full_name} does not fire by {found.event.name}: {made}")
            target = f"trigger/{stored.rule.full_name}"
            await audit(unit, Entry(Verb.TRIGGERS_WRITE, target, project=request.project, detail="replayed a firing"))
            return api.ReplayFiringResponse(firing=shown_firing(made))

        return await once(self._database, "ReplayFiring", request, api.ReplayFiringResponse, work)

    async def _rights(self) -> Rights:
        return await self._access.rights(caller())

    async def _named(self, verb: Verb, project: str, name: str) -> None:
        if not project or not name:
            raise BadQuestion("which trigger is meant? give its project and its name")
        _plain(project=project, name=name)
        (await self._rights()).require(verb, project=project, absent=NoSuchTrigger(project, name[:_LONGEST]))

    async def _seen(self, verb: Verb, project: str, name: str) -> StoredRule:
        await self._named(verb, project, name)
        stored = await self._books.find(project, name)
        if stored is None:
            raise NoSuchTrigger(project, name[:_LONGEST])
        return stored


def _plain(**texts: str) -> None:
    for name, text in texts.items():
        if "\x00" in text:
            raise BadQuestion(f"{name} holds a NUL character; no name has one")


def _event(request: api.TestTriggerRequest) -> CloudEvent:
    size = request.event.ByteSize()
    found = event_of(request.event)
    if isinstance(found, NoCloudEvent) or size > LARGEST:
        why = found.why if isinstance(found, NoCloudEvent) else f"it has {size} bytes; at most {LARGEST} are allowed"
        raise InvalidArgument(f"the sample is no event: {why}", violations=[Violation("event", why)])
    return found

"""TriggersService: rules that turn events into runs."""

from __future__ import annotations

from typing import Any

from muster.api.v1 import triggers_pb2 as api
from muster.api.v1 import triggers_pb2_grpc
from muster_chassis.database import Database
from muster_chassis.rpc import once
from muster_chassis.unit import Unit
from muster_submission.adapters.triggers import PostgresTriggers
from muster_submission.domain.cursors import page_token
from muster_submission.errors import BadQuestion
from muster_submission.handlers.triggers import Rules
from muster_submission.ports import StoredRule
from muster_submission.rpc.reading import owner, page_of


class Triggers(triggers_pb2_grpc.TriggersServiceServicer):
    """The servicer."""

    def __init__(self, database: Database, books: PostgresTriggers, rules: Rules) -> None:
        self._database = database
        self._books = books
        self._rules = rules

    async def ApplyTrigger(self, request: api.ApplyTriggerRequest, context: Any) -> api.ApplyTriggerResponse:
        """Makes a trigger or changes it."""
        rule = await self._rules.check(request.trigger)

        async def work(unit: Unit) -> api.ApplyTriggerResponse:
            return api.ApplyTriggerResponse(trigger=_shown(await self._rules.save(unit, rule, owner())))

        return await once(self._database, "ApplyTrigger", request, api.ApplyTriggerResponse, work)

    async def ListTriggers(self, request: api.ListTriggersRequest, context: Any) -> api.ListTriggersResponse:
        """The triggers, by project and name."""
        if "\x00" in request.project:
            raise BadQuestion("project holds a NUL character; no name has one")
        bound = b"triggers\x00" + request.project.encode()
        size, after = page_of(request.page_size, request.page_token, bound)
        project, _, name = after.partition("/")
        found = await self._books.page(request.project, size, (project, name))
        token = page_token(found[-1].rule.full_name, bound) if len(found) == size else ""
        return api.ListTriggersResponse(triggers=[_shown(one) for one in found], next_page_token=token)


def _shown(stored: StoredRule) -> api.Trigger:
    rule = stored.rule
    shown = api.Trigger(
        name=rule.name,
        project=rule.project,
        template=rule.template,
        event_type=rule.event_type,
        event_source=rule.event_source,
        event_subject=rule.event_subject,
        environment=dict(rule.variables or {}),
        enabled=rule.enabled,
        fired=stored.fired,
        version=stored.version,
    )
    shown.window.FromTimedelta(rule.window)
    return shown

"""Rules that turn events into runs: making them, trying them, and what they did.

`muster.triggers` of a client. Holds what muster.py holds: a key on every mutation, a deadline on every call, the API's
own messages as answers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from muster.api.v1 import triggers_pb2, triggers_pb2_grpc
from muster.events.v1 import cloudevent_pb2
from muster_client.calls import new_key
from muster_client.pages import PAGE, pages
from muster_client.resources import Resource


class Triggers(Resource):
    """Triggers and their firings."""

    async def apply(self, trigger: triggers_pb2.Trigger, *, key: str | None = None) -> triggers_pb2.Trigger:
        """Makes a trigger or changes it. Raises InvalidInput, NotFound for its project or template."""
        request = triggers_pb2.ApplyTriggerRequest(trigger=trigger, idempotency_key=key or new_key())
        return (await self._calls.unary(self._stub().ApplyTrigger, request)).trigger

    async def get(self, project: str, name: str) -> triggers_pb2.GetTriggerResponse:
        """A trigger, with how much of it runs and waits. Raises NotFound."""
        request = triggers_pb2.GetTriggerRequest(project=project, name=name)
        return await self._calls.unary(self._stub().GetTrigger, request)

    async def delete(self, project: str, name: str, *, key: str | None = None) -> int:
        """Removes a trigger; how many waiting firings were dropped with it. Raises NotFound."""
        request = triggers_pb2.DeleteTriggerRequest(project=project, name=name, idempotency_key=key or new_key())
        return (await self._calls.unary(self._stub().DeleteTrigger, request)).dropped

    async def test(
        self, trigger: triggers_pb2.Trigger, event: cloudevent_pb2.CloudEvent
    ) -> triggers_pb2.TestTriggerResponse:
        """What the trigger would do with the event now. Raises InvalidInput, NotFound."""
        request = triggers_pb2.TestTriggerRequest(trigger=trigger, event=event)
        return await self._calls.unary(self._stub().TestTrigger, request)

    async def replay(self, project: str, firing: str, *, key: str | None = None) -> triggers_pb2.Firing:
        """Fires again by the event of a firing. Raises NotFound, FailedPrecondition."""
        request = triggers_pb2.ReplayFiringRequest(project=project, id=firing, idempotency_key=key or new_key())
        return (await self._calls.unary(self._stub().ReplayFiring, request)).firing

    def list(self, *, project: str = "") -> AsyncIterator[triggers_pb2.Trigger]:
        """The triggers, by name."""

        async def page(token: str) -> tuple[Sequence[triggers_pb2.Trigger], str]:
            request = triggers_pb2.ListTriggersRequest(project=project, page_size=PAGE, page_token=token)
            answer = await self._calls.unary(self._stub().ListTriggers, request)
            return answer.triggers, answer.next_page_token

        return pages(page)

    def firings(self, project: str, trigger: str = "") -> AsyncIterator[triggers_pb2.Firing]:
        """What the triggers of a project, or one of them, did; the newest first."""

        async def page(token: str) -> tuple[Sequence[triggers_pb2.Firing], str]:
            request = triggers_pb2.ListFiringsRequest(
                project=project, trigger=trigger, page_size=PAGE, page_token=token
            )
            answer = await self._calls.unary(self._stub().ListFirings, request)
            return answer.firings, answer.next_page_token

        return pages(page)

    def _stub(self) -> triggers_pb2_grpc.TriggersServiceStub:
        return triggers_pb2_grpc.TriggersServiceStub(self._channel)

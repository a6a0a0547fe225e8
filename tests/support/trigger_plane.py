"""The triggers of the fake control plane: kept in memory, answered as submission answers.

Mounted by control_plane. Holds: what was applied is shown again; firings are those that a test puts there.
"""

from __future__ import annotations

from typing import Any

from google.rpc import code_pb2, status_pb2
from grpc_status import rpc_status

from muster.api.v1 import triggers_pb2 as api
from muster.api.v1 import triggers_pb2_grpc


class TriggerPlane(triggers_pb2_grpc.TriggersServiceServicer):
    """The servicer. `calls` gets every request."""

    def __init__(
        self, calls: list[tuple[str, Any]], triggers: dict[str, api.Trigger], firings: list[api.Firing]
    ) -> None:
        self._calls = calls
        self._triggers = triggers
        self._firings = firings

    async def ApplyTrigger(self, request: Any, context: Any) -> api.ApplyTriggerResponse:
        """Keeps a trigger."""
        self._calls.append(("ApplyTrigger", request))
        kept = api.Trigger()
        kept.CopyFrom(request.trigger)
        known = self._triggers.get(kept.name)
        kept.version = known.version + 1 if known else 1
        self._triggers[kept.name] = kept
        return api.ApplyTriggerResponse(trigger=kept)

    async def GetTrigger(self, request: Any, context: Any) -> api.GetTriggerResponse:
        """One of them."""
        self._calls.append(("GetTrigger", request))
        return api.GetTriggerResponse(trigger=await self._found(request.name, context), running=2, waiting=1)

    async def ListTriggers(self, request: Any, context: Any) -> api.ListTriggersResponse:
        """All of them."""
        self._calls.append(("ListTriggers", request))
        return api.ListTriggersResponse(triggers=self._triggers.values())

    async def DeleteTrigger(self, request: Any, context: Any) -> api.DeleteTriggerResponse:
        """Forgets one."""
        self._calls.append(("DeleteTrigger", request))
        del self._triggers[(await self._found(request.name, context)).name]
        return api.DeleteTriggerResponse(dropped=3)

    async def TestTrigger(self, request: Any, context: Any) -> api.TestTriggerResponse:
        """A run where the type is the trigger's."""
        self._calls.append(("TestTrigger", request))
        if request.event.type != request.trigger.event_type:
            return api.TestTriggerResponse(why="the condition is false")
        answer = api.TestTriggerResponse(
            matches=True, outcome=api.FIRING_OUTCOME_STARTED, workload="nightly-0a1b2c3d", remembered=True
        )
        answer.spec.args = "--fast 'a b'"
        return answer

    async def ListFirings(self, request: Any, context: Any) -> api.ListFiringsResponse:
        """A page of two."""
        self._calls.append(("ListFirings", request))
        start = int(request.page_token or 0)
        found = [one for one in self._firings if request.trigger in {"", one.trigger}]
        more = str(start + 2) if start + 2 < len(found) else ""
        return api.ListFiringsResponse(firings=found[start : start + 2], next_page_token=more)

    async def ReplayFiring(self, request: Any, context: Any) -> api.ReplayFiringResponse:
        """The same again, one number up."""
        self._calls.append(("ReplayFiring", request))
        again = api.Firing()
        again.CopyFrom(next(one for one in self._firings if one.id == request.id))
        again.number += 1
        again.outcome = api.FIRING_OUTCOME_WAITING
        again.why = "1 runs of the trigger have not ended"
        return api.ReplayFiringResponse(firing=again)

    async def _found(self, name: str, context: Any) -> api.Trigger:
        found = self._triggers.get(name)
        if found is None:
            problem = status_pb2.Status(code=code_pb2.NOT_FOUND, message=f"trigger {name!r} does not exist")
            await context.abort_with_status(rpc_status.to_status(problem))
            raise AssertionError
        return found

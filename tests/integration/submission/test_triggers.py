"""Events of strangers that start runs: once each, both CloudEvents modes, and what cannot be taken."""

from __future__ import annotations

import json
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from muster.api.v1 import dead_letters_pb2, triggers_pb2
from muster.api.v1 import workloads_pb2 as api
from muster.workload.v1 import workload_pb2 as wl
from muster_chassis import metrics
from muster_submission.handlers.triggers import EVENTS
from tests.support.doors import Door, door, key, violations
from tests.support.waiting import eventually

HEADERS = [("content-type", b"application/json")]


def binary(id: str, data: Any, **attributes: str) -> tuple[bytes, list[tuple[str, bytes]]]:
    given = {"specversion": "1.0", "id": id, "source": "/store", "type": "model.stored"} | attributes
    return json.dumps(data).encode(), [*HEADERS, *((f"ce_{name}", text.encode()) for name, text in given.items())]


def structured(id: str, data: Any, **attributes: str) -> tuple[bytes, list[tuple[str, bytes]]]:
    given = {"specversion": "1.0", "id": id, "source": "/store", "type": "model.stored", "data": data} | attributes
    return json.dumps(given).encode(), [("content-type", b"application/cloudevents+json; charset=utf-8")]


async def rule(here: Door, name: str = "on-model", **more: Any) -> triggers_pb2.Trigger:
    given: dict[str, Any] = {
        "name": name,
        "project": "team-a",
        "template": "base",
        "event_type": "model.stored",
        "environment": {"MODEL": "model.name", "EVENT": "ce:id"},
        "enabled": True,
    }
    asked = triggers_pb2.Trigger(**(given | more))
    request = triggers_pb2.ApplyTriggerRequest(trigger=asked, idempotency_key=key())
    return (await here.triggers.ApplyTrigger(request)).trigger


async def runs(here: Door) -> list[wl.Workload]:
    return list((await here.workloads.ListWorkloads(api.ListWorkloadsRequest())).workloads)


async def test_an_event_fires_once(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        await here.template(image="python:3.12")
        made = await rule(here)
        assert made.window == Duration(seconds=7 * 86400)
        event = binary("one", {"model": {"name": "llama; rm -rf /"}})
        unmatched = metrics.value(EVENTS, outcome="unmatched")
        await here.events(event, event, binary("x", {}, type="other"), structured("one", {"model": {"name": "again"}}))
        await here.events(structured("two", {"model": {"name": "bert"}}, subject="s"))
        found = await eventually(lambda: runs(here), lambda seen: len(seen) == 2)
        one = next(each for each in found if each.caused_by == "/store one")
        assert one.name.startswith("base-")
        assert (one.origin, one.owner.trigger, one.owner.subject) == (wl.ORIGIN_TRIGGER, "team-a/on-model", "local")
        assert {each.label: each.value for each in one.spec.environment} == {"MODEL": "llama; rm -rf /", "EVENT": "one"}
        assert one.spec.base_workload == "base"
        await eventually(lambda: _fired(here), lambda seen: seen == 2)
        assert metrics.value(EVENTS, outcome="unmatched") - unmatched == 1
        again = await rule(here, window=Duration(seconds=60))
        assert (again.version, again.fired) == (2, 2)


async def _fired(here: Door) -> int:
    listed = await here.triggers.ListTriggers(triggers_pb2.ListTriggersRequest(project="team-a"))
    return sum(one.fired for one in listed.triggers)


async def test_what_cannot_be_taken_goes_to_the_dead_letters(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        await here.template()
        await rule(here)
        await rule(here, "careless", environment={})
        await here.events(
            (b"\x00\xff nonsense", []),
            (None, []),
            binary("lacks", {"model": {}}),
            binary("secret", {"model": {"name": "SECRET:vault,key"}}),
            (json.dumps({"model": "x" * 300_000}).encode(), binary("big", {})[1]),
            binary("good", {"model": {"name": "m"}}),
        )

        async def letters() -> list[dead_letters_pb2.DeadLetter]:
            listed = await here.dead_letters.ListDeadLetters(dead_letters_pb2.ListDeadLettersRequest())
            return list(listed.dead_letters)

        found = await eventually(letters, lambda seen: len(seen) == 5)
        reasons = " | ".join(one.reason for one in found)
        assert "no CloudEvent" in reasons
        assert "data.model of the event has no member name" in reasons
        assert "may not reach for a secret" in reasons
        assert "at most 262144 are allowed" in reasons
        # The careless rule took what the other one could not, and both took the good one.
        made = await eventually(lambda: runs(here), lambda seen: len(seen) == 4)
        assert sorted(one.caused_by for one in made) == ["/store good", "/store good", "/store lacks", "/store secret"]

        asked = triggers_pb2.ListTriggersRequest(page_size=1)
        page = await here.triggers.ListTriggers(asked)
        assert [one.name for one in page.triggers] == ["careless"]
        asked.page_token = page.next_page_token
        assert [one.name for one in (await here.triggers.ListTriggers(asked)).triggers] == ["on-model"]

        await rule(here, environment={})  # mended: the letters can be tried again
        ids = [one.id for one in found if "member name" in one.reason]
        redriven = await here.dead_letters.RedriveDeadLetters(
            dead_letters_pb2.RedriveDeadLettersRequest(ids=ids, idempotency_key=key())
        )
        assert (redriven.handled, redriven.failed) == (1, 0)
        assert len(await runs(here)) == 5


async def test_rules_are_checked(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await rule(here, "Bad Name", event_type="", environment={"1X": "a..b", "Y": "ce:"})
        assert violations(refused.value).keys() == {
            "trigger.name",
            "trigger.event_type",
            "trigger.environment.1X",
            "trigger.environment.Y",
        }
        with pytest.raises(grpc.aio.AioRpcError) as missing:
            await rule(here)
        assert missing.value.code() is grpc.StatusCode.NOT_FOUND

"""Events of strangers that start runs: once each, every mode, within limits, and what cannot be taken."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from muster.api.v1 import dead_letters_pb2, triggers_pb2
from muster.api.v1 import workloads_pb2 as api
from muster.events.v1 import cloudevent_pb2
from muster.workload.v1 import workload_pb2 as wl
from muster_chassis import identity, metrics
from muster_submission.handlers.firing import EVENTS
from tests.support.doors import PROJECT, Door, door, key, moved, violations
from tests.support.waiting import eventually

HEADERS = [("content-type", b"application/json")]
Record = tuple[bytes, list[tuple[str, bytes]]]


def binary(id: str, data: Any, **attributes: str) -> Record:
    given = {"specversion": "1.0", "id": id, "source": "/store", "type": "model.stored"} | attributes
    return json.dumps(data).encode(), [*HEADERS, *((f"ce_{name}", text.encode()) for name, text in given.items())]


def structured(id: str, data: Any, **attributes: str) -> Record:
    given = {"specversion": "1.0", "id": id, "source": "/store", "type": "model.stored", "data": data} | attributes
    return json.dumps(given).encode(), [("content-type", b"application/cloudevents+json; charset=utf-8")]


def sample(id: str, data: Any, **attributes: str) -> cloudevent_pb2.CloudEvent:
    made = cloudevent_pb2.CloudEvent(
        id=id, source="/store", type="model.stored", spec_version="1.0", text_data=json.dumps(data)
    )
    for name, text in attributes.items():
        made.attributes[name].ce_string = text
    return made


def protobuf(id: str, data: Any) -> Record:
    return sample(id, data).SerializeToString(), [("content-type", b"application/cloudevents+protobuf")]


def trigger(name: str = "on-model", **more: Any) -> triggers_pb2.Trigger:
    given: dict[str, Any] = {
        "name": name,
        "project": PROJECT,
        "template": "base",
        "event_type": "model.stored",
        "event_sources": ["/store"],
        "environment": {"MODEL": "data.model.name", "EVENT": "event.id"},
        "enabled": True,
    }
    return triggers_pb2.Trigger(**(given | more))


async def rule(here: Door, name: str = "on-model", **more: Any) -> triggers_pb2.Trigger:
    request = triggers_pb2.ApplyTriggerRequest(trigger=trigger(name, **more), idempotency_key=key())
    return (await here.triggers.ApplyTrigger(request)).trigger


async def runs(here: Door) -> list[wl.Workload]:
    return list((await here.workloads.ListWorkloads(api.ListWorkloadsRequest())).workloads)


async def firings(here: Door, name: str = "on-model") -> list[triggers_pb2.Firing]:
    """The oldest first."""
    asked = triggers_pb2.ListFiringsRequest(project=PROJECT, trigger=name)
    return list(reversed((await here.triggers.ListFirings(asked)).firings))


async def letters(here: Door) -> list[dead_letters_pb2.DeadLetter]:
    return list((await here.dead_letters.ListDeadLetters(dead_letters_pb2.ListDeadLettersRequest())).dead_letters)


async def test_an_event_fires_once_in_every_mode(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        await here.template(image="python:3.12", args="--fast")
        made = await rule(here, arguments=["data.model.name"], condition="data.model.name != 'skip'")
        assert made.window == Duration(seconds=7 * 86400)
        event = binary("one", {"model": {"name": "llama; $(rm) -rf /"}})
        unmatched = metrics.value(EVENTS, outcome="unmatched")
        await here.events(
            event,
            event,
            binary("x", {}, type="other"),
            binary("y", {"model": {"name": "m"}}, source="/elsewhere"),
            binary("z", {"model": {"name": "skip"}}),
            structured("one", {"model": {"name": "again"}}),
        )
        await here.events(structured("two", {"model": {"name": "bert"}}, subject="s"))
        await here.events(protobuf("three", {"model": {"name": "t5"}}), protobuf("one", {"model": {"name": "x"}}))
        found = await eventually(lambda: runs(here), lambda seen: len(seen) == 3)
        one = next(each for each in found if each.caused_by == "/store one")
        assert one.name.startswith("base-")
        assert (one.origin, one.owner.trigger, one.owner.subject) == (wl.ORIGIN_TRIGGER, "team-a/on-model", "local")
        taken = {each.label: each.value for each in one.spec.environment}
        assert taken == {"MODEL": "llama; $(rm) -rf /", "EVENT": "one"}
        assert one.spec.args == "--fast 'llama; $$(rm) -rf /'"
        assert one.spec.base_workload == "base"
        assert {each.caused_by for each in found} == {"/store one", "/store two", "/store three"}
        assert metrics.value(EVENTS, outcome="unmatched") - unmatched == 3
        again = await rule(here, window=Duration(seconds=60))
        assert (again.version, again.fired) == (2, 3)
        told = await firings(here)
        assert [(each.event_id, each.number, each.outcome) for each in told] == [
            (name, 1, triggers_pb2.FIRING_OUTCOME_STARTED) for name in ("one", "two", "three")
        ]
        assert [each.workload for each in told] == [
            next(run.name for run in found if run.id == each.workload_id) for each in told
        ]
        assert await letters(here) == []


async def test_what_was_fired_is_remembered_over_a_restart(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        await here.template()
        await rule(here, max_running=1)
        await here.events(binary("one", {"model": {"name": "m"}}), binary("two", {"model": {"name": "n"}}))
        waits = await eventually(lambda: firings(here), lambda seen: len(seen) == 2)
        assert waits[1].outcome == triggers_pb2.FIRING_OUTCOME_WAITING
    async with door(database, kafka) as here:
        await here.events(binary("one", {"model": {"name": "m"}}), binary("three", {"model": {"name": "o"}}))
        told = await eventually(lambda: firings(here), lambda seen: len(seen) == 3)
        assert [each.event_id for each in told] == ["one", "two", "three"]
        await here.decide(told[0].workload_id, moved(wl.PHASE_COMPLETED))
        told = await eventually(lambda: firings(here), lambda seen: seen[1].workload_id != "")
        assert [each.outcome for each in told] == [
            triggers_pb2.FIRING_OUTCOME_STARTED,
            triggers_pb2.FIRING_OUTCOME_STARTED,
            triggers_pb2.FIRING_OUTCOME_WAITING,
        ]
        assert len(await runs(here)) == 2


async def test_poison_goes_to_the_dead_letters_and_errors_to_the_rule(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        await here.template()
        await rule(here)
        await rule(here, "careless", environment={}, event_type="model.*", event_sources=["/st*", "/other"])
        await rule(here, "endless", environment={}, condition="data.l.all(x, data.s.contains('aaaaaaaab'))")
        await here.events(
            (b"\x00\xff nonsense", []),
            (b"\xff", [("content-type", b"application/cloudevents+protobuf")]),
            (json.dumps({"model": "x" * 300_000}).encode(), binary("big", {})[1]),
            binary("lacks", {"model": {}}),
            binary("secret", {"model": {"name": "SECRET:vault,key"}}),
            binary("good", {"model": {"name": "m"}}),
        )
        found = await eventually(lambda: letters(here), lambda seen: len(seen) == 3)
        reasons = " | ".join(one.reason for one in found)
        assert "no CloudEvent" in reasons
        assert "no CloudEvent in protobuf" in reasons
        assert "at most 262144 are allowed" in reasons
        # The careless rule took what the other one could not, and both took the good one.
        made = await eventually(lambda: runs(here), lambda seen: len(seen) == 4)
        assert sorted(one.caused_by for one in made) == ["/store good", "/store good", "/store lacks", "/store secret"]
        told = await firings(here)
        assert [each.outcome for each in told[:2]] == [triggers_pb2.FIRING_OUTCOME_ERROR] * 2
        assert 'Key not found in map : "name"' in told[0].why
        assert "may not reach for a secret" in told[1].why

        page = await here.triggers.ListTriggers(triggers_pb2.ListTriggersRequest(page_size=2))
        assert [one.name for one in page.triggers] == ["careless", "endless"]
        asked = triggers_pb2.ListTriggersRequest(page_size=2, page_token=page.next_page_token)
        assert [one.name for one in (await here.triggers.ListTriggers(asked)).triggers] == ["on-model"]

        await rule(here, environment={})  # mended: the firing can be replayed, under the next number
        again = triggers_pb2.ReplayFiringRequest(project=PROJECT, id=told[0].id, idempotency_key=key())
        replayed = (await here.triggers.ReplayFiring(again)).firing
        assert (replayed.number, replayed.outcome) == (2, triggers_pb2.FIRING_OUTCOME_STARTED)
        assert (await here.triggers.ReplayFiring(again)).firing == replayed
        assert len(await runs(here)) == 5


async def test_a_rule_that_runs_away_is_switched_off(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        await here.template()
        costly = "data.l.all(x, data.s.contains('aaaaaaaaaaaaab') || true)"
        await rule(here, "endless", environment={}, condition=costly)
        await rule(here, environment={})
        heavy = {"l": list(range(9000)), "s": "a" * 150_000}
        await here.events(*(binary(f"e{number}", heavy) for number in range(5)))
        told = await eventually(lambda: firings(here, "endless"), lambda seen: len(seen) == 3, within=60)
        assert all(each.outcome == triggers_pb2.FIRING_OUTCOME_ERROR for each in told)
        assert "processor time" in told[0].why
        asked = triggers_pb2.GetTriggerRequest(project=PROJECT, name="endless")
        stopped = (await here.triggers.GetTrigger(asked)).trigger
        assert not stopped.enabled
        assert "ran away 3 times" in stopped.switched_off_because
        await eventually(lambda: runs(here), lambda seen: len(seen) == 5)  # the other rule felt nothing
        back = await rule(here, "endless", environment={})
        assert (back.enabled, back.switched_off_because) == (True, "")


async def test_what_exceeds_the_limits_waits_or_is_dropped(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        await here.template()
        waits = triggers_pb2.TriggerExcess(policy=triggers_pb2.TRIGGER_EXCESS_POLICY_WAIT, most=1)
        drops = triggers_pb2.TriggerExcess(policy=triggers_pb2.TRIGGER_EXCESS_POLICY_DROP)
        rate = triggers_pb2.TriggerRate(runs=2, per=Duration(seconds=3600))
        await rule(here, "waits", environment={}, max_running=1, excess=waits)
        await rule(here, "drops", environment={}, rate=rate, excess=drops)
        await here.events(*(binary(f"e{number}", {}) for number in range(4)))
        one = await eventually(lambda: firings(here, "waits"), lambda seen: len(seen) == 4)
        assert [each.outcome for each in one] == [2, 1, 3, 3]
        assert "1 runs of the trigger have not ended, at most 1 may be at once" in one[1].why
        assert "at most 1 may" in one[2].why
        two = await firings(here, "drops")
        assert [each.outcome for each in two] == [2, 2, 3, 3]
        assert "2 runs were started within 3600 s" in two[2].why
        again = triggers_pb2.ReplayFiringRequest(project=PROJECT, id=one[1].id, idempotency_key=key())
        with pytest.raises(grpc.aio.AioRpcError) as waiting:
            await here.triggers.ReplayFiring(again)
        assert waiting.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        got = await here.triggers.GetTrigger(triggers_pb2.GetTriggerRequest(project=PROJECT, name="waits"))
        assert (got.running, got.waiting) == (1, 1)
        gone = triggers_pb2.DeleteTriggerRequest(project=PROJECT, name="waits", idempotency_key=key())
        assert (await here.triggers.DeleteTrigger(gone)).dropped == 1
        assert [each.outcome for each in await firings(here, "waits")] == [2, 3, 3, 3]
        with pytest.raises(grpc.aio.AioRpcError) as missing:
            await here.triggers.GetTrigger(triggers_pb2.GetTriggerRequest(project=PROJECT, name="waits"))
        assert missing.value.code() is grpc.StatusCode.NOT_FOUND


async def test_what_waits_too_long_expires(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        await here.template()
        excess = triggers_pb2.TriggerExcess(deadline=Duration(seconds=1))
        await rule(here, environment={}, max_running=1, excess=excess)
        await here.events(binary("a", {}), binary("b", {}))
        told = await eventually(lambda: firings(here), lambda seen: [one.outcome for one in seen] == [2, 4])
        assert told[1].why.startswith("waited until its deadline")


async def test_a_test_makes_nothing(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        await here.template(args="-v")
        asked = triggers_pb2.TestTriggerRequest(
            trigger=trigger(arguments=["data.model.name"]), event=sample("one", {"model": {"name": "bert base"}})
        )
        found = await here.triggers.TestTrigger(asked)
        assert (found.matches, found.outcome, found.remembered) == (True, triggers_pb2.FIRING_OUTCOME_STARTED, False)
        assert found.spec.args == "-v 'bert base'"
        asked.event.text_data = "{}"
        broken = await here.triggers.TestTrigger(asked)
        assert (broken.matches, broken.outcome) == (True, triggers_pb2.FIRING_OUTCOME_ERROR)
        assert "model" in broken.why
        asked.event.source = "/elsewhere"
        assert not (await here.triggers.TestTrigger(asked)).matches
        asked.event.id = ""
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await here.triggers.TestTrigger(asked)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert await runs(here) == []
        assert await firings(here) == []
        # What it foretold is what happens.
        await rule(here, arguments=["data.model.name"])
        await here.events(binary("one", {"model": {"name": "bert base"}}))
        (made,) = await eventually(lambda: runs(here), bool)
        assert (made.name, made.spec.args) == (found.workload, found.spec.args)
        asked.event.CopyFrom(sample("one", {"model": {"name": "bert base"}}))
        assert (await here.triggers.TestTrigger(asked)).remembered


async def test_rules_are_checked(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await rule(here, "Bad Name", event_type="", event_sources=[], environment={"1X": "1"})
        assert violations(refused.value).keys() == {
            "trigger.name",
            "trigger.event_type",
            "trigger.event_sources",
            "trigger.environment.1X",
        }
        with pytest.raises(grpc.aio.AioRpcError) as wrong:
            await rule(here, condition="data.x +", environment={"A": "nothing.there"}, arguments=["1 + 1"])
        assert violations(wrong.value).keys() == {"trigger.condition", "trigger.environment.A"}
        with pytest.raises(grpc.aio.AioRpcError) as missing:
            await rule(here)
        assert missing.value.code() is grpc.StatusCode.NOT_FOUND
        await here.template()
        chosen = [
            triggers_pb2.TriggerField(path="image", value="data.i", allowed=["python:3.12", "python:3.13"]),
            triggers_pb2.TriggerField(path="name", value="data.n", allowed=["x"]),
            triggers_pb2.TriggerField(path="nothing", value="data.n", allowed=["x"]),
            triggers_pb2.TriggerField(path="gpu", value="data.n", allowed=["many"]),
        ]
        with pytest.raises(grpc.aio.AioRpcError) as forbidden:
            await rule(here, fields=chosen)
        assert violations(forbidden.value).keys() == {
            "trigger.fields.name",
            "trigger.fields.nothing",
            "trigger.fields.gpu",
        }
        made = await rule(here, fields=chosen[:1], environment={}, window=Duration(seconds=90))
        assert made.fields == chosen[:1]
        await here.events(binary("a", {"i": "python:3.13"}), binary("b", {"i": "evil:latest"}))
        told = await eventually(lambda: firings(here), lambda seen: len(seen) == 2)
        assert [each.outcome for each in told] == [2, 5]
        assert "'evil:latest'; allowed are 'python:3.12', 'python:3.13'" in told[1].why
        (run,) = await runs(here)
        assert run.spec.image == "python:3.13"


async def test_old_firings_go_and_their_numbers_go_on_until_then(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        await here.template()
        await rule(here, environment={}, window=Duration(seconds=1))
        await here.events(binary("a", {}))
        (first,) = await eventually(lambda: firings(here), bool)
        async with here.app.database.unit() as unit:
            await unit.connection.execute("UPDATE firings SET until = now() - interval '1 day'")
        await here.events(binary("a", {}))
        told = await eventually(lambda: firings(here), lambda seen: len(seen) == 2)
        assert [each.number for each in told] == [1, 2]
        assert first.workload != told[1].workload
        await here.app.firings.forget(identity.now() + timedelta(days=40), 100)
        assert await firings(here) == []

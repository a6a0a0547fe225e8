"""Events of strangers that start runs: once each, every mode, within limits, and what cannot be taken."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from muster.api.v1 import dead_letters_pb2, triggers_pb2
from muster.api.v1 import workloads_pb2 as api
from muster.events.v1 import cloudevent_pb2
from muster.workload.v1 import workload_pb2 as wl
from muster_chassis import identity, metrics
from muster_submission.adapters.disk_reserve import DiskReserve
from muster_submission.app_parts import Application
from muster_submission.errors import DiskReserveSpent
from muster_submission.handlers.firing import EVENTS
from tests.support.doors import PROJECT, Door, door, key, moved, violations
from tests.support.waiting import eventually

HEADERS = [("content-type", b"application/json")]
Record = tuple[bytes, list[tuple[str, bytes]]]


@dataclass(frozen=True)
class Stage:
    """One part of the test: a project of its own, and events of a source that only its rules take."""

    door: Door
    name: str

    @property
    def source(self) -> str:
        return f"/{self.name}"

    async def ready(self, **template: Any) -> None:
        await self.door.project(self.name)
        await self.door.template(project=self.name, **template)

    def binary(self, id: str, data: Any, **attributes: str) -> Record:
        given = {"specversion": "1.0", "id": id, "source": self.source, "type": "model.stored"} | attributes
        return json.dumps(data).encode(), [*HEADERS, *((f"ce_{name}", text.encode()) for name, text in given.items())]

    def structured(self, id: str, data: Any, **attributes: str) -> Record:
        given = {"specversion": "1.0", "id": id, "source": self.source, "type": "model.stored", "data": data}
        return json.dumps(given | attributes).encode(), [
            ("content-type", b"application/cloudevents+json; charset=utf-8")
        ]

    def sample(self, id: str, data: Any) -> cloudevent_pb2.CloudEvent:
        return cloudevent_pb2.CloudEvent(
            id=id, source=self.source, type="model.stored", spec_version="1.0", text_data=json.dumps(data)
        )

    def protobuf(self, id: str, data: Any) -> Record:
        return self.sample(id, data).SerializeToString(), [("content-type", b"application/cloudevents+protobuf")]

    def trigger(self, name: str = "on-model", **more: Any) -> triggers_pb2.Trigger:
        given: dict[str, Any] = {
            "name": name,
            "project": self.name,
            "template": "base",
            "event_type": "model.stored",
            "event_sources": [self.source],
            "environment": {"MODEL": "data.model.name", "EVENT": "event.id"},
            "enabled": True,
        }
        return triggers_pb2.Trigger(**(given | more))

    async def rule(self, name: str = "on-model", **more: Any) -> triggers_pb2.Trigger:
        request = triggers_pb2.ApplyTriggerRequest(trigger=self.trigger(name, **more), idempotency_key=key())
        return (await self.door.triggers.ApplyTrigger(request)).trigger

    async def runs(self) -> list[wl.Workload]:
        asked = api.ListWorkloadsRequest(filter=api.WorkloadFilter(project=self.name))
        return list((await self.door.workloads.ListWorkloads(asked)).workloads)

    async def firings(self, name: str = "on-model") -> list[triggers_pb2.Firing]:
        """The oldest first."""
        asked = triggers_pb2.ListFiringsRequest(project=self.name, trigger=name)
        return list(reversed((await self.door.triggers.ListFirings(asked)).firings))


async def letters(here: Door) -> list[dead_letters_pb2.DeadLetter]:
    return list((await here.dead_letters.ListDeadLetters(dead_letters_pb2.ListDeadLettersRequest())).dead_letters)


async def test_what_rules_do_with_events(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await an_event_fires_once_in_every_mode(Stage(here, "stage-1"))
        await poison_goes_to_the_dead_letters_and_errors_to_the_rule(Stage(here, "stage-2"))
        await a_rule_that_runs_away_is_switched_off(Stage(here, "stage-3"))
        await what_exceeds_the_limits_waits_or_is_dropped(Stage(here, "stage-4"))
        await a_test_makes_nothing(Stage(here, "stage-5"))
        await rules_are_checked(Stage(here, "stage-6"))
        await old_firings_go_and_their_numbers_go_on_until_then(Stage(here, "stage-7"))


async def an_event_fires_once_in_every_mode(here: Stage) -> None:
    await here.ready(image="python:3.12", args="--fast")
    made = await here.rule(arguments=["data.model.name"], condition="data.model.name != 'skip'")
    assert made.window == Duration(seconds=7 * 86400)
    event = here.binary("one", {"model": {"name": "llama; $(rm) -rf /"}})
    unmatched = metrics.value(EVENTS, outcome="unmatched")
    await here.door.events(
        event,
        event,
        here.binary("x", {}, type="other"),
        here.binary("y", {"model": {"name": "m"}}, source="/elsewhere"),
        here.binary("z", {"model": {"name": "skip"}}),
        here.structured("one", {"model": {"name": "again"}}),
    )
    await here.door.events(here.structured("two", {"model": {"name": "bert"}}, subject="s"))
    await here.door.events(
        here.protobuf("three", {"model": {"name": "t5"}}), here.protobuf("one", {"model": {"name": "x"}})
    )
    found = await eventually(here.runs, lambda seen: len(seen) == 3)
    one = next(each for each in found if each.caused_by == f"{here.source} one")
    assert one.name.startswith("base-")
    assert (one.origin, one.owner.trigger, one.owner.subject) == (wl.ORIGIN_TRIGGER, f"{here.name}/on-model", "local")
    taken = {each.label: each.value for each in one.spec.environment}
    assert taken == {"MODEL": "llama; $(rm) -rf /", "EVENT": "one"}
    assert one.spec.args == "--fast 'llama; $$(rm) -rf /'"
    assert one.spec.base_workload == "base"
    assert {each.caused_by for each in found} == {f"{here.source} {one}" for one in ("one", "two", "three")}
    assert metrics.value(EVENTS, outcome="unmatched") - unmatched == 3
    again = await here.rule(window=Duration(seconds=60))
    assert (again.version, again.fired) == (2, 3)
    told = await here.firings()
    assert [(each.event_id, each.number, each.outcome) for each in told] == [
        (name, 1, triggers_pb2.FIRING_OUTCOME_STARTED) for name in ("one", "two", "three")
    ]
    assert [each.workload for each in told] == [
        next(run.name for run in found if run.id == each.workload_id) for each in told
    ]
    assert await letters(here.door) == []


async def poison_goes_to_the_dead_letters_and_errors_to_the_rule(here: Stage) -> None:
    await here.ready()
    await here.rule()
    await here.rule("careless", environment={}, event_type="model.*", event_sources=[f"{here.source}*", "/other"])
    await here.rule("endless", environment={}, condition="data.l.all(x, data.s.contains('aaaaaaaab'))")
    await here.door.events(
        (b"\x00\xff nonsense", []),
        (b"\xff", [("content-type", b"application/cloudevents+protobuf")]),
        (json.dumps({"model": "x" * 300_000}).encode(), here.binary("big", {})[1]),
        here.binary("lacks", {"model": {}}),
        here.binary("secret", {"model": {"name": "SECRET:vault,key"}}),
        here.binary("good", {"model": {"name": "m"}}),
    )
    found = await eventually(lambda: letters(here.door), lambda seen: len(seen) == 3)
    reasons = " | ".join(one.reason for one in found)
    assert "no CloudEvent" in reasons
    assert "no CloudEvent in protobuf" in reasons
    assert "at most 262144 are allowed" in reasons
    # The careless rule took what the other one could not, and both took the good one.
    made = await eventually(here.runs, lambda seen: len(seen) == 4)
    assert sorted(one.caused_by.split()[1] for one in made) == ["good", "good", "lacks", "secret"]
    told = await here.firings()
    assert [each.outcome for each in told[:2]] == [triggers_pb2.FIRING_OUTCOME_ERROR] * 2
    assert 'Key not found in map : "name"' in told[0].why
    assert "may not reach for a secret" in told[1].why

    page = await here.door.triggers.ListTriggers(triggers_pb2.ListTriggersRequest(project=here.name, page_size=2))
    assert [one.name for one in page.triggers] == ["careless", "endless"]
    asked = triggers_pb2.ListTriggersRequest(project=here.name, page_size=2, page_token=page.next_page_token)
    assert [one.name for one in (await here.door.triggers.ListTriggers(asked)).triggers] == ["on-model"]

    await here.rule(environment={})  # mended: the firing can be replayed, under the next number
    again = triggers_pb2.ReplayFiringRequest(project=here.name, id=told[0].id, idempotency_key=key())
    replayed = (await here.door.triggers.ReplayFiring(again)).firing
    assert (replayed.number, replayed.outcome) == (2, triggers_pb2.FIRING_OUTCOME_STARTED)
    assert (await here.door.triggers.ReplayFiring(again)).firing == replayed
    assert len(await here.runs()) == 5


async def a_rule_that_runs_away_is_switched_off(here: Stage) -> None:
    await here.ready()
    costly = "data.l.all(x, data.s.contains('aaaaaaaaaaaaab') || true)"
    await here.rule("endless", environment={}, condition=costly)
    await here.rule(environment={})
    heavy = {"l": list(range(9000)), "s": "a" * 150_000}
    await here.door.events(*(here.binary(f"e{number}", heavy) for number in range(5)))
    told = await eventually(lambda: here.firings("endless"), lambda seen: len(seen) == 3, within=60)
    assert all(each.outcome == triggers_pb2.FIRING_OUTCOME_ERROR for each in told)
    assert "processor time" in told[0].why
    asked = triggers_pb2.GetTriggerRequest(project=here.name, name="endless")
    stopped = (await here.door.triggers.GetTrigger(asked)).trigger
    assert not stopped.enabled
    assert "ran away 3 times" in stopped.switched_off_because
    await eventually(here.runs, lambda seen: len(seen) == 5)  # the other rule felt nothing
    back = await here.rule("endless", environment={})
    assert (back.enabled, back.switched_off_because) == (True, "")


async def what_exceeds_the_limits_waits_or_is_dropped(here: Stage) -> None:
    await here.ready()
    waits = triggers_pb2.TriggerExcess(policy=triggers_pb2.TRIGGER_EXCESS_POLICY_WAIT, most=1)
    drops = triggers_pb2.TriggerExcess(policy=triggers_pb2.TRIGGER_EXCESS_POLICY_DROP)
    rate = triggers_pb2.TriggerRate(runs=2, per=Duration(seconds=3600))
    await here.rule("waits", environment={}, max_running=1, excess=waits)
    await here.rule("drops", environment={}, rate=rate, excess=drops)
    await here.door.events(*(here.binary(f"e{number}", {}) for number in range(4)))
    one = await eventually(lambda: here.firings("waits"), lambda seen: len(seen) == 4)
    assert [each.outcome for each in one] == [2, 1, 3, 3]
    assert "1 runs of the trigger have not ended, at most 1 may be at once" in one[1].why
    assert "at most 1 may" in one[2].why
    two = await here.firings("drops")
    assert [each.outcome for each in two] == [2, 2, 3, 3]
    assert "2 runs were started within 3600 s" in two[2].why
    again = triggers_pb2.ReplayFiringRequest(project=here.name, id=one[1].id, idempotency_key=key())
    with pytest.raises(grpc.aio.AioRpcError) as waiting:
        await here.door.triggers.ReplayFiring(again)
    assert waiting.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    got = await here.door.triggers.GetTrigger(triggers_pb2.GetTriggerRequest(project=here.name, name="waits"))
    assert (got.running, got.waiting) == (1, 1)
    gone = triggers_pb2.DeleteTriggerRequest(project=here.name, name="waits", idempotency_key=key())
    assert (await here.door.triggers.DeleteTrigger(gone)).dropped == 1
    assert [each.outcome for each in await here.firings("waits")] == [2, 3, 3, 3]
    with pytest.raises(grpc.aio.AioRpcError) as missing:
        await here.door.triggers.GetTrigger(triggers_pb2.GetTriggerRequest(project=here.name, name="waits"))
    assert missing.value.code() is grpc.StatusCode.NOT_FOUND
    excess = triggers_pb2.TriggerExcess(deadline=Duration(seconds=1))
    await here.rule("expires", environment={}, max_running=1, excess=excess, event_type="soon")
    await here.door.events(here.binary("a", {}, type="soon"), here.binary("b", {}, type="soon"))
    told = await eventually(lambda: here.firings("expires"), lambda seen: [one.outcome for one in seen] == [2, 4])
    assert told[1].why.startswith("waited until its deadline")


async def a_test_makes_nothing(here: Stage) -> None:
    await here.ready(args="-v")
    asked = triggers_pb2.TestTriggerRequest(
        trigger=here.trigger(arguments=["data.model.name"]), event=here.sample("one", {"model": {"name": "bert base"}})
    )
    found = await here.door.triggers.TestTrigger(asked)
    assert (found.matches, found.outcome, found.remembered) == (True, triggers_pb2.FIRING_OUTCOME_STARTED, False)
    assert found.spec.args == "-v 'bert base'"
    asked.event.text_data = "{}"
    broken = await here.door.triggers.TestTrigger(asked)
    assert (broken.matches, broken.outcome) == (True, triggers_pb2.FIRING_OUTCOME_ERROR)
    assert "model" in broken.why
    asked.event.source = "/elsewhere"
    assert not (await here.door.triggers.TestTrigger(asked)).matches
    asked.event.id = ""
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await here.door.triggers.TestTrigger(asked)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert await here.runs() == []
    assert await here.firings() == []
    # What it foretold is what happens.
    await here.rule(arguments=["data.model.name"])
    await here.door.events(here.binary("one", {"model": {"name": "bert base"}}))
    (made,) = await eventually(here.runs, bool)
    assert (made.name, made.spec.args) == (found.workload, found.spec.args)
    asked.event.CopyFrom(here.sample("one", {"model": {"name": "bert base"}}))
    assert (await here.door.triggers.TestTrigger(asked)).remembered


async def rules_are_checked(here: Stage) -> None:
    await here.door.project(here.name)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await here.rule("Bad Name", event_type="", event_sources=[], environment={"1X": "1"})
    assert violations(refused.value).keys() == {
        "trigger.name",
        "trigger.event_type",
        "trigger.event_sources",
        "trigger.environment.1X",
    }
    with pytest.raises(grpc.aio.AioRpcError) as wrong:
        await here.rule(condition="data.x +", environment={"A": "nothing.there"}, arguments=["1 + 1"])
    assert violations(wrong.value).keys() == {"trigger.condition", "trigger.environment.A"}
    with pytest.raises(grpc.aio.AioRpcError) as missing:
        await here.rule()
    assert missing.value.code() is grpc.StatusCode.NOT_FOUND
    await here.door.template(project=here.name)
    chosen = [
        triggers_pb2.TriggerField(path="image", value="data.i", allowed=["python:3.12", "python:3.13"]),
        triggers_pb2.TriggerField(path="name", value="data.n", allowed=["x"]),
        triggers_pb2.TriggerField(path="nothing", value="data.n", allowed=["x"]),
        triggers_pb2.TriggerField(path="gpu", value="data.n", allowed=["many"]),
    ]
    with pytest.raises(grpc.aio.AioRpcError) as forbidden:
        await here.rule(fields=chosen)
    assert violations(forbidden.value).keys() == {
        "trigger.fields.name",
        "trigger.fields.nothing",
        "trigger.fields.gpu",
    }
    made = await here.rule(fields=chosen[:1], environment={}, window=Duration(seconds=90))
    assert made.fields == chosen[:1]
    await here.door.events(here.binary("a", {"i": "python:3.13"}), here.binary("b", {"i": "evil:latest"}))
    told = await eventually(here.firings, lambda seen: len(seen) == 2)
    assert [each.outcome for each in told] == [2, 5]
    assert "'evil:latest'; allowed are 'python:3.12', 'python:3.13'" in told[1].why
    (run,) = await here.runs()
    assert run.spec.image == "python:3.13"


async def old_firings_go_and_their_numbers_go_on_until_then(here: Stage) -> None:
    await here.ready()
    await here.rule(environment={}, window=Duration(seconds=1))
    await here.door.events(here.binary("a", {}))
    (first,) = await eventually(here.firings, bool)
    async with here.door.app.database.unit() as unit:
        await unit.connection.execute("UPDATE firings SET until = now() - interval '1 day'")
    await here.door.events(here.binary("a", {}))
    told = await eventually(here.firings, lambda seen: len(seen) == 2)
    assert [each.number for each in told] == [1, 2]
    assert first.workload != told[1].workload
    await here.door.app.firings.forget(identity.now() + timedelta(days=40), 100)
    assert await here.firings() == []


async def test_what_was_fired_is_remembered_over_a_restart(database: Any, kafka: str) -> None:
    async with door(database, kafka) as opened:
        here = Stage(opened, PROJECT)
        await here.ready()
        await here.rule(max_running=1)
        await here.door.events(
            here.binary("one", {"model": {"name": "m"}}), here.binary("two", {"model": {"name": "n"}})
        )
        waits = await eventually(here.firings, lambda seen: len(seen) == 2)
        assert waits[1].outcome == triggers_pb2.FIRING_OUTCOME_WAITING
    async with door(database, kafka) as opened:
        here = Stage(opened, PROJECT)
        await here.door.events(
            here.binary("one", {"model": {"name": "m"}}), here.binary("three", {"model": {"name": "o"}})
        )
        told = await eventually(here.firings, lambda seen: len(seen) == 3)
        assert [each.event_id for each in told] == ["one", "two", "three"]
        await here.door.decide(told[0].workload_id, moved(wl.PHASE_COMPLETED))
        told = await eventually(here.firings, lambda seen: seen[1].workload_id != "")
        assert [each.outcome for each in told] == [
            triggers_pb2.FIRING_OUTCOME_STARTED,
            triggers_pb2.FIRING_OUTCOME_STARTED,
            triggers_pb2.FIRING_OUTCOME_WAITING,
        ]
        assert len(await here.runs()) == 2


async def test_below_the_disk_reserve_events_wait_and_none_is_lost(database: Any, kafka: str, tmp_path: Path) -> None:
    async with door(database, kafka, disk_reserve_folder=tmp_path, disk_reserve=1) as opened:
        here, reserve = Stage(opened, PROJECT), opened.app.reserve
        await here.ready()
        await here.rule(environment={})
        await here.rule("one-at-once", environment={}, max_running=1)
        await here.door.events(here.binary("one", {}), here.binary("two", {}))
        told = await eventually(lambda: here.firings("one-at-once"), lambda seen: len(seen) == 2)
        await eventually(here.runs, lambda seen: len(seen) == 3)
        reserve._reserve = 4 << 60
        await here.door.decide(told[0].workload_id, moved(wl.PHASE_COMPLETED))  # its limit lets the second start
        await here.door.events(here.binary("three", {}))
        await eventually(lambda: _condition(opened), lambda why: "less than its reserve of 4Ei" in why)
        with pytest.raises(grpc.aio.AioRpcError, match="MUSTER_DISK_RESERVE"):
            await here.door.triggers.ReplayFiring(
                triggers_pb2.ReplayFiringRequest(
                    project=PROJECT, id=(await here.firings())[0].id, idempotency_key=key()
                )
            )
        assert len(await here.runs()) == 3
        reserve._reserve = 1
        await eventually(here.runs, lambda seen: len(seen) == 5)
        assert [each.event_id for each in await here.firings()] == ["one", "two", "three"]
        assert await _condition(opened) == ""


async def test_an_event_of_a_lane_stays_there_while_the_disk_is_below_its_reserve(
    database: Any, kafka: str, tmp_path: Path
) -> None:
    async with door(database, kafka, disk_reserve_folder=tmp_path, disk_reserve=1) as opened:
        here, app = Stage(opened, PROJECT), opened.app
        await here.ready()
        await here.rule(environment={})
        app.lanes._reserve = DiskReserve(tmp_path, 4 << 60)
        await here.door.events(here.binary("one", {}))
        await eventually(lambda: _depth(app), lambda depth: depth == 1)
        app.reserve._reserve = 4 << 60
        for _ in range(4):  # more than a poisoned event is tried
            with pytest.raises(DiskReserveSpent):
                await app.firing.fire(PROJECT)
        assert await here.firings() == []
        app.reserve._reserve = 1
        app.lanes._reserve = app.reserve
        await eventually(
            here.firings, lambda seen: [each.outcome for each in seen] == [triggers_pb2.FIRING_OUTCOME_STARTED]
        )


async def _condition(here: Door) -> str:
    return here.app.runtime.health.waiting.get("triggers", "")


async def _depth(app: Application) -> int:
    async with app.database.unit() as unit:
        return (await app.queue.depths(unit, [PROJECT]))[PROJECT]

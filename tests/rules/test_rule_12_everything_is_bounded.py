"""Rule 12, the chassis's part: batches, statements and deadlines are bounded, and a stop loses nothing.

Taken out here: the timeout of statements (a stuck transaction holds the outbox lock for ever), the deadline of a call
(a stuck method holds its caller), the bytes of a pass of the relay (it reads all that there is at once), and the order
of the stop (what was taken in last is not sent).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import asyncpg
import grpc
import pytest

from muster.api.v1 import dead_letters_pb2 as pb
from muster.api.v1 import dead_letters_pb2_grpc
from muster_chassis import identity, outbox_rows, republishing
from muster_chassis import runtime as runtime_module
from muster_chassis.broker import Security
from muster_chassis.codec import LARGEST_VALUE
from muster_chassis.events import Event
from muster_chassis.group_consumer import GroupConsumer
from muster_chassis.health import Health
from muster_chassis.intake import Intake
from muster_chassis.outbox import Relay
from muster_chassis.rpc import CallInterceptor, Server, channel, everyone_is_local, service
from muster_chassis.rpc import server as server_module
from muster_chassis.runtime import Runtime
from muster_chassis.sending import Offset
from muster_chassis.settings import AuthMode, RpcSettings, Settings
from muster_chassis.topics import SUBMISSIONS
from muster_chassis.unit import Unit, ValueTooLarge
from tests.support.records import intake, record, with_ledger
from tests.support.stations import DECODER, Station, asked, opened, station
from tests.support.waiting import eventually, until

_BATCH = 40
_LARGE = 900 << 10


# ------------------------------------------------------------------------------------------------ sizes


async def test_a_record_that_nobody_could_read_is_not_written(database: Any) -> None:
    async with opened(database.url("policy")) as here, here.unit() as unit:
        with pytest.raises(ValueTooLarge, match="at most"):
            unit.publish(SUBMISSIONS, "w1", asked("w1", by="x" * LARGEST_VALUE))


async def test_ten_megabytes_and_other_oddities_stop_nobody(database: Any) -> None:
    async with opened(database.url("policy")) as here:
        ledger = await with_ledger(here)
        large = record("large", 1, message=asked("large", by="x" * (10 << 20)))
        await intake(here, ledger).process([large, record("w1", 1)], {})
        assert ledger.memory == {"w1": 1}
        assert await here.pool.fetchval("SELECT length(value) > 10000000 FROM parked")


class _Passes(Relay):
    """Notes the sizes of the values of each pass."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.passes: list[list[int]] = []

    async def _send(self, producer: Any, rows: Any) -> list[Offset]:
        self.passes.append([len(row["value"]) for row in rows])
        return await super()._send(producer, rows)

    @property
    def largest(self) -> int:
        return max(sum(sizes) for sizes in self.passes)


async def _stage(here: Station, number: int, size: int) -> None:
    for _ in range(number):
        await here.publish("w1", by="x" * size)


def _read(here: Station) -> list[int]:
    """The versions that arrive from now on."""
    versions: list[int] = []

    async def handle(unit: Unit, events: Sequence[Event]) -> None:
        unit.after_commit(lambda: versions.extend(event.version for event in events))

    here.consume(handle, assigned=True)
    return versions


async def test_a_pass_of_the_relay_has_a_bound_of_bytes(database: Any, kafka: str) -> None:
    async with station("submission", database.url("submission"), kafka) as here:
        await _stage(here, 50, _LARGE)
        relay, versions = _Passes(here.database, here.bus), _read(here)
        here.go(relay.run)
        await until(lambda: len(versions) == 50, within=60)
        assert versions == list(range(1, 51))
        async with here.database.acquired() as connection:
            number = await republishing.ask(connection, SUBMISSIONS.name, "", "a test", identity.now())
            again = await eventually(
                lambda: republishing.look(connection, number), lambda found: found is not None and found.done, within=60
            )
        assert again == republishing.Republication(50, done=True)
        assert sum(len(sizes) for sizes in relay.passes) == 100
        assert relay.largest <= outbox_rows.PASS_BYTES < 50 * _LARGE
        assert here.alive()


async def test_without_it_a_pass_has_all_there_is(database: Any, kafka: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_rows, "PASS_BYTES", 1 << 40)
    async with station("submission", database.url("submission"), kafka) as here:
        await _stage(here, 50, _LARGE)
        relay = _Passes(here.database, here.bus)
        here.go(relay.run)
        await until(lambda: relay.passes)
        assert relay.largest > 50 * _LARGE


async def test_a_row_above_the_bound_goes_alone(database: Any, kafka: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_rows, "PASS_BYTES", 1000)
    async with station("submission", database.url("submission"), kafka) as here:
        await _stage(here, 1, 100)
        await _stage(here, 3, 2000)
        relay, versions = _Passes(here.database, here.bus), _read(here)
        here.go(relay.run)
        await until(lambda: len(versions) == 4)
        assert [len(sizes) for sizes in relay.passes] == [1, 1, 1, 1]


# ------------------------------------------------------------------------------------------------ time


async def _waits_for_a_stuck_transaction(database: Any, seconds: float) -> bool:
    """Whether a transaction gets its turn within 3 s while another one sits on the outbox lock and does nothing."""
    async with opened(database.url("policy"), database_statement_seconds=seconds) as here:
        stuck = await here.connect()
        await stuck.execute("BEGIN")
        await stuck.execute("SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '.outbox', 0))")
        work = asyncio.ensure_future(_publish_one(here))
        done, _ = await asyncio.wait({work}, timeout=3)
        stuck.terminate()
        await asyncio.wait({work})
        return bool(done) and work.exception() is None


async def _publish_one(here: Any) -> None:
    for _ in range(3):
        try:
            async with here.unit() as unit:
                unit.publish(SUBMISSIONS, "w1", asked("w1"))
            return
        except asyncpg.QueryCanceledError:
            continue
    raise TimeoutError


async def test_a_stuck_transaction_is_ended(database: Any) -> None:
    assert await _waits_for_a_stuck_transaction(database, 0.5)


async def test_without_timeouts_it_stops_everyone(database: Any) -> None:
    assert not await _waits_for_a_stuck_transaction(database, 300)


class _Stuck(dead_letters_pb2_grpc.DeadLettersServiceServicer):
    """Never answers."""

    async def ListDeadLetters(self, request: Any, context: Any) -> Any:
        await asyncio.get_running_loop().create_future()

    async def RedriveDeadLetters(self, request: Any, context: Any) -> Any:
        await asyncio.get_running_loop().create_future()

    async def ResumeConsumer(self, request: Any, context: Any) -> Any:
        await asyncio.get_running_loop().create_future()

    async def DiscardDeadLetters(self, request: Any, context: Any) -> Any:
        await asyncio.get_running_loop().create_future()

    async def ListGaps(self, request: Any, context: Any) -> Any:
        await asyncio.get_running_loop().create_future()

    async def Republish(self, request: Any, context: Any) -> Any:
        await asyncio.get_running_loop().create_future()


async def _answer_without_a_deadline(monkeypatch: pytest.MonkeyPatch, longest: float) -> str:
    """The code that a caller gets who has set no deadline; WAITS where none comes within 2 s."""
    monkeypatch.setattr(server_module, "CallInterceptor", lambda _, **more: CallInterceptor(everyone_is_local, longest))
    stuck = service(
        pb.DESCRIPTOR.services_by_name["DeadLettersService"],
        dead_letters_pb2_grpc.add_DeadLettersServiceServicer_to_server,
        _Stuck(),
    )
    server = Server(RpcSettings(grpc_listen="127.0.0.1:0", auth=AuthMode.OFF), [stuck], Health())
    await server.start()
    try:
        async with channel(f"127.0.0.1:{server.port}") as to:
            call = dead_letters_pb2_grpc.DeadLettersServiceStub(to).ListDeadLetters(pb.ListDeadLettersRequest())
            async with asyncio.timeout(2):
                await call
    except grpc.aio.AioRpcError as error:
        return str(error.code().name)
    except TimeoutError:
        return "WAITS"
    finally:
        await server.stop(0)
    return "OK"


async def test_a_call_without_a_deadline_gets_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await _answer_without_a_deadline(monkeypatch, 0.2) == "DEADLINE_EXCEEDED"


async def test_without_the_servers_bound_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await _answer_without_a_deadline(monkeypatch, 300) == "WAITS"


# ------------------------------------------------------------------------------------------------ the stop


class _DrainsFirst(Runtime):
    """Drains before the intake has stopped."""

    async def _end(self, running: dict[str, asyncio.Task[None]]) -> None:
        for action in self._drains:
            await runtime_module._quietly("drain", action)
        self._drains.clear()
        # The relay ends with its drain: left alone it might still send by luck what comes afterwards.
        running["relay"].cancel()
        await asyncio.wait([running["relay"]])
        await super()._end(running)


async def _left_over_after_a_stop(database: Any, kafka: str, kind: type[Runtime]) -> int:
    """Outbox rows that were not published when a service that answers each event with one had stopped."""
    async with (
        station("submission", database.url("submission"), kafka) as sender,
        station("policy", database.url("policy"), kafka) as receiver,
    ):
        relay, holding, go_on = sender.relay(), asyncio.Event(), asyncio.Event()

        async def answer(unit: Unit, events: Sequence[Event]) -> None:
            holding.set()
            await go_on.wait()
            for event in events:
                unit.publish("muster.admissions", event.aggregate, asked(event.aggregate))

        await sender.publish(*(f"w{n}" for n in range(_BATCH)))
        await relay.drain(5)
        living = asyncio.ensure_future(_service(receiver, answer, kind, holding))
        await asyncio.wait_for(holding.wait(), 20)
        await asyncio.wait({living}, timeout=0.5)
        go_on.set()
        await living
        last = await receiver.database.pool.fetchval("SELECT coalesce(max(last), 0) FROM relay_positions")
        return int(await receiver.database.pool.fetchval("SELECT count(*) FROM outbox WHERE id > $1", last))


async def _service(here: Station, answer: Any, kind: type[Runtime], holding: asyncio.Event) -> None:
    """A service that is told to stop while it handles its first batch."""
    runtime = kind(
        Settings(instance="p", kafka_bootstrap="k:1", kafka_security=Security.PLAINTEXT, metrics_listen="127.0.0.1:0")
    )
    relay, consumer = _made(here, answer)
    runtime.eternal("relay", relay.run)
    runtime.drain(lambda: relay.drain(3))
    runtime.eternal("consumer", consumer.run, stop=consumer.stop)
    living = asyncio.ensure_future(runtime.live())
    await holding.wait()
    runtime.stopping.set()
    await living


def _made(here: Station, answer: Any) -> tuple[Relay, GroupConsumer]:
    options: dict[str, Any] = {"name": "policy", "topics": [SUBMISSIONS], "decoder": DECODER, "instance": "p-0"}
    return Relay(here.database, here.bus), GroupConsumer(here.database, here.bus, handler=answer, **options)


async def test_a_stop_sends_what_was_taken_in(database: Any, kafka: str) -> None:
    assert await _left_over_after_a_stop(database, kafka, Runtime) == 0


async def test_drained_too_early_something_is_left(database: Any, kafka: str) -> None:
    assert await _left_over_after_a_stop(database, kafka, _DrainsFirst) > 0


# ------------------------------------------------------------------------------------------------ the others


class _AllOrNothing(Intake):
    """Never takes a failed batch apart."""

    async def _alone(self, entry: Any) -> None:
        """Gives the whole batch up with its first record."""


async def _others_in_the_batch(database: Any, kind: type[Intake]) -> int:
    async with opened(database.url("policy")) as here:
        ledger = await with_ledger(here)
        ledger.refuse["bad"] = ValueError("no")
        await intake(here, ledger, kind).process([record(f"w{n}") for n in range(_BATCH)] + [record("bad")], {})
        return len(ledger.memory)


async def test_one_bad_workload_costs_the_others_nothing(database: Any) -> None:
    assert await _others_in_the_batch(database, Intake) == _BATCH


async def test_without_taking_the_batch_apart_it_takes_them_along(database: Any) -> None:
    assert await _others_in_the_batch(database, _AllOrNothing) == 0

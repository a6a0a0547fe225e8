"""Fair shares of the loop: callers with little use are never delayed, callers without a pause wait for it to fade."""

from __future__ import annotations

import asyncio
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_chassis.errors import InvalidArgument
from muster_chassis.rpc.caller import Caller
from muster_chassis.rpc.limits import Limiter
from muster_chassis.rpc.shares import Meter, Shares, fair_level, metered
from muster_chassis.settings import CallKind

ANN, BOB = Caller(subject="ann"), Caller(subject="bob")


class Clock:
    """Seconds that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def used(shares: Shares, name: str, seconds: float, *, refused: bool = False) -> None:
    """One call that took so much of the loop."""
    meter = Meter()
    meter.seconds, meter.refused = seconds, refused
    shares.charge(name, 0.0, meter)


@given(st.lists(st.floats(0, 2), min_size=1, max_size=30), st.floats(0.01, 2))
def test_water_filling_uses_the_whole_capacity(uses: list[float], capacity: float) -> None:
    level = fair_level(uses, capacity)
    if sum(uses) <= capacity:
        assert level == math.inf or sum(min(use, level) for use in uses) == pytest.approx(capacity)
    else:
        assert sum(min(use, level) for use in uses) == pytest.approx(capacity)


def test_a_caller_who_is_alone_is_never_delayed() -> None:
    shares = Shares(Clock())
    used(shares, "ann", 0.95)
    assert shares.pause("ann") == 0.0


def test_where_the_loop_is_not_busy_none_is_delayed() -> None:
    shares = Shares(Clock())
    used(shares, "ann", 0.5)
    used(shares, "bob", 0.1)
    assert (shares.pause("ann"), shares.pause("bob")) == (0.0, 0.0)


def test_who_takes_more_than_a_fair_share_of_a_busy_loop_waits_until_it_has_faded() -> None:
    clock = Clock()
    shares = Shares(clock)
    used(shares, "ann", 0.8)
    used(shares, "bob", 0.1)
    pause = shares.pause("ann")
    assert pause == pytest.approx(math.log(0.8 / 0.6))
    assert shares.pause("bob") == 0.0
    clock.now += pause
    assert shares.pause("ann") == 0.0


def test_a_refused_call_costs_five_times_its_time() -> None:
    shares = Shares(Clock())
    used(shares, "ann", 0.2, refused=True)
    used(shares, "bob", 0.2)
    assert shares.pause("ann") > 0.0
    assert shares.pause("bob") == 0.0


def test_the_table_forgets_who_has_not_called_for_a_while() -> None:
    clock = Clock()
    shares = Shares(clock)
    for number in range(1000):
        used(shares, f"caller-{number}", 0.01)
    clock.now += 20
    used(shares, "ann", 0.9)
    used(shares, "bob", 0.1)
    shares.pause("ann")
    assert len(shares._accounts) == 2


async def test_only_the_work_on_the_loop_is_metered_and_its_result_and_errors_pass() -> None:
    async def work() -> str:
        until = time.thread_time() + 0.02
        while time.thread_time() < until:
            pass
        await asyncio.sleep(0.05)
        return "done"

    meter = Meter()
    assert await metered(work(), meter) == "done"
    assert 0.02 <= meter.seconds < 0.05

    async def refuses() -> None:
        await asyncio.sleep(0)
        raise InvalidArgument("no")

    with pytest.raises(InvalidArgument):
        await metered(refuses(), meter)


async def test_a_cancelled_call_ends_its_work() -> None:
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    async def call() -> None:
        await metered(work(), Meter())

    task = asyncio.create_task(call())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_the_limiter_lets_others_pass_one_who_is_refused_without_end() -> None:
    shares = Shares()
    limiter = Limiter(shares=shares)

    async def refused() -> None:
        until = time.thread_time() + 0.03
        while time.thread_time() < until:
            pass
        raise InvalidArgument("no")

    passed: list[str] = []

    async def light(who: str) -> None:
        passed.append(who)

    for _ in range(8):
        with pytest.raises(InvalidArgument):
            await limiter.served(CallKind.UNARY, ANN, refused())
    used(shares, "bob", 0.05)
    waiting = asyncio.create_task(limiter.served(CallKind.UNARY, ANN, light("ann")))
    await asyncio.sleep(0)
    assert not waiting.done()
    await limiter.served(CallKind.REST, BOB, light("bob"))
    await waiting
    assert passed == ["bob", "ann"], "the use of the one who was refused has to fade first"


async def test_agents_and_streams_take_no_turn() -> None:
    shares = Shares()
    limiter = Limiter(shares=shares)
    used(shares, "ann", 5.0)
    used(shares, "bob", 0.1)

    async def light() -> bool:
        return True

    async with asyncio.timeout(1):
        assert await limiter.served(CallKind.AGENT, ANN, light())


def test_the_table_is_bounded_also_where_the_loop_is_never_busy() -> None:
    clock = Clock()
    shares = Shares(clock)
    for number in range(1000):
        clock.now += 1.0
        used(shares, f"connection-{number}", 0.01)
    assert len(shares._accounts) < 30


async def test_calls_that_wait_for_a_turn_survive_that_their_account_is_forgotten() -> None:
    clock = Clock()
    shares = Shares(clock)
    first = asyncio.create_task(shares.turn("ann"))
    await first
    account = shares._accounts["ann"]
    await account.turn.acquire()
    waiting = [asyncio.create_task(shares.turn("ann")) for _ in range(3)]
    await asyncio.sleep(0)
    account.turn.release()  # free until the first waiter runs
    clock.now += 60
    shares._sweep()
    assert "ann" not in shares._accounts
    async with asyncio.timeout(5):
        assert await asyncio.gather(*waiting) == [0.0, 0.0, 0.0]

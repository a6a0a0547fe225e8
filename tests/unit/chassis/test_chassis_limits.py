"""How many calls may be under way: by kind, by caller, with a reserve; and what a refusal says."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_chassis import metrics
from muster_chassis.errors import ResourceExhausted
from muster_chassis.rpc import LIMITS, LOCAL, Caller, Limiter
from muster_chassis.rpc.limits import INTERNAL, UNDER_WAY
from muster_chassis.settings import CallKind, CallLimit

ANN, BOB, ADMIN, AGENT = Caller("ann"), Caller("bob", issuer="idp"), Caller("root"), Caller("agents")
SMALL = {
    CallKind.UNARY: CallLimit(most=4, caller=3, reserve=1),
    CallKind.WATCH: CallLimit(most=4, caller=3, reserve=1),
    CallKind.AGENT: CallLimit(most=4, caller=1),
}


async def privileged(kind: CallKind, who: Caller) -> bool:
    return who == (AGENT if kind is CallKind.AGENT else ADMIN)


async def open_calls(stack: AsyncExitStack, limiter: Limiter, kind: CallKind, *callers: Caller) -> None:
    for who in callers:
        await stack.enter_async_context(limiter.admitted(kind, who))


async def refusal(limiter: Limiter, kind: CallKind, who: Caller, connection: str = "") -> ResourceExhausted:
    with pytest.raises(ResourceExhausted) as refused:
        async with limiter.admitted(kind, who, connection):
            raise AssertionError("it was admitted")
    return refused.value


async def test_one_caller_has_a_limit_which_the_refusal_names() -> None:
    limiter = Limiter(SMALL, privileged)
    async with AsyncExitStack() as stack:
        await open_calls(stack, limiter, CallKind.WATCH, ANN, ANN, ANN)
        refused = await refusal(limiter, CallKind.WATCH, ANN)
        assert "at most 3 of one caller, and ann has 3 of them" in refused.message
        assert refused.metadata == {"kind": "watch", "limit": "caller", "most": "3"}
        assert refused.retry_after is not None
        await open_calls(stack, limiter, CallKind.UNARY, ANN, ANN, ANN)  # streams are counted apart
        assert metrics.value(UNDER_WAY, kind="watch") == 3
    async with limiter.admitted(CallKind.WATCH, ANN):
        assert metrics.value(UNDER_WAY, kind="watch") == 1


async def test_what_is_left_is_kept_for_administrators() -> None:
    limiter = Limiter(SMALL, privileged)
    async with AsyncExitStack() as stack:
        await open_calls(stack, limiter, CallKind.UNARY, ANN, ANN, ANN)
        refused = await refusal(limiter, CallKind.UNARY, BOB)
        assert "all callers together have 3, 1 of them kept for administrators" in refused.message
        await open_calls(stack, limiter, CallKind.UNARY, ADMIN)
        assert (await refusal(limiter, CallKind.UNARY, ADMIN)).metadata["limit"] == "all"


async def test_agents_have_no_limit_of_their_own_and_who_only_says_so_has() -> None:
    limiter = Limiter(SMALL, privileged)
    async with AsyncExitStack() as stack:
        await open_calls(stack, limiter, CallKind.AGENT, BOB, AGENT, AGENT)
        assert (await refusal(limiter, CallKind.AGENT, BOB)).metadata["limit"] == "caller"
        await open_calls(stack, limiter, CallKind.AGENT, AGENT)
        assert (await refusal(limiter, CallKind.AGENT, AGENT)).metadata["limit"] == "all"


async def test_without_tokens_connections_are_told_apart() -> None:
    limiter = Limiter(SMALL)
    async with AsyncExitStack() as stack:
        for _ in range(3):
            await stack.enter_async_context(limiter.admitted(CallKind.WATCH, LOCAL, "a:1"))
        assert "the connection a:1 has 3" in (await refusal(limiter, CallKind.WATCH, LOCAL, "a:1")).message
    async with limiter.admitted(CallKind.WATCH, LOCAL, "a:2"):
        assert metrics.value(UNDER_WAY, kind="watch") == 1


def test_the_limits_of_a_caller_leave_room_for_others() -> None:
    for limit in LIMITS.values():
        assert 0 < limit.caller <= (limit.most - limit.reserve) // 2 + limit.reserve
    assert {kind for kind, limit in INTERNAL.items() if limit.caller} == {CallKind.OPEN, CallKind.OPEN_STREAM}
    with pytest.raises(ValueError, match="reserve is 5 of 5"):
        CallLimit(most=5, reserve=5)


@given(st.lists(st.tuples(st.sampled_from([ANN, BOB, ADMIN]), st.booleans()), max_size=40))
async def test_counts_never_drift(steps: list[tuple[Caller, bool]]) -> None:
    limiter = Limiter(SMALL, privileged)
    opened: list[AsyncExitStack] = []
    for who, opens in steps:
        if not opens and opened:
            await opened.pop().aclose()
            continue
        stack = AsyncExitStack()
        try:
            await stack.enter_async_context(limiter.admitted(CallKind.UNARY, who))
            opened.append(stack)
        except ResourceExhausted:
            assert len(opened) >= 3
        assert len(opened) <= 4
    for stack in opened:
        await stack.aclose()
    async with AsyncExitStack() as stack:
        await open_calls(stack, limiter, CallKind.UNARY, ANN, ANN, ANN)

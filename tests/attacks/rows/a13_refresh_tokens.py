"""A13: a copied refresh token is used at the same time as its holder uses it, or long after."""

from __future__ import annotations

import asyncio
import json
from typing import Final

import asyncpg
import grpc
import jwt

from muster.api.v1 import access_pb2 as api
from muster.api.v1.access_pb2_grpc import TokenServiceStub
from muster_chassis.rpc import channel
from muster_stack.postgres import PostgresServer
from tests.attacks.attack import Actor, Attack, Verdict, broken, held
from tests.attacks.stage import Stage

_SECONDS: Final = 5.0
_PROOF: Final = "tests/rules/test_attacks_keys.py::test_without_rotation_a_copied_refresh_token_lives_on"


async def _login(stub: TokenServiceStub, stage: Stage) -> str:
    """The refresh token of a login, as a thief may have copied it."""
    application = json.loads((stage.data / "credentials" / "admin.json").read_text())
    asked = api.IssueTokenRequest(application=application["id"], secret=application["secret"])
    return str((await stub.IssueToken(asked, timeout=_SECONDS)).refresh_token)


async def _renewed(stub: TokenServiceStub, token: str) -> str:
    """The successor of a refresh token; empty: refused."""
    try:
        answer = await stub.IssueToken(api.IssueTokenRequest(refresh_token=token), timeout=_SECONDS)
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.UNAUTHENTICATED:
            raise
        return ""
    return str(answer.refresh_token)


def _number(token: str) -> str:
    return str(jwt.decode(token, options={"verify_signature": False}).get("jti", token))


async def let_time_pass(stage: Stage) -> None:
    """Makes every use of a refresh token a minute older, instead of waiting for the half minute of tolerance."""
    connection = await asyncpg.connect(PostgresServer.of(stage.layout).url("submission"))
    try:
        await connection.execute("UPDATE refresh_tokens SET rotated_at = rotated_at - interval '1 minute'")
    finally:
        await connection.close()


async def _two_lines(stage: Stage) -> Verdict:
    """Thief and holder use one token at the same time: both would go on for ever, each with tokens of their own."""
    async with channel(stage.grpc) as opened:
        stub = TokenServiceStub(opened)
        copied = await _login(stub, stage)
        found = await asyncio.gather(*(_renewed(stub, copied) for _ in range(6)))
    numbers = {_number(token) for token in found if token}
    if len(numbers) > 1:
        return broken(f"one refresh token became {len(numbers)} independent ones")
    return held("six uses at once gave one successor")


async def _late_reuse(stage: Stage) -> Verdict:
    """The thief comes later than the holder: the copied token is worthless, and the holder's line ends with it."""
    async with channel(stage.grpc) as opened:
        stub = TokenServiceStub(opened)
        copied = await _login(stub, stage)
        holders = await _renewed(stub, copied)
        await let_time_pass(stage)
        if await _renewed(stub, copied):
            return broken("a refresh token that its holder had used was good for another one a minute later")
        if await _renewed(stub, holders):
            return broken("the family of a token that was used twice goes on")
    return held("the late use was refused and ended its family")


ATTACKS: Final = (
    Attack("A13", "refresh-token-beside-its-holder", Actor.NO_ROLE, _two_lines, _PROOF),
    Attack("A13", "refresh-token-used-again-later", Actor.NO_ROLE, _late_reuse, _PROOF),
)

"""Applications and their tokens on a service that asks for tokens: made, used, renewed, revoked, and never guessed."""

from __future__ import annotations

import base64
import json
import secrets
import time
import uuid
from pathlib import Path
from typing import Any

import grpc
import jwt
import pytest

from muster.api.v1 import access_pb2 as api
from muster.api.v1 import tenancy_pb2
from muster_chassis.settings import AuthMode
from muster_submission.handlers.bootstrap import read_first
from tests.support.doors import Door, door, key

CODE = grpc.StatusCode
Metadata = tuple[tuple[str, str], ...]


def first_application(folder: Path, name: str = "admin", role: str = "system-admin") -> Path:
    """The file of an application to begin with."""
    path = folder / f"{name}.json"
    path.touch(0o600)
    path.write_text(json.dumps({"id": str(uuid.uuid4()), "secret": secrets.token_urlsafe(32), "role": role}))
    return path


def first_of(path: Path) -> tuple[str, str]:
    """The id and the secret in such a file."""
    first = read_first(path)
    return first.id, first.secret


async def issue(here: Door, application: str, secret: str) -> api.IssueTokenResponse:
    """A token for an application."""
    answer: api.IssueTokenResponse = await here.tokens.IssueToken(
        api.IssueTokenRequest(application=application, secret=secret)
    )
    return answer


def bearer(token: str) -> Metadata:
    """The metadata with which a call carries a token."""
    return (("authorization", f"Bearer {token}"),)


async def admin(here: Door, path: Path) -> Metadata:
    """The metadata of the first application's calls."""
    return bearer((await issue(here, *first_of(path))).access_token)


async def _code(call: Any) -> grpc.StatusCode:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code()
    return CODE.OK


async def _made(here: Door, who: Metadata, name: str, *roles: tuple[str, str, str]) -> api.CreateApplicationResponse:
    made: api.CreateApplicationResponse = await here.access.CreateApplication(
        api.CreateApplicationRequest(name=name), metadata=who
    )
    for role, kind, scope in roles:
        rule = api.AccessRule(
            holder_kind="application", holder=made.application.id, role=role, scope_kind=kind, scope=scope
        )
        await here.access.GrantRole(api.GrantRoleRequest(rule=rule, idempotency_key=key()), metadata=who)
    return made


async def _the_first_lets_others_in_and_a_revoked_one_is_out_at_once(here: Door, path: Path) -> None:
    assert await _code(here.access.WhoAmI(api.WhoAmIRequest())) is CODE.UNAUTHENTICATED
    who = await admin(here, path)
    me = await here.access.WhoAmI(api.WhoAmIRequest(), metadata=who)
    assert [(rule.role, rule.scope_kind, rule.holder_name) for rule in me.rules] == [
        ("system-admin", "tenant", "admin")
    ]
    nowhere = api.CanIRequest(verb="workloads.create", project="visoin")
    assert await _code(here.access.CanI(nowhere, metadata=who)) is CODE.NOT_FOUND
    robot = await _made(here, who, "robot", ("researcher", "project", "vision"))
    token = await issue(here, "robot", robot.secret)
    as_robot = bearer(token.access_token)
    can = api.CanIRequest(verb="workloads.create", project="vision")
    assert (await here.access.CanI(can, metadata=as_robot)).allowed
    assert not (await here.access.CanI(nowhere, metadata=as_robot)).allowed
    renewed = await here.tokens.IssueToken(api.IssueTokenRequest(refresh_token=token.refresh_token))
    assert await _code(here.access.CanI(can, metadata=bearer(renewed.access_token))) is CODE.OK

    rotated = await here.access.RotateApplication(api.RotateApplicationRequest(application="robot"), metadata=who)
    assert await _code(here.access.CanI(can, metadata=as_robot)) is CODE.UNAUTHENTICATED
    stale = here.tokens.IssueToken(api.IssueTokenRequest(refresh_token=token.refresh_token))
    assert await _code(stale) is CODE.UNAUTHENTICATED
    assert await _code(issue(here, robot.application.id, robot.secret)) is CODE.UNAUTHENTICATED
    again = bearer((await issue(here, robot.application.id, rotated.secret)).access_token)
    assert await _code(here.access.CanI(can, metadata=again)) is CODE.OK

    ended = api.RevokeApplicationRequest(application="robot", idempotency_key=key())
    await here.access.RevokeApplication(ended, metadata=who)
    assert await _code(here.access.CanI(can, metadata=again)) is CODE.UNAUTHENTICATED
    assert await _code(issue(here, robot.application.id, rotated.secret)) is CODE.UNAUTHENTICATED
    await _no_secret_anywhere(here, robot.secret, rotated.secret, token.access_token)


async def _no_secret_anywhere(here: Door, *canaries: str) -> None:
    """No table of the service holds a secret or a token in clear."""
    pool = here.app.database.pool
    tables = await pool.fetch("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
    assert {"audit", "applications", "idempotency"} <= {row["tablename"] for row in tables}
    for row in tables:
        for line in await pool.fetch(f'SELECT t::text AS text FROM "{row["tablename"]}" t'):  # noqa: S608 - our tables
            for canary in canaries:
                assert canary not in line["text"], row["tablename"]
                assert canary.encode().hex() not in line["text"], row["tablename"]


async def _an_unknown_application_and_a_wrong_secret_get_one_answer(here: Door, path: Path) -> None:
    client, _ = first_of(path)
    said = set()
    for application in (client, "second", "nobody", str(uuid.uuid4()), "", "\x00", "'; DROP TABLE audit; --"):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await issue(here, application, "wrong")
        said.add((refused.value.code(), refused.value.details()))
    assert len(said) == 1
    assert next(iter(said))[0] is CODE.UNAUTHENTICATED
    codes = [await _code(issue(here, "nobody", "wrong")) for _ in range(8)]
    assert codes[-1] is CODE.RESOURCE_EXHAUSTED
    assert (await issue(here, *first_of(path))).access_token, "wrong secrets of others keep no right one out"
    refused_ones = "SELECT target, outcome FROM audit WHERE verb = 'tokens.issue' AND outcome <> 'done'"
    rows = await here.app.database.pool.fetch(refused_ones)
    assert {row["target"] for row in rows} == {f"application/{client}", "application/unknown"}
    assert {row["outcome"] for row in rows} == {"UNAUTHENTICATED"}


async def _a_token_reads_as_plain_base64_and_its_key_is_published(here: Door, path: Path) -> None:
    client, secret = first_of(path)
    token = (await issue(here, client, secret)).access_token
    payload = token.split(".")[1]
    assert not set(payload) & set("-_")
    claims = json.loads(base64.b64decode(payload + "=="))
    assert claims["sub"] == client
    assert 3500 < claims["exp"] - time.time() <= 3600
    (published, *_) = [one.jwk for one in await here.app.access_parts.signing.keys()]
    assert "d" not in published
    assert jwt.get_unverified_header(token)["kid"] == published["kid"]
    jwt.decode(token, jwt.PyJWK(published).key, algorithms=["ES256"], audience="muster", issuer="muster")


async def _keys_are_renewed_and_the_one_before_still_verifies(here: Door, path: Path) -> None:
    pool, parts = here.app.database.pool, here.app.access_parts
    old = jwt.get_unverified_header(dict(await admin(here, path))["authorization"].removeprefix("Bearer "))
    for turn in (1, 2, 3):
        await pool.execute("UPDATE signing_keys SET made_at = made_at - interval '31 days'")
        await parts.renew()
        assert (await parts.signing.find(old["kid"]) is not None) == (turn == 1)
        assert len(await parts.signing.keys()) == 2
    assert await _code(here.access.WhoAmI(api.WhoAmIRequest(), metadata=await admin(here, path))) is CODE.OK


async def _the_last_administrator_stays_and_nobody_gives_more_than_they_have(here: Door, path: Path) -> None:
    who = await admin(here, path)
    created = tenancy_pb2.CreateProjectRequest(name="vision", idempotency_key=key())
    await here.tenancy.CreateProject(created, metadata=who)
    (rule,) = (await here.access.ListAccessRules(api.ListAccessRulesRequest(), metadata=who)).rules
    last = here.access.RevokeRole(api.RevokeRoleRequest(id=rule.id, idempotency_key=key()), metadata=who)
    assert await _code(last) is CODE.FAILED_PRECONDITION
    lead = await _made(here, who, "lead", ("project-admin", "project", "vision"))
    as_lead = bearer((await issue(here, "lead", lead.secret)).access_token)

    async def give(role: str, kind: str, scope: str) -> grpc.StatusCode:
        asked = api.AccessRule(holder_kind="subject", holder="anna", role=role, scope_kind=kind, scope=scope)
        call = here.access.GrantRole(api.GrantRoleRequest(rule=asked, idempotency_key=key()), metadata=as_lead)
        return await _code(call)

    assert await give("researcher", "project", "vision") is CODE.OK
    assert await give("system-admin", "tenant", "") is CODE.PERMISSION_DENIED
    assert await give("viewer", "project", "other") is CODE.NOT_FOUND
    assert await give("viewer", "department", "default") is CODE.NOT_FOUND
    seen = (await here.access.ListAccessRules(api.ListAccessRulesRequest(), metadata=as_lead)).rules
    assert {(one.holder_kind, one.role) for one in seen} == {
        ("application", "project-admin"),
        ("subject", "researcher"),
    }
    taken = here.access.RevokeRole(api.RevokeRoleRequest(id=rule.id, idempotency_key=key()), metadata=as_lead)
    assert await _code(taken) is CODE.PERMISSION_DENIED


async def test_applications_and_their_tokens(database: Any, kafka: str, tmp_path: Path) -> None:
    path = first_application(tmp_path)
    async with door(database, kafka, auth=AuthMode.JWT, auth_first_applications=(path,)) as here:
        await _a_token_reads_as_plain_base64_and_its_key_is_published(here, path)
        await _the_last_administrator_stays_and_nobody_gives_more_than_they_have(here, path)
        await _the_first_lets_others_in_and_a_revoked_one_is_out_at_once(here, path)
        await _keys_are_renewed_and_the_one_before_still_verifies(here, path)


async def test_what_was_revoked_does_not_come_back_with_the_next_start(
    database: Any, kafka: str, tmp_path: Path
) -> None:
    path, other = first_application(tmp_path), first_application(tmp_path, "second")
    more = {"auth": AuthMode.JWT, "auth_first_applications": (path, other)}
    async with door(database, kafka, **more) as here:
        who = await admin(here, other)
        ended = api.RevokeApplicationRequest(application="admin", idempotency_key=key())
        await here.access.RevokeApplication(ended, metadata=who)
    async with door(database, kafka, **more) as here:
        client, secret = first_of(path)
        assert await _code(issue(here, client, secret)) is CODE.UNAUTHENTICATED
        assert await _code(here.access.WhoAmI(api.WhoAmIRequest(), metadata=await admin(here, other))) is CODE.OK
        await _an_unknown_application_and_a_wrong_secret_get_one_answer(here, other)

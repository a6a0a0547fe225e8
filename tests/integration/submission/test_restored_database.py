"""A PostgreSQL that is restored from before a rotation: what counts, what is refused, what is sealed again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc

from muster.api.v1 import access_pb2 as api
from muster.api.v1 import tenancy_pb2, workloads_pb2
from muster_chassis.settings import AuthMode
from tests.integration.submission.test_applications import admin, bearer, first_application, first_of, issue
from tests.integration.submission.test_secrets import git, key_line
from tests.support.doors import PROJECT, Door, door, key
from tests.support.restoring import copied
from tests.support.waiting import eventually

CODE = grpc.StatusCode
Metadata = Any


async def _answer(here: Door, who: Metadata) -> grpc.StatusCode:
    try:
        await here.access.WhoAmI(api.WhoAmIRequest(), metadata=who)
    except grpc.aio.AioRpcError as error:
        return error.code()
    return CODE.OK


async def _submitted(here: Door, who: Metadata, password: str) -> str:
    draft = workloads_pb2.WorkloadDraft(project=PROJECT, spec=git(password, name=f"with-{password}"))
    asked = workloads_pb2.SubmitWorkloadRequest(draft=draft, idempotency_key=key())
    return str((await here.workloads.SubmitWorkload(asked, metadata=who)).workload.id)


async def _sealed_with(here: Door) -> list[str]:
    return [row["key"] for row in await here.app.database.pool.fetch("SELECT DISTINCT key FROM secrets")]


async def test_a_database_from_before_a_rotation_works_with_the_keys_of_today(
    database: Any, kafka: str, tmp_path: Path, postgres_server: Any
) -> None:
    keys, path = tmp_path / "keys", first_application(tmp_path)
    keys.touch(0o600)
    keys.write_text(key_line("k1"))
    more = {"auth": AuthMode.JWT, "auth_first_applications": (path,), "secret_keys_file": keys}
    async with door(database, kafka, **more) as here:
        before = await admin(here, path)
        await here.tenancy.CreateProject(
            tenancy_pb2.CreateProjectRequest(name=PROJECT, idempotency_key=key()), metadata=before
        )
        await _submitted(here, before, "kept")
        assert await _sealed_with(here) == ["k1"]
    async with copied(database, postgres_server) as restored:
        keys.write_text(key_line("k2") + keys.read_text())
        async with door(database, kafka, **more) as here:
            await here.app.database.pool.execute("UPDATE signing_keys SET made_at = made_at - interval '31 days'")
            await here.app.access_parts.renew()
            client, _ = first_of(path)
            asked = api.RotateApplicationRequest(application=client)
            made = await here.access.RotateApplication(asked, metadata=await admin(here, path))
            after = bearer((await issue(here, client, made.secret)).access_token)
            assert await _answer(here, after) is CODE.OK
        async with door(restored, kafka, **more) as here:
            assert await _answer(here, before) is CODE.OK
            assert await _answer(here, after) is CODE.UNAUTHENTICATED
            again = await admin(here, path)  # the secret of the backup counts
            assert await _answer(here, again) is CODE.OK
            await eventually(lambda: _sealed_with(here), lambda found: found == ["k2"])
            await _submitted(here, again, "more")
            assert await _sealed_with(here) == ["k2"]

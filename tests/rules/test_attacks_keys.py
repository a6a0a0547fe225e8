"""The attacks on rights and credentials: each is held, and works once the part that prevents it is taken out."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from muster.api.v1 import access_pb2 as api
from muster.api.v1 import fleet_pb2, tenancy_pb2
from muster.api.v1.fleet_pb2_grpc import FleetServiceStub
from muster_chassis.errors import Unauthenticated
from muster_chassis.health import Health
from muster_chassis.rpc import Server, ServiceName, caller, everyone_is_local, internal_server
from muster_chassis.rpc.refused_calls import RefusedCalls
from muster_chassis.settings import AuthMode
from muster_client.login import read_application
from muster_scheduler import app as scheduler_app
from muster_stack import credentials
from muster_stack.layout import Layout
from muster_submission.domain.refreshing import RefreshToken, Rotate
from muster_submission.handlers import applications, triggers
from muster_submission.handlers.runs import Runs
from muster_submission.rpc import agent_gateway
from tests.attacks.attack import Actor, Verdict
from tests.attacks.rows import a04_services, a11_run_as, a13_refresh_tokens
from tests.attacks.stage import Stage
from tests.support import identities
from tests.support.doors import Door, door, key
from tests.support.scheduling import scheduler
from tests.support.waiting import eventually

PROJECT = "ours"


async def _token(here: Door, application: str, secret: str) -> str:
    asked = api.IssueTokenRequest(application=application, secret=secret)
    return str((await here.tokens.IssueToken(asked)).access_token)


async def _project_admin(here: Door, administrator: str) -> str:
    """A token of an application that is admin of PROJECT and of nothing else."""
    who = (("authorization", f"Bearer {administrator}"),)
    await here.tenancy.CreateProject(
        tenancy_pb2.CreateProjectRequest(name=PROJECT, idempotency_key=key()), metadata=who
    )
    name = f"lead-{secrets.token_hex(4)}"
    made = await here.access.CreateApplication(api.CreateApplicationRequest(name=name), metadata=who)
    rule = api.AccessRule(
        holder_kind="application",
        holder=made.application.id,
        role="project-admin",
        scope_kind="project",
        scope=PROJECT,
    )
    await here.access.GrantRole(api.GrantRoleRequest(rule=rule, idempotency_key=key()), metadata=who)
    return await _token(here, name, made.secret)


@asynccontextmanager
async def _stage(database: Any, kafka: str, folder: Path) -> AsyncIterator[tuple[Stage, Door]]:
    layout = Layout(folder)
    files = tuple(credentials.ensure(layout))
    async with door(database, kafka, auth=AuthMode.JWT, auth_first_applications=files) as here:
        administrator = await _token(here, *read_application(credentials.administrator(layout)))
        tokens = {Actor.PROJECT_ADMIN: await _project_admin(here, administrator)}
        assert here.app.settings.rest_listen is not None
        yield (
            Stage(
                folder=str(folder),
                grpc=here.app.settings.grpc_listen,
                rest=here.app.settings.rest_listen,
                bootstrap=kafka,
                services={},
                tokens=tokens,
                project=PROJECT,
                other_project="theirs",
                admin_token=administrator,
            ),
            here,
        )


async def _minute_later(here: Door) -> None:
    await here.app.database.pool.execute("UPDATE refresh_tokens SET rotated_at = rotated_at - interval '1 minute'")


def _always_new(_token: RefreshToken, _now: datetime) -> Rotate:
    return Rotate()


async def test_attacks_with_copied_tokens_and_borrowed_rights_are_held(
    database: Any, kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _stage(database, kafka, tmp_path) as (stage, here):
        monkeypatch.setattr(a13_refresh_tokens, "let_time_pass", lambda _stage: _minute_later(here))
        for attack in (*a11_run_as.ATTACKS, *a13_refresh_tokens.ATTACKS):
            verdict = await attack.run(stage)
            assert verdict.held, f"{attack.name}: {verdict.evidence}"


async def test_without_rotation_a_copied_refresh_token_lives_on(
    database: Any, kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applications, "judge", _always_new)
    async with _stage(database, kafka, tmp_path) as (stage, here):
        monkeypatch.setattr(a13_refresh_tokens, "let_time_pass", lambda _stage: _minute_later(here))
        for attack in a13_refresh_tokens.ATTACKS:
            assert not (await attack.run(stage)).held, attack.name


async def test_without_the_comparison_of_rights_a_trigger_acts_for_an_admin(
    database: Any, kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def anyone(_self: Runs, _run_as: str) -> Any:
        raise Unauthenticated("not asked")

    async def no_comparison(_self: triggers.Rules, _run_as: str, _rights: Any) -> None:
        return

    monkeypatch.setattr(Runs, "of_run_as", anyone)
    monkeypatch.setattr(triggers.Rules, "_require_within", no_comparison)
    async with _stage(database, kafka, tmp_path) as (stage, _here):
        for attack in a11_run_as.ATTACKS:
            assert not (await attack.run(stage)).held, attack.name


BEHIND = [each for each in a04_services.ATTACKS if each not in (a04_services.GATEWAY, a04_services.AUDIT)]


def _open_stage(here: Door, kafka: str, folder: Path) -> Stage:
    return Stage(
        folder=str(folder),
        grpc=here.app.settings.grpc_listen,
        rest="",
        bootstrap=kafka,
        services={},
        tokens={},
        project=PROJECT,
        other_project="theirs",
    )


async def test_without_the_agents_token_any_local_process_asks_for_credentials(
    database: Any, kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with door(database, kafka) as here:
        stage = _open_stage(here, kafka, tmp_path)
        assert (await a04_services.GATEWAY.run(stage)).held
        monkeypatch.setattr(agent_gateway, "_agent", caller)
        assert not (await a04_services.GATEWAY.run(stage)).held


@asynccontextmanager
async def _scheduler_stage(database: Any, kafka: str) -> AsyncIterator[Stage]:
    """A leading scheduler alone, at whose address telemetry's dead letters are asked for too."""
    async with scheduler(database.url("scheduler"), kafka) as candidate:
        address = candidate.runtime.settings.grpc_listen  # type: ignore[attr-defined]
        await eventually(lambda: _leads(address))
        yield Stage(
            folder=str(identities.layout().root),
            grpc="",
            rest="",
            bootstrap=kafka,
            services={"scheduler.grpc": address, "telemetry.grpc": address},
            tokens={Actor.PROJECT_ADMIN: "a.b.c"},
            project=PROJECT,
            other_project="theirs",
        )


async def _leads(address: str) -> bool:
    async with identities.channel_to(ServiceName.SCHEDULER, address) as channel:
        try:
            await FleetServiceStub(channel).ListClusters(fleet_pb2.ListClustersRequest(), wait_for_ready=True)
        except grpc.aio.AioRpcError as error:
            assert error.code() is grpc.StatusCode.UNAVAILABLE, error
            return False
    return True


async def test_attacks_on_the_services_behind_submission_are_held(database: Any, kafka: str) -> None:
    async with _scheduler_stage(database, kafka) as stage:
        for attack in BEHIND:
            verdict = await attack.run(stage)
            assert verdict.held, f"{attack.name}: {verdict.evidence}"


async def test_without_the_gate_any_local_process_commands_the_scheduler(
    database: Any, kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_gate(settings: Any, _name: Any, served: Any, health: Any) -> Server:
        return Server(settings, served, health, everyone_is_local)

    monkeypatch.setattr(scheduler_app, "internal_server", no_gate)
    async with _scheduler_stage(database, kafka) as stage:
        for attack in BEHIND:
            assert not (await attack.run(stage)).held, attack.name


async def _flooded(database: Any, kafka: str, folder: Path) -> Verdict:
    """What comes of refused calls at a service that submission asks for them."""
    settings: Any = SimpleNamespace(
        trust_file=identities.trust_file(), grpc_listen="127.0.0.1:0", call_limits={}, ports_reserved=False
    )
    server = internal_server(settings, ServiceName.POLICY, [], Health())
    await server.start()
    address = f"127.0.0.1:{server.port}"
    try:
        async with door(database, kafka, policy_address=address) as here:
            stage = replace(_open_stage(here, kafka, folder), services={"scheduler.grpc": address})
            return await a04_services.AUDIT.run(stage)
    finally:
        await server.stop(0)


async def test_a_flood_of_refused_calls_is_a_line_of_the_audit(database: Any, kafka: str, tmp_path: Path) -> None:
    verdict = await _flooded(database, kafka, tmp_path)
    assert verdict.held, verdict.evidence
    assert "are 1 lines" in verdict.evidence or "are 2 lines" in verdict.evidence


async def test_with_a_line_for_each_refused_call_anyone_fills_the_audit(
    database: Any, kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def note(ledger: Any, method: str, caller: str, _peer: str, reason: str) -> None:
        ledger._counts[method, caller, str(len(ledger._counts)), reason] = 1
        ledger._next = 0.0

    monkeypatch.setattr(RefusedCalls, "note", note)
    assert not (await _flooded(database, kafka, tmp_path)).held

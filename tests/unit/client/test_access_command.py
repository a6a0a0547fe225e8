"""The verbs about who may do what, and logging in with an application's secret."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from muster.api.v1 import access_pb2 as api
from muster_client import Muster
from muster_client.cli.exits import Exit
from muster_client.cli.moments import moment
from muster_client.cli.render.access import caller
from muster_client.errors import InvalidInput, Unauthenticated, Unavailable
from muster_stack.processes import Identity, identify
from tests.support.plane_world import World
from tests.unit.client.conftest import Command


def test_a_role_is_given_listed_and_taken(muster: Command, world: World) -> None:
    given = muster("access", "grant", "researcher", "--group", "team", "--issuer", "https://one", "-p", "vision")
    assert (given.code, given.out) == (Exit.OK, "rule 1: group team of https://one is researcher in project vision\n")
    muster("access", "grant", "system-admin", "--user", "anna", "--tenant")
    muster("access", "grant", "viewer", "--application", "robot", "--department", "research")
    wanted = [(rule.holder_kind, rule.role, rule.scope_kind, rule.scope) for rule in world.access.rules.values()]
    assert wanted == [
        ("group", "researcher", "project", "vision"),
        ("subject", "system-admin", "tenant", ""),
        ("application", "viewer", "department", "research"),
    ]
    listed = muster("access", "list")
    assert "the whole tenant" in listed.out
    assert len(json.loads(muster("access", "list", "--json").out)) == 3
    gone = muster("access", "revoke", "2")
    assert gone.out == "rule 2 is gone: user anna is system-admin in the whole tenant\n"
    assert muster("access", "revoke", "2").code == Exit.NOT_FOUND


@pytest.mark.parametrize(
    "words",
    [
        ("grant", "viewer", "-p", "vision"),
        ("grant", "viewer", "--user", "a", "--group", "b", "-p", "vision"),
        ("grant", "viewer", "--user", "a"),
        ("grant", "viewer", "--user", "a", "--tenant", "--cluster", "east"),
        ("revoke", "0"),
    ],
)
def test_what_is_not_said_in_full_changes_nothing(muster: Command, world: World, words: tuple[str, ...]) -> None:
    assert muster("access", *words).code == Exit.INVALID
    assert not world.asked("GrantRole")


def test_who_one_is_and_what_one_may_do(muster: Command, world: World) -> None:
    assert "authentication is switched off" in muster("access", "whoami").out

    assert muster("access", "can", "workloads.read", "-p", "vision").out == "yes\n"
    refused = muster("access", "can", "workloads.delete", "--cluster", "east")
    assert (refused.code, refused.out) == (Exit.NOT_ALLOWED, "no\n")
    asked = world.asked("CanI")
    assert [(one.project, one.cluster) for one in asked] == [("vision", ""), ("", "east")]


def test_an_applications_secret_is_shown_once(muster: Command) -> None:
    made = muster("applications", "create", "nightly")
    assert "the secret" in made.out
    assert "kept nowhere" in made.err
    assert json.loads(muster("applications", "rotate", "nightly", "--json").out)["secret"] == "another secret"
    assert "secret" not in muster("applications", "list").out
    assert muster("applications", "revoke", "nightly").out == "application nightly (id-1) has ended\n"


def test_the_audit_is_told_whole_however_narrow_the_terminal(muster: Command, world: World) -> None:
    entry = api.AuditEntry(
        subject="0" * 36,
        subject_name="nightly",
        verb="workloads.create",
        target="1" * 36,
        project="vision",
        outcome="PERMISSION_DENIED",
        channel="rest",
        peer="10.0.0.1",
    )
    entry.at.FromDatetime(datetime(2026, 1, 31, tzinfo=UTC))
    world.access.entries.append(entry)
    line = muster("audit", "--since", "12h", "--who", "nightly", "--what", "workloads").out
    for word in ("nightly", "workloads.create", "1" * 36, "vision", "PERMISSION_DENIED", "rest 10.0.0.1"):
        assert word in line
    (asked,) = world.asked("ListAudit")
    assert (asked.who, asked.what) == ("nightly", "workloads")
    assert json.loads(muster("audit", "--json").out)[0]["verb"] == "workloads.create"
    assert muster("audit", "--since", "soon").code == Exit.INVALID
    assert muster("audit", "--limit", "0").code == Exit.INVALID


def test_how_long_ago_is_said_in_several_ways() -> None:
    now = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert moment("90s", now) == now - timedelta(seconds=90)
    assert moment("7d", now) == now - timedelta(days=7)
    assert moment("2026-01-30T12:00:00+00:00", now) == now - timedelta(days=1)
    assert moment("2026-01-30T12:00", now, zone=UTC) == now - timedelta(days=1)
    assert moment("2026-01-30T13:00:00+01:00", now, zone=UTC) == now - timedelta(days=1)
    with pytest.raises(InvalidInput):
        moment("999999d9", now)


def _application(folder: Path, secret: str = "s" * 40) -> Path:
    path = folder / "application.json"
    path.write_text(json.dumps({"id": "app", "secret": secret, "role": "system-admin"}))
    return path


async def test_one_login_serves_many_calls_and_clients(
    server: str, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.access.secrets["app"] = "s" * 40
    monkeypatch.setenv("MUSTER_APPLICATION", str(_application(tmp_path)))
    for _ in range(2):
        async with Muster(server) as muster:
            await muster.access.who_am_i()
            await muster.access.who_am_i()
    assert len(world.asked("IssueToken")) == 1
    kept = tmp_path / "application.token"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert "s" * 40 not in kept.read_text()


async def test_a_token_that_was_refused_is_asked_for_anew_once(
    server: str, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.access.secrets["app"] = "s" * 40
    path = _application(tmp_path)
    monkeypatch.setenv("MUSTER_APPLICATION", str(path))
    async with Muster(server) as muster:
        await muster.access.who_am_i()
        world.access.tokens.clear()
        world.access.tokens.add("another")
        await muster.access.who_am_i()
        world.access.secrets["app"] = "t" * 40
        world.access.tokens.clear()
        with pytest.raises(Unauthenticated, match="secret is wrong"):
            await muster.access.who_am_i()
    path.write_text("no json")
    async with Muster(server) as muster:
        with pytest.raises(InvalidInput, match="no application"):
            await muster.access.who_am_i()


async def test_the_local_stacks_secret_goes_to_no_other_server(
    server: str, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.access.secrets["app"] = "s" * 40
    home = tmp_path / "home"
    home.mkdir()
    state: dict[str, object] = {
        "services": {"submission": {"grpc": server}},
        "application": str(_application(home)),
        "keeper": asdict(identify(os.getpid()) or Identity(0, 0)),
    }
    (home / "stack.json").write_text(json.dumps(state))
    async with Muster() as muster:
        assert (await muster.access.who_am_i()).subject == "anna"
    async with Muster(server) as muster:
        with pytest.raises(Unauthenticated):
            await muster.access.who_am_i()
    monkeypatch.setenv("MUSTER_SERVER", server)
    async with Muster() as muster:
        with pytest.raises(Unauthenticated):
            await muster.access.who_am_i()
    assert len(world.asked("IssueToken")) == 1


@pytest.mark.parametrize("keeper", [None, {"pid": os.getpid(), "started": 1}, {"pid": 0, "started": 0}])
async def test_no_secret_goes_to_the_port_of_a_stack_whose_keeper_is_gone(
    server: str, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keeper: dict[str, int] | None
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("MUSTER_HOME", str(home))
    state = {"services": {"submission": {"grpc": server}}, "application": str(_application(home)), "keeper": keeper}
    (home / "stack.json").write_text(json.dumps(state))
    with pytest.raises(Unavailable, match="does not run"):
        async with Muster() as muster:
            await muster.access.who_am_i()
    assert not world.asked("IssueToken")


def test_an_application_is_called_by_its_name() -> None:
    me = api.WhoAmIResponse(subject="0192d3c4-0000-7000-8000-000000000000", subject_name="nightly")
    assert caller(me).startswith("application nightly (0192d3c4-0000-7000-8000-000000000000)")

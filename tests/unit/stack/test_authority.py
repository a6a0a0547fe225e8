"""The stack's own authority: what it signs is served and trusted, also across a rotation."""

from __future__ import annotations

import json
import stat
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from muster_chassis.certificates import read_pair
from muster_chassis.health import Health
from muster_chassis.rpc import Server, ServerTls, Target, everyone_is_local
from muster_stack import authority, identities, sealing_keys
from muster_stack.errors import StackError
from muster_stack.keys import app
from muster_stack.layout import Layout


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path)


async def trusted(made: authority.Issued, ca: Path) -> bool:
    """Whether a client that trusts `ca` is served with the certificate."""
    settings: Any = SimpleNamespace(grpc_listen="127.0.0.1:0", call_limits={}, ports_reserved=False)
    server = Server(settings, [], Health(), everyone_is_local)
    await server.start(ServerTls(made.certificate, made.key))
    found = False
    async with Target(f"127.0.0.1:{server.port}", secured=True, ca=ca).channel() as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        with suppress(grpc.aio.AioRpcError):
            await stub.Check(health_pb2.HealthCheckRequest(), timeout=10)
            found = True
    await server.stop(0)
    return found


async def test_clients_trust_what_the_authority_signs_before_and_after_a_rotation(
    layout: Layout, tmp_path: Path
) -> None:
    first, old = authority.issue(layout, ["localhost", "127.0.0.1"]), tmp_path / "old.crt"
    old.write_bytes(first.authority.read_bytes())
    assert await trusted(first, old)
    both = authority.rotate(layout)
    assert await trusted(first, both)  # clients are given the new file while the old certificate is served
    second = authority.issue(layout, [])
    assert second.hosts == first.hosts
    assert await trusted(second, both)
    assert not await trusted(second, old)
    authority.rotate(layout)
    authority.issue(layout, [])
    assert both.read_text().count("BEGIN CERTIFICATE") == 2
    assert not await trusted(second, old)


def test_keys_are_the_owners_alone_and_submission_takes_the_pair(layout: Layout) -> None:
    made = authority.issue(layout, ["muster.example.org", "10.0.0.7", "::1"])
    assert read_pair(made.certificate, made.key).expires == made.expires
    assert stat.S_IMODE(layout.tls.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in layout.tls.glob("*.key")} == {0o600}


@pytest.mark.parametrize("host", ["", "https://h", "h:7070", "a b", "-h", "h" * 254, "*"])
def test_what_is_not_a_host_is_refused_and_nothing_is_made(host: str, layout: Layout) -> None:
    with pytest.raises(StackError, match="is not a host"):
        authority.issue(layout, ["good.example.org", host])
    assert not layout.tls.exists()


def test_a_rotation_that_was_cut_short_leaves_a_working_authority(layout: Layout) -> None:
    authority.issue(layout, ["h"])
    before = (layout.tls / "authority.key").read_bytes()
    authority.rotate(layout)
    (layout.tls / "authority.key").write_bytes(before)  # the file of certificates is written first
    assert authority.issue(layout, []).hosts == ("h",)


def test_what_is_missing_or_damaged_is_said(layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(StackError, match="has no authority: `muster keys certificate HOST` makes one"):
        authority.rotate(layout)
    with pytest.raises(StackError, match="no host was given, and there is no certificate to renew"):
        authority.issue(layout, [])
    (layout.tls / "authority.key").write_text("damaged")
    assert app(["certificate", "h", "--data", str(layout.root)], result_action="return_value") == 1
    assert "cannot be read" in capsys.readouterr().err


def test_the_verb_says_what_to_set(layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    assert app(["certificate", "h", "--data", str(layout.root)], result_action="return_value") == 0
    said = capsys.readouterr().out
    assert f"MUSTER_TLS_KEY_FILE={layout.tls / 'server.key'}" in said
    assert str(authority.authority_file(layout)) in said
    assert app(["rotate", "ca", "--data", str(layout.root)], result_action="return_value") == 0


def test_the_list_of_keys_has_the_authority_and_its_end(layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    assert authority.list_keys(layout) == []
    made = authority.issue(layout, ["h", "10.0.0.7"])
    authority.rotate(layout)
    found = authority.list_keys(layout)
    assert [(one.kind, one.holder, one.state) for one in found] == [
        ("ca", "clients", "signs"),
        ("ca", "clients", "verifies"),
        ("certificate", "h, 10.0.0.7", "serves"),
    ]
    assert found[2].until == f"{made.expires:%Y-%m-%dT%H:%M:%SZ}"
    assert found[0].until > found[2].until > found[2].since
    later = authority.list_keys(layout, made.expires + timedelta(days=1))
    assert [one.state for one in later] == ["signs", "verifies", "expired"]
    identities.ensure(layout)
    sealing_keys.ensure(layout.sealing_keys)
    assert app(["list", "--json", "--data", str(layout.root)], result_action="return_value") == 0
    shown = json.loads(capsys.readouterr().out)
    assert [one["until"] for one in shown if one["kind"] == "ca"] == [one.until for one in found[:2]]
    assert app(["list", "--data", str(layout.root)], result_action="return_value") == 0
    assert "UNTIL" in capsys.readouterr().out

"""TLS on gRPC: a real server and real channels, unusable files, and files that are replaced while it serves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from grpc_health.v1 import health_pb2, health_pb2_grpc
from pydantic import ValidationError
from structlog.testing import capture_logs

from muster_chassis.certificates import read_pair
from muster_chassis.health import Health
from muster_chassis.key_files import KeyFileError
from muster_chassis.rpc import Server, ServerTls, Target, everyone_is_local, server_tls
from muster_chassis.settings import TlsSettings
from tests.support.certificates import Authority, Files, authority


@pytest.fixture
def ours(tmp_path: Path) -> Authority:
    return authority(tmp_path / "ours.crt")


@asynccontextmanager
async def serving(tls: ServerTls | None) -> AsyncIterator[str]:
    settings: Any = SimpleNamespace(grpc_listen="127.0.0.1:0", call_limits={}, ports_reserved=False)
    server = Server(settings, [], Health(), everyone_is_local)
    await server.start(tls)
    try:
        yield f"127.0.0.1:{server.port}"
    finally:
        await server.stop(0)


async def ask(target: Target) -> str:
    """What a call says: "ok", or why it failed."""
    try:
        async with target.channel() as channel:
            stub: Any = health_pb2_grpc.HealthStub(channel)
            await stub.Check(health_pb2.HealthCheckRequest(), timeout=10)
    except grpc.aio.AioRpcError as error:
        return target.explain(error)
    return "ok"


async def test_a_client_that_trusts_the_authority_is_served_and_others_are_told_why(
    ours: Authority, tmp_path: Path
) -> None:
    other = authority(tmp_path / "other.crt")
    async with serving(ServerTls(*ours.issue(tmp_path))) as address:
        assert await ask(Target(address, secured=True, ca=ours.file)) == "ok"
        assert "no trusted authority signed" in await ask(Target(address, secured=True, ca=other.file))
        assert "no trusted authority signed" in await ask(Target(address, secured=True))
        assert "if it serves TLS, set MUSTER_SUBMISSION_CA_FILE" in await ask(Target(address))
    async with serving(None) as address:
        assert await ask(Target(address)) == "ok"
        assert "the server does not serve TLS" in await ask(Target(address, secured=True, ca=ours.file))


async def test_a_certificate_for_another_host_is_refused(ours: Authority, tmp_path: Path) -> None:
    async with serving(ServerTls(*ours.issue(tmp_path, host="127.0.0.2"))) as address:
        assert "for other names than this address" in await ask(Target(address, secured=True, ca=ours.file))


async def test_replaced_files_count_for_new_connections_and_damaged_ones_do_not(
    ours: Authority, tmp_path: Path
) -> None:
    now, new = [0.0], authority(tmp_path / "new.crt")
    files = ours.issue(tmp_path)
    async with serving(ServerTls(*files, clock=lambda: now[0])) as address:
        old_target, new_target = (Target(address, secured=True, ca=one.file) for one in (ours, new))
        assert await ask(old_target) == "ok"
        new.issue(tmp_path)
        now[0] += 2
        assert await ask(new_target) == "ok"
        assert "no trusted authority signed" in await ask(old_target)
        ours.issue(tmp_path, days=(-2, -1))
        now[0] += 2
        with capture_logs() as logged:
            assert await ask(new_target) == "ok"
        assert ["expired at" in line["error"] for line in logged if line["log_level"] == "error"] == [True]


def _missing(files: Files, ours: Authority) -> None:
    files.certificate.unlink()


def _expired(files: Files, ours: Authority) -> None:
    ours.issue(files.key.parent, days=(-2, -1))


def _future(files: Files, ours: Authority) -> None:
    ours.issue(files.key.parent, days=(1, 2))


def _of_another(files: Files, ours: Authority) -> None:
    kept = files.certificate.read_bytes()
    ours.issue(files.key.parent)
    files.certificate.write_bytes(kept)


def _shared(files: Files, ours: Authority) -> None:
    files.key.chmod(0o644)


def _swapped(files: Files, ours: Authority) -> None:
    files.certificate.write_bytes(files.key.read_bytes())


def _no_key(files: Files, ours: Authority) -> None:
    files.key.write_bytes(files.certificate.read_bytes())


def _odd_key(files: Files, ours: Authority) -> None:
    ours.issue(files.key.parent, key=ed25519.Ed25519PrivateKey.generate())


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_missing, "server.crt cannot be read"),
        (_expired, "server.crt holds a certificate that expired at .*: renew it"),
        (_future, "server.crt holds a certificate that is valid from"),
        (_of_another, "server.key is not the key of the certificate in .*server.crt"),
        (_shared, "server.key holds a secret and has mode 0644"),
        (_swapped, "server.crt holds no certificate"),
        (_no_key, "server.key holds no private key"),
        (_odd_key, "server.key holds a key of a kind"),
    ],
)
def test_unusable_files_are_named_at_the_start(damage: Any, message: str, ours: Authority, tmp_path: Path) -> None:
    files = ours.issue(tmp_path / "server")
    damage(files, ours)
    with pytest.raises(KeyFileError, match=message):
        read_pair(*files)
    with pytest.raises(ValidationError, match=message):
        TlsSettings(tls_certificate_file=files.certificate, tls_key_file=files.key)


def test_one_file_without_the_other_is_refused(ours: Authority, tmp_path: Path) -> None:
    files = ours.issue(tmp_path)
    with pytest.raises(ValidationError, match="MUSTER_TLS_KEY_FILE is not set"):
        TlsSettings(tls_certificate_file=files.certificate)
    with pytest.raises(ValidationError, match="MUSTER_TLS_CERTIFICATE_FILE is not set"):
        TlsSettings(tls_key_file=files.key)


@pytest.mark.parametrize(
    ("listen", "lines"), [("127.0.0.1:1", 0), ("[::1]:1", 0), ("localhost:1", 0), ("0.0.0.0:1", 1), ("[::]:1", 1)]
)
def test_plain_grpc_beyond_the_loopback_is_one_warning(listen: str, lines: int) -> None:
    settings = SimpleNamespace(grpc_listen=listen, tls_certificate_file=None, tls_key_file=None)
    with capture_logs() as logged:
        assert server_tls(settings) is None
        Target(listen).warn()
        Target(listen, secured=True).warn()
    assert len([line for line in logged if line["log_level"] == "warning"]) == 2 * lines

"""TLS to the control plane, as a program asks for it: a good connection, and each way to have none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from muster_chassis.rpc import ServerTls
from muster_client import InvalidInput, Muster, Patience, Unavailable
from muster_client.address import find_application, find_server
from muster_client.logins import Application, store
from tests.support.certificates import Authority, authority
from tests.support.control_plane import control_plane

ONCE = Patience(attempt=10, whole=0)
ID = "11111111-1111-4111-8111-111111111111"


@pytest.fixture
def ours(tmp_path: Path) -> Authority:
    return authority(tmp_path / "ours.crt")


@pytest.fixture
def secured(ours: Authority, tmp_path: Path) -> Iterator[str]:
    with control_plane(ServerTls(*ours.issue(tmp_path)).credentials()) as (address, _world):
        yield address


async def projects(server: str) -> list[str]:
    async with Muster(server, patience=ONCE) as muster:
        return [project.name async for project in muster.projects.list()]


@pytest.mark.parametrize("scheme", ["https://", ""])
async def test_an_authority_or_https_asks_for_tls(
    secured: str, ours: Authority, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_SERVER_CA", str(ours.file))
    assert await projects(scheme + secured)


async def test_what_is_wrong_with_the_connection_is_said(
    secured: str, ours: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Unavailable, match=f"if it serves TLS, name it as https://{secured}"):
        await projects(secured)
    with pytest.raises(Unavailable, match="no trusted authority signed the server's certificate; name the authority"):
        await projects(f"https://{secured}")
    monkeypatch.setenv("MUSTER_SERVER_CA", str(ours.file))
    with control_plane() as (plain, _world), pytest.raises(Unavailable, match="the server does not serve TLS; name it"):
        await projects(plain)


@pytest.mark.parametrize(
    ("days", "message"), [(None, "cannot be read"), ((-3, -2), "the authority's certificate is valid from")]
)
def test_unusable_authorities_are_named(
    tmp_path: Path, days: tuple[int, int] | None, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "authority.crt"
    if days:
        authority(file, days)
    monkeypatch.setenv("MUSTER_SERVER_CA", str(file))
    with pytest.raises(InvalidInput, match=f"MUSTER_SERVER_CA={file}.*{message}"):
        Muster("muster.example.org:7070")


def test_a_login_by_tls_is_never_used_in_clear(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    store("https://muster.example.org:7070", Application(ID, "secret"), current=False)
    assert find_application("muster.example.org:7070") is None
    assert find_application("https://muster.example.org:7070/") is not None
    monkeypatch.setenv("MUSTER_SERVER_CA", str(tmp_path / "ca.crt"))
    assert find_server("muster.example.org:7070") == "https://muster.example.org:7070"
    assert find_application("muster.example.org:7070") is not None


def test_http_is_not_an_address_of_grpc() -> None:
    with pytest.raises(InvalidInput, match="give h:1, or https://h:1 for TLS"):
        find_server("http://h:1/")

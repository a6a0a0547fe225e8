"""The client of an API server: what it reads, and through which proxy it calls."""

from __future__ import annotations

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes_asyncio.client import Configuration

from muster_cluster_agent.adapters.kubernetes.client import Client, _proxy_of, decoded


@pytest.mark.parametrize("text", [b"", b"{", b"not json", b'{"a": }', b"\xff"])
def test_what_is_no_json_is_a_value_error(text: bytes) -> None:
    with pytest.raises(ValueError, match="no JSON"):
        decoded(text)


def test_json_is_read_as_it_is() -> None:
    assert decoded('{"a": [1, "ü", null]}'.encode()) == {"a": [1, "ü", None]}


@pytest.mark.parametrize(
    ("address", "proxy"),
    [
        ("https://api.example:6443", "http://proxy.example:3128"),
        ("http://api.example", None),
        ("https://inside.example", None),
        ("https://10.0.0.1", "http://proxy.example:3128"),
    ],
)
def test_the_environment_names_the_proxy(monkeypatch: pytest.MonkeyPatch, address: str, proxy: str | None) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "inside.example")
    assert _proxy_of(address) == proxy


async def test_a_call_goes_through_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.raw_path)
        return web.json_response({"kind": "Status"})

    proxy = web.Application()
    proxy.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(proxy) as server:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.port}")
        monkeypatch.setenv("no_proxy", "")
        how = Configuration()
        how.host = "http://api.example:8080"
        async with Client(how, rate=100, burst=100) as client:
            assert await client.get("/version") == {"kind": "Status"}
    assert asked == ["http://api.example:8080/version"]

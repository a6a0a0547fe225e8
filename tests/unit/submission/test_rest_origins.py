"""What a browser was made to send is refused before anything of it is read; what programs send is not."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response

from muster_chassis.rpc import everyone_is_local
from muster_submission.rest.answers import answer
from muster_submission.rest.edge import Edge
from muster_submission.rest.operation import Answer, Body, Operation, Shape
from muster_submission.rest.origins import MEDIA_TYPES, Origins

THING = Shape("Thing", {"type": "object"})
JSON = {"content-type": "application/json"}
ALLOWING = {"access-control-allow-origin", "access-control-allow-methods", "access-control-allow-headers"}


class Writes:
    """A handler that counts what it did."""

    def __init__(self) -> None:
        self.done = 0

    async def __call__(self, request: Request) -> Response:
        await request.body()
        self.done += 1
        return answer({"done": self.done})


@pytest.fixture
def writes() -> Writes:
    return Writes()


def client(writes: Writes, *public: str) -> httpx.AsyncClient:
    answers = {200: Answer("It.", THING)}
    operations = [
        Operation("POST", "/x", "post_x", "t", "X", writes, answers, body=Body(THING)),
        Operation("DELETE", "/x", "delete_x", "t", "X", writes, answers),
        Operation("GET", "/x", "get_x", "t", "X", writes, answers),
        Operation("POST", "/apis/g/x", "post_g", "t", "X", writes, answers, body=Body(THING)),
    ]
    edge = Edge(operations, everyone_is_local, origins=Origins(public))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=edge), base_url="http://10.1.2.3:7071")


OURS = [
    "127.0.0.1:7071",
    "127.0.0.1:9000",
    "localhost",
    "LocalHost:7071",
    "[::1]:7071",
    "app.localhost:80",
    "10.1.2.3:7071",
    "muster.example.com",
    "muster.example.com:443",
    "other.example.com:8443",
]
FOREIGN = [
    "evil.example",
    "evil.example:7071",
    "127.0.0.1.evil.example:7071",
    "localhost.evil.example",
    "notlocalhost:7071",
    "10.1.2.3:7072",
    "10.1.2.4:7071",
    "other.example.com",
    "0.0.0.0:7071",
    "[::]:7071",
    "",
    "a b",
    "127.0.0.1:7071, evil.example",
    "evil.example@127.0.0.1",
]


@pytest.mark.parametrize("host", OURS)
async def test_hosts_of_ours(writes: Writes, host: str) -> None:
    async with client(writes, "muster.example.com", "other.example.com:8443") as http:
        assert (await http.get("/x", headers={"host": host})).status_code == 200
        origin = f"http://{host}"
        assert (await http.post("/x", json={}, headers={"host": host, "origin": origin})).status_code == 200


@pytest.mark.parametrize("host", FOREIGN)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
async def test_a_host_that_is_not_ours(writes: Writes, host: str, method: str) -> None:
    async with client(writes, "muster.example.com", "other.example.com:8443") as http:
        response = await http.request(method, "/x", content=b"{}", headers={"host": host} | JSON)
    assert (response.status_code, writes.done) == (403, 0)
    assert "MUSTER_PUBLIC_HOSTS" in response.json()["details"]


async def test_two_hosts_are_none(writes: Writes) -> None:
    async with client(writes) as http:
        headers = [("host", "127.0.0.1"), ("host", "evil.example")]
        assert (await http.get("/x", headers=headers)).status_code == 403


ORIGINS = [
    "http://evil.example",
    "https://evil.example:7071",
    "http://127.0.0.1:9999",
    "http://localhost:7071",
    "http://127.0.0.1.evil.example:7071",
    "null",
    "",
    "file://",
    "http://127.0.0.1:7071/path",
    "ftp://127.0.0.1:7071",
    "http://[",
    "http://user@127.0.0.1:7071",
]


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS"])
async def test_a_page_of_another_origin(writes: Writes, origin: str, method: str) -> None:
    async with client(writes) as http:
        response = await http.request(
            method, "/x", content=b"{}", headers={"host": "127.0.0.1:7071", "origin": origin} | JSON
        )
    assert (response.status_code, writes.done) == (403, 0)
    assert not ALLOWING & set(response.headers)


@pytest.mark.parametrize(
    ("site", "status"), [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)]
)
async def test_what_the_browser_says_of_the_page(writes: Writes, site: str, status: int) -> None:
    async with client(writes) as http:
        headers = {"host": "localhost:7071", "sec-fetch-site": site}
        assert (await http.post("/x", json={}, headers=headers)).status_code == status
        assert (await http.get("/x", headers=headers)).status_code == 200


async def test_a_page_behind_a_proxy_of_ours(writes: Writes) -> None:
    async with client(writes, "muster.example.com") as http:
        headers = {"host": "127.0.0.1:7071", "origin": "https://muster.example.com"}
        assert (await http.post("/x", json={}, headers=headers)).status_code == 200


async def test_a_preflight_allows_nothing(writes: Writes) -> None:
    async with client(writes) as http:
        headers = {"host": "127.0.0.1", "origin": "http://127.0.0.1", "access-control-request-method": "POST"}
        response = await http.options("/x", headers=headers)
    assert response.status_code == 405
    assert not ALLOWING & set(response.headers)


@pytest.mark.parametrize("media", [*MEDIA_TYPES, "Application/JSON; charset=utf-8"])
async def test_media_types_of_programs(writes: Writes, media: str) -> None:
    async with client(writes) as http:
        assert (await http.post("/x", content=b"{}", headers={"content-type": media})).status_code == 200


@pytest.mark.parametrize(
    "media",
    [
        "text/plain",
        "text/plain;application/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/grpc-web+proto",
        "application/grpc-web-text",
        "application/grpc",
        "",
        "*/*",
    ],
)
async def test_media_types_that_need_no_preflight_or_are_not_spoken(writes: Writes, media: str) -> None:
    async with client(writes) as http:
        response = await http.post("/x", content=b"{}", headers={"content-type": media})
        status = await http.post("/apis/g/x", content=b"{}", headers={"content-type": media})
        bodiless = await http.post("/x", headers={"content-type": media})
    assert (response.status_code, status.status_code, bodiless.status_code, writes.done) == (415, 415, 415, 0)
    assert "application/json" in response.json()["details"]
    assert status.json()["reason"] == "UnsupportedMediaType"


async def test_a_body_without_a_media_type_and_a_write_without_a_body(writes: Writes) -> None:
    async def pieces() -> Any:
        yield b"{}"

    async with client(writes) as http:
        assert (await http.post("/x", content=b"{}")).status_code == 415
        assert (await http.post("/x", content=pieces())).status_code == 415
        assert (await http.post("/x")).status_code == 200
        assert (await http.delete("/x")).status_code == 200

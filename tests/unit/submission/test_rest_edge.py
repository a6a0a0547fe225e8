"""The edge alone: routing, forms of errors, who calls, and the document that is written from the same list."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response

from muster_chassis.errors import (
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
    Violation,
)
from muster_chassis.rpc import Caller, caller
from muster_submission.rest.answers import answer
from muster_submission.rest.bodies import read_object
from muster_submission.rest.edge import Edge
from muster_submission.rest.openapi import document
from muster_submission.rest.operation import Answer, Body, Operation, Parameter, Shape
from muster_submission.rest.router import Router
from muster_submission.rest.routes.document import operations as pages

HEADERS = {"authorization": "Bearer good", "content-type": "application/json"}
THING = Shape("Thing", {"type": "object"})


def operation(path: str, handler: Any, method: Any = "GET", name: str = "", **more: Any) -> Operation:
    made = name or f"{method}{path}".replace("/", "_")
    return Operation(method, path, made, "things", "A thing", handler, {200: Answer("It.", THING)}, **more)


async def echo(request: Request) -> Response:
    who = caller()
    return answer({"who": who.subject, "by": who.channel, "values": dict(request.path_params)})


async def body(request: Request) -> Response:
    return answer(await read_object(request))


def raising(error: Exception) -> Any:
    async def handler(request: Request) -> Response:
        raise error

    return handler


async def authenticate(authorization: str | None) -> Caller:
    if authorization != "Bearer good":
        raise Unauthenticated("no token")
    return Caller("ann")


def client(*operations: Operation, longest: float = 5.0) -> httpx.AsyncClient:
    edge = Edge(operations, authenticate, longest)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=edge), base_url="http://127.0.0.1", headers=HEADERS)


async def test_a_handler_knows_who_calls_and_what_the_path_says() -> None:
    async with client(operation("/things/{id}", echo), operation("/apis/g/{id}", echo)) as http:
        response, other = await http.get("/things/7"), await http.get("/apis/g/7")
    assert response.json() == {"who": "ann", "by": "rest", "values": {"id": "7"}}
    assert other.json()["by"] == "kubernetes"


async def test_nobody_is_let_in_without_a_token_except_where_everyone_is() -> None:
    async with client(operation("/closed", echo), operation("/open", echo, public=True)) as http:
        closed = await http.get("/closed", headers={"authorization": ""})
        opened = await http.get("/open", headers={"authorization": ""})
    assert (closed.status_code, closed.json()["message"]) == (401, "Issuer is not familiar.")
    assert closed.headers["www-authenticate"] == "Bearer"
    assert opened.status_code == 200


async def test_a_literal_wins_over_an_id() -> None:
    router = Router([operation("/w/{id}", echo), operation("/w/count", echo), operation("/w/{id}/pods", echo)])
    assert router.find("GET", "/w/count")[0].path == "/w/count"
    assert router.find("GET", "/w/x/")[1] == {"id": "x"}
    assert router.find("HEAD", "/w/count/pods")[1] == {"id": "count"}


QUERY = [Parameter("limit", "How many."), Parameter("filterBy", "Which.", {"type": "array"})]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", {}),
        ("limit=1&filterBy=a&filterBy=b", {}),
        ("limit=1&limit=2", {"limit": "limit stands 2 times in the query: once is allowed"}),
        (
            "limt=1",
            {
                "limt": "the query has 'limt', which this route does not know, did you mean limit? "
                "(it takes filterBy, limit)"
            },
        ),
        (
            "zzz",
            {"zzz": "the query has 'zzz', which this route does not know (it takes filterBy, limit)"},
        ),
    ],
)
async def test_a_query_has_the_names_of_its_route(query: str, said: dict[str, str]) -> None:
    async with client(operation("/a", echo, parameters=QUERY)) as http:
        answered = await http.get(f"/a?{query}")
    assert answered.status_code == (400 if said else 200)
    assert {one["field"]: one["message"] for one in answered.json().get("violations", [])} == said


async def test_a_route_without_a_query_says_so_and_kubernetes_clients_send_their_own() -> None:
    pods = "/apis/run.ai/v2alpha1/namespaces/x/things"
    async with client(operation("/a", echo), operation(pods, echo)) as http:
        assert "it takes none" in (await http.get("/a?x=1")).json()["details"]
        assert (await http.get(f"{pods}?fieldManager=me")).status_code == 200


async def test_two_operations_cannot_share_a_place() -> None:
    with pytest.raises(ValueError, match="is there twice"):
        Router([operation("/w/{id}", echo, name="a"), operation("/w/{other}", echo, name="b")])


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/nowhere", 404), ("GET", "/", 404), ("POST", "/things/1", 405)]
)
async def test_unknown_paths_and_wrong_methods_are_told_apart(method: str, path: str, status: int) -> None:
    async with client(operation("/things/{id}", echo)) as http:
        response = await http.request(method, path)
    assert (response.status_code, response.json()["code"]) == (status, status)
    assert response.headers.get("allow") == ("GET" if status == 405 else None)


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (InvalidArgument("bad"), 400, "Bad request."),
        (PermissionDenied("no"), 403, "You do not have sufficient permissions."),
        (NotFound("none"), 404, "Resource id not found."),
        (AlreadyExists("there"), 409, "Resource with this name already exists"),
        (FailedPrecondition("phase"), 409, "The resource's state does not allow it."),
        (ResourceExhausted("slow"), 429, "Too many requests."),
        (Unavailable("away"), 503, "Please try again in few minutes."),
    ],
)
async def test_an_error_has_the_words_of_the_api_and_our_sentence(error: Exception, status: int, message: str) -> None:
    async with client(operation("/x", raising(error))) as http:
        response = await http.get("/x")
    assert response.status_code == status
    assert response.json() == {"code": status, "message": message, "details": str(error)}


async def test_violations_are_itemised() -> None:
    error = InvalidArgument("bad", violations=[Violation("spec.image", "no image")])
    async with client(operation("/x", raising(error)), operation("/apis/g/v/x", raising(error))) as http:
        plain, status = (await http.get("/x")).json(), (await http.get("/apis/g/v/x")).json()
    assert plain["violations"] == [{"field": "spec.image", "message": "no image"}]
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 422, "Invalid")
    assert status["details"]["causes"][0]["field"] == "spec.image"


async def test_what_nobody_expected_shows_nothing_of_itself() -> None:
    async with client(operation("/x", raising(ValueError("secret")))) as http:
        response = await http.get("/x", headers={"x-request-id": "mine-1"})
    assert response.status_code == 500
    assert "secret" not in response.text
    assert response.headers["x-request-id"] == "mine-1"


async def test_a_handler_has_a_deadline() -> None:
    async def forever(request: Request) -> Response:
        await asyncio.Event().wait()
        raise AssertionError

    async with client(operation("/x", forever), longest=0.01) as http:
        response = await http.get("/x")
    assert response.status_code == 504


def nested(depth: int) -> bytes:
    return b'{"a":' + b"[" * depth + b"]" * depth + b"}"


@pytest.mark.parametrize(
    ("content", "status", "says"),
    [
        (b'{"a": 1}', 200, ""),
        (b'"{\\"a\\": 1}"', 200, ""),
        (b'"\\"{}\\""', 400, "a text"),
        (b"[]", 400, "an array"),
        (b"", 400, "empty"),
        (b'{"a": 1, "a": 2}', 400, "twice"),
        (b'{"a": {"b": 1, "b": 1}}', 400, "twice"),
        (b'{"a": NaN}', 400, "NaN"),
        (b'{"a": -Infinity}', 400, "Infinity"),
        (b'{"a": 1e400}', 400, "too large"),
        (b'{"a": ' + b"9" * 5000 + b"}", 400, "5000 characters; at most 40"),
        (b'{"a": "\\u0000"}', 400, "NUL"),
        (b'{"a": ["\\ud800"]}', 400, "surrogate"),
        (b'{"a": "\xff"}', 400, "UTF-8"),
        (b'{"a": 1,}', 400, "line 1"),
        (nested(60), 200, ""),
        (nested(100), 400, "deeper"),
        (nested(30_000), 400, "deeper"),
        (nested(1_000_000), 413, "bytes"),
        (b'{"a": "' + b"x" * (10 << 20) + b'"}', 413, "bytes"),
    ],
)
async def test_bodies_are_read_strictly(content: bytes, status: int, says: str) -> None:
    async with client(operation("/x", body, "POST", body=Body(THING))) as http:
        response = await http.post("/x", content=content)
    assert response.status_code == status
    assert says in response.text


async def test_a_body_without_a_length_is_bounded_too() -> None:
    async def endless() -> Any:
        for _ in range(3):
            yield b" " * (1 << 19)

    async with client(operation("/x", body, "POST", body=Body(THING))) as http:
        response = await http.post("/x", content=endless())
    assert response.status_code == 413


def test_the_document_has_what_the_edge_can_answer_and_each_shape_once() -> None:
    nested_shape = Shape("Outer", {"type": "object", "properties": {"thing": THING, "self": {"type": "array"}}})
    made = document(
        [
            operation("/things/{id}", echo, since="muster"),
            operation("/things", body, "POST", body=Body(nested_shape)),
            operation("/hidden", echo, shown=False),
        ],
        "1",
    )
    assert list(made["paths"]) == ["/things", "/things/{id}"]
    got = made["paths"]["/things/{id}"]["get"]
    assert got["x-muster-since"] == "muster"
    assert set(got["responses"]) == {"200", "400", "401", "403", "404", "429", "500", "503", "504"}
    answers = made["paths"]["/things"]["post"]["responses"]
    assert set(answers) >= {"200", "400", "409", "413"}
    assert {status for status, said in answers.items() if "x-muster-since" in said} == {
        "409",
        "413",
        "415",
        "429",
        "504",
    }
    assert made["components"]["schemas"]["Outer"]["properties"]["thing"] == {"$ref": "#/components/schemas/Thing"}


async def test_the_bare_address_leads_to_the_page() -> None:
    async with client(*pages([])) as http:
        root = await http.get("/", headers={"authorization": ""})
        page = await http.get(root.headers["location"], headers={"authorization": ""})
    assert (root.status_code, root.headers["location"]) == (307, "/docs")
    assert "swagger-ui" in page.text


def test_two_shapes_cannot_share_a_name() -> None:
    other = Operation("GET", "/b", "b", "t", "s", echo, {200: Answer("x", Shape("Thing", {"type": "string"}))})
    with pytest.raises(ValueError, match="two shapes"):
        document([operation("/a", echo), other], "1")

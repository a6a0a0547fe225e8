"""One operation of the REST API, described once: the edge routes by it and the OpenAPI document is written from it.

Called by every file under routes/. Holds: what a handler answers is among its answers, since the document and the
tests are made from them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from starlette.requests import Request
from starlette.responses import Response

Handler = Callable[[Request], Awaitable[Response]]
Json = Mapping[str, Any]
SINCE: Final = "2.18"
MUSTER: Final = "muster"
ADDED: Final = frozenset({409, 413, 415, 429, 501, 504})
"""Statuses that the operations of 2.18 do not have, but for a few."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A named JSON schema: it stands once in the document's components, and by reference wherever it is used.

    schema: JSON Schema 2020-12; a Shape may stand wherever a schema may.
    """

    name: str
    schema: Json


Schema = Shape | Json


@dataclass(frozen=True, slots=True)
class Answer:
    """One status that an operation answers with. No schema: no body.

    since: the version that knew it first, where that is neither the operation's nor what ADDED says.
    """

    description: str
    schema: Schema | None = None
    media: str = "application/json"
    since: str = ""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter in the path, the query or a header. Those in the path are always required."""

    name: str
    description: str
    schema: Json = field(default_factory=lambda: {"type": "string"})
    place: Literal["path", "query", "header"] = "query"
    required: bool = False
    explode: bool = True
    """For arrays in a query: name=a&name=b where true, name=a,b where false."""


@dataclass(frozen=True, slots=True)
class Body:
    """What an operation takes. More than one media type: all of them hold the same schema."""

    schema: Schema
    media: Sequence[str] = ("application/json",)
    required: bool = True


@dataclass(frozen=True, slots=True)
class Operation:
    """One method on one path.

    path: with `{name}` for parameters; each of them without a Parameter of its own is a plain string.
    name: the operationId, unique and lower snake case. tag: the group in the document.
    answers: successes and refusals of its own; what all may answer (400 and 404 where something is sent or named, 401,
    403, 409 where something changes, 413 and 415 for bodies, 429, 500, 503, 504) is added to the document.
    since: the version of the API that knew it first; `muster` for what only Muster has.
    public: needs no token.
    """

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    name: str
    tag: str
    summary: str
    handler: Handler
    answers: Mapping[int, Answer]
    parameters: Sequence[Parameter] = ()
    body: Body | None = None
    since: str = SINCE
    public: bool = False
    shown: bool = True
    """Whether the document has it; routes that answer 501 are left out."""


def array_of(shape: Schema) -> Json:
    """The schema of an array of it."""
    return {"type": "array", "items": shape}


def record(name: str, required: Sequence[str], said: str, /, **properties: Any) -> Shape:
    """The shape of an object."""
    return Shape(name, {"type": "object", "description": said, "required": list(required), "properties": properties})


def path_id(name: str, description: str, form: str = "uuid") -> Parameter:
    """An id in the path: a UUID, or with form "" any text."""
    schema = {"type": "string", "format": form} if form else {"type": "string"}
    return Parameter(name, description, schema, "path", required=True)


ERROR: Final = Shape(
    "Error",
    {
        "type": "object",
        "description": "What went wrong.",
        "required": ["code", "message"],
        "properties": {
            "code": {"type": "integer", "minimum": 100, "maximum": 599, "description": "The HTTP status."},
            "message": {"type": "string", "description": "What went wrong, in the API's own words."},
            "details": {"type": "string", "description": "What exactly, where, and what to do about it."},
            "violations": {
                "type": "array",
                "description": "Each thing that is wrong with what was sent.",
                "items": {
                    "type": "object",
                    "required": ["field", "message"],
                    "properties": {
                        "field": {"type": "string", "description": "The path of the member."},
                        "message": {"type": "string", "description": "What is wrong there and what is allowed."},
                    },
                },
            },
        },
    },
)


def refusal(description: str, since: str = "") -> Answer:
    """An error of an operation's own, such as 409."""
    return Answer(description, ERROR, since=since)

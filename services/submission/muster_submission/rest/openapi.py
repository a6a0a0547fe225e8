"""The OpenAPI 3.1 document, written from the very list that the edge routes by.

Called once at start by routes/document.py. Holds: every operation that is shown is in it with every status that the
edge or the operation can answer; a Shape stands once under components and by reference elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from muster_submission.rest.operation import ADDED, ERROR, MUSTER, SINCE, Answer, Operation, Parameter, Schema, Shape

_SEGMENT: Final = re.compile(r"{([^}]+)}")
_EDGE: Final = {
    400: "The request cannot be read, or breaks a rule.",
    401: "No token, or one that is not accepted.",
    403: "The caller may not do this.",
    404: "There is no such resource, or the caller may not see it.",
    409: "What is there does not allow it: its name is taken, its state forbids it, or another change came first.",
    413: "The body is too large.",
    415: "The body's media type is not taken.",
    429: "Too many requests.",
    500: "Something went wrong in the service.",
    503: "A part behind the service does not answer; try again.",
    504: "The answer took too long.",
}
_ABOUT: Final = """\
Muster's REST API: one control plane for GPU workloads. Operations, members and answers marked with \
`x-muster-since: muster` are additions of its own; the rest is version 2.18.
"""


def document(operations: Iterable[Operation], version: str) -> dict[str, Any]:
    """The whole document. Raises ValueError where two operations have one name, or two shapes."""
    writer = _Writer()
    paths: dict[str, dict[str, Any]] = {}
    names: set[str] = set()
    for one in (one for one in operations if one.shown):
        if one.name in names:
            raise ValueError(f"two operations are called {one.name}")
        names.add(one.name)
        paths.setdefault(one.path, {})[one.method.lower()] = writer.operation(one)
    writer.schema(ERROR)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Muster", "version": version, "description": _ABOUT},
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": dict(sorted(writer.schemas.items())),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
        },
        "security": [{"bearer": []}],
    }


class _Writer:
    """Writes operations and collects the shapes that they use."""

    def __init__(self) -> None:
        self.schemas: dict[str, Any] = {}
        self._shapes: dict[str, Shape] = {}

    def operation(self, one: Operation) -> dict[str, Any]:
        written: dict[str, Any] = {
            "operationId": one.name,
            "tags": [one.tag],
            "summary": one.summary,
            "parameters": [self._parameter(parameter) for parameter in _parameters(one)],
            "responses": {str(status): self._answer(status, said) for status, said in sorted(_answers(one).items())},
        }
        if one.since != SINCE:
            written["x-muster-since"] = one.since
        if one.public:
            written["security"] = []
        if one.body is not None:
            content = {media: {"schema": self.schema(one.body.schema)} for media in one.body.media}
            written["requestBody"] = {"required": one.body.required, "content": content}
        return written

    def schema(self, schema: Schema) -> Any:
        """The schema, with a reference for each Shape in it."""
        if isinstance(schema, Shape):
            self._keep(schema)
            return {"$ref": f"#/components/schemas/{schema.name}"}
        return self._walk(schema)

    def _walk(self, value: Any) -> Any:
        if isinstance(value, Shape):
            return self.schema(value)
        if isinstance(value, Mapping):
            return {name: self._walk(item) for name, item in value.items()}
        if isinstance(value, Sequence) and not isinstance(value, str):
            return [self._walk(item) for item in value]
        return value

    def _keep(self, shape: Shape) -> None:
        known = self._shapes.setdefault(shape.name, shape)
        if known is not shape and known != shape:
            raise ValueError(f"two shapes are called {shape.name}")
        if shape.name not in self.schemas:
            self.schemas[shape.name] = {}  # a shape may use itself
            self.schemas[shape.name] = self._walk(shape.schema)

    def _parameter(self, one: Parameter) -> dict[str, Any]:
        written = {
            "name": one.name,
            "in": one.place,
            "required": one.required or one.place == "path",
            "description": one.description,
            "schema": self._walk(one.schema),
        }
        if not one.explode:
            written |= {"style": "form", "explode": False}
        return written

    def _answer(self, status: int, one: Answer) -> dict[str, Any]:
        written: dict[str, Any] = {"description": one.description}
        since = one.since or (MUSTER if status in ADDED else SINCE)
        if since != SINCE:
            written["x-muster-since"] = since
        if one.schema is not None:
            written["content"] = {one.media: {"schema": self.schema(one.schema)}}
        return written


def _parameters(one: Operation) -> list[Parameter]:
    described = {parameter.name for parameter in one.parameters if parameter.place == "path"}
    plain = [name for name in _SEGMENT.findall(one.path) if name not in described]
    return [*(Parameter(name, f"The {name} in the path.", place="path") for name in plain), *one.parameters]


def _answers(one: Operation) -> dict[int, Answer]:
    """The operation's own answers, and those that the edge gives for everyone."""
    added = {400, 429, 500, 503, 504}  # 400: a query may have names that the route does not know
    if one.body is not None:
        added |= {404, 413, 415}  # what a body names may be hidden too
    if _parameters(one):
        added |= {404}
    if not one.public:
        added |= {401, 403}
        added |= set() if one.method == "GET" else {409}
    return {status: Answer(_EDGE[status], ERROR) for status in added} | dict(one.answers)

"""The OpenAPI document, and a page on which the API can be tried. Both are open to everyone: they hold no data.

The page's script comes from an installed package, never from another server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from importlib.metadata import version
from importlib.resources import files
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from muster_submission.rest.answers import JSON
from muster_submission.rest.errors import NoSuchRoute
from muster_submission.rest.openapi import document
from muster_submission.rest.operation import Answer, Operation, Parameter

_FILES: Final = {
    "swagger-ui.css": "text/css",
    "swagger-ui-bundle.js": "text/javascript",
    "favicon-32x32.png": "image/png",
}
_START: Final = """\
SwaggerUIBundle({url: "/openapi.json", dom_id: "#page", deepLinking: true, persistAuthorization: true});
"""
_PAGE: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Muster API</title>
<link rel="stylesheet" href="/docs/swagger-ui.css">
<link rel="icon" href="/docs/favicon-32x32.png">
</head>
<body>
<div id="page"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
"""
_GUARD: Final = {
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:",
    "X-Content-Type-Options": "nosniff",
}
_TEXT: Final = {"type": "string"}


def operations(served: Sequence[Operation]) -> list[Operation]:
    """The document of `served` and of these operations themselves."""
    pages = _Pages()
    own = [
        Operation(
            "GET",
            "/openapi.json",
            "get_openapi",
            "documentation",
            "This document",
            pages.document,
            {200: Answer("The OpenAPI 3.1 document.", {"type": "object"})},
            since="muster",
            public=True,
        ),
        Operation(
            "GET",
            "/docs",
            "get_docs",
            "documentation",
            "A page on which the API can be tried",
            pages.page,
            {200: Answer("The page.", _TEXT, "text/html")},
            since="muster",
            public=True,
        ),
        Operation(
            "GET",
            "/docs/{file}",
            "get_docs_file",
            "documentation",
            "A file of that page",
            pages.file,
            {200: Answer("The file.")},
            parameters=[Parameter("file", "The file.", {"enum": ["start.js", *_FILES]}, "path", required=True)],
            since="muster",
            public=True,
            shown=False,
        ),
        Operation(
            "GET",
            "/",
            "get_root",
            "documentation",
            "Leads to /docs",
            pages.root,
            {307: Answer("The page's address.")},
            since="muster",
            public=True,
            shown=False,
        ),
    ]
    pages.written = msgspec.json.encode(document([*served, *own], version("muster-submission")))
    return own


class _Pages:
    """Serves what was written at the start."""

    def __init__(self) -> None:
        self.written = b""
        self._folder = files("swagger_ui") / "static"

    async def document(self, request: Request) -> Response:
        return Response(self.written, media_type=JSON)

    async def page(self, request: Request) -> Response:
        return Response(_PAGE, media_type="text/html", headers=_GUARD)

    async def root(self, request: Request) -> Response:
        return Response(status_code=307, headers={"Location": "/docs"})

    async def file(self, request: Request) -> Response:
        name = request.path_params["file"]
        if name == "start.js":
            return Response(_START, media_type="text/javascript", headers=_GUARD)
        if name not in _FILES:
            raise NoSuchRoute(f"the page has no file {name[:80]!r}")
        content = await asyncio.to_thread((self._folder / name).read_bytes)
        return Response(content, media_type=_FILES[name], headers=_GUARD)

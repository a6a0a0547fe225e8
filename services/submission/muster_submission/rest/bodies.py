"""What comes in: JSON, read strictly and within bounds.

Called by the routes. Refused: more than 1 MiB, a nesting deeper than 64, a member twice in one object, NaN and
numbers that are not finite, text that is not UTF-8 or holds NUL or a lone surrogate. A body that is a string with an
object in it is decoded once more: the vendor's asynchronous client sends its bodies that way.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from starlette.requests import Request

from muster_kernel import numbers
from muster_submission.rest.errors import BadBody, BodyTooLarge

LARGEST: Final = 1 << 20
DEEPEST: Final = 64
_SHORT: Final = 18  # characters of a number that needs no look
_LONGEST_LENGTH: Final = 12  # digits of a Content-Length
# Possessive, and a text without its end counts as one: a search that began again in it would cost the square of it.
_BRACKETS: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


async def read_bytes(request: Request, limit: int = LARGEST) -> bytes:
    """The body. Raises BodyTooLarge, without reading on."""
    told = request.headers.get("content-length", "0")
    if not (told.isascii() and told.isdecimal()) or int(told[:_LONGEST_LENGTH]) > limit:
        raise BodyTooLarge(limit)
    read = bytearray()
    async for piece in request.stream():
        read += piece
        if len(read) > limit:
            raise BodyTooLarge(limit)
    return bytes(read)


async def read_object(request: Request, limit: int = LARGEST) -> dict[str, Any]:
    """The body as an object. Raises BodyTooLarge and BadBody."""
    return as_object(await read_bytes(request, limit))


async def read_array(request: Request) -> list[Any]:
    """The body as an array. Raises BodyTooLarge and BadBody."""
    value = parse(_text(await read_bytes(request)))
    if isinstance(value, str):
        value = parse(value)
    if not isinstance(value, list):
        raise BadBody(f"the body is {_kind(value)}; a JSON array is expected")
    _check_value(value)
    return value


async def as_document(request: Request) -> str:
    """The body as the text of a YAML document. Raises BodyTooLarge and BadBody.

    JSON is read strictly and written anew: its escapes are not YAML's, and what JSON refuses YAML may take.
    """
    content = await read_bytes(request)
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media.endswith("yaml") or (not media.endswith("json") and not content.lstrip().startswith(b"{")):
        return _text(content)
    return json.dumps(as_object(content), ensure_ascii=False)


def as_object(content: bytes) -> dict[str, Any]:
    """The object in the text. Raises BadBody."""
    value = parse(_text(content))
    if isinstance(value, str):
        value = parse(value)
    if not isinstance(value, dict):
        raise BadBody(f"the body is {_kind(value)}; a JSON object is expected")
    return value


def parse(text: str) -> Any:
    """A JSON value. Raises BadBody, with line and column where the text is not JSON."""
    _check_depth(text)
    try:
        value = json.loads(
            text, object_pairs_hook=_members, parse_constant=_constant, parse_float=_number, parse_int=_integer
        )
    except json.JSONDecodeError as error:
        raise BadBody(f"the body is no JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    return value


def _text(content: bytes) -> str:
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise BadBody(f"the body is not UTF-8: byte {error.start} cannot be read") from None
    if not text.strip():
        raise BadBody("the body is empty; a JSON object is expected")
    return text


def _check_depth(text: str) -> None:
    """Refuses deep nesting before a recursive reader meets it."""
    depth = 0
    for found in _BRACKETS.finditer(text):
        what = found[0]
        if what in "[{":
            depth += 1
            if depth > DEEPEST:
                raise BadBody(f"the body is nested deeper than {DEEPEST} levels")
        elif what in "]}":
            depth -= 1


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise BadBody(f"the member {name[:80]!r} stands twice in one object: which one is meant?")
        _check_text(name)
        _check_value(value)
        members[name] = value
    return members


def _check_value(value: Any) -> None:
    if isinstance(value, str):
        _check_text(value)
    elif isinstance(value, list):
        for item in value:
            _check_value(item)


def _check_text(text: str) -> None:
    if "\x00" in text:
        raise BadBody("a text of the body holds a NUL character, which nothing may")
    if _SURROGATE.search(text):
        raise BadBody("a text of the body holds half of a surrogate pair, which is no character")


def _constant(name: str) -> Any:
    raise BadBody(f"the body holds {name}, which is no JSON number")


def _number(text: str) -> float:
    try:
        return numbers.real(text)
    except ValueError as error:
        raise BadBody(str(error)) from None


def _integer(text: str) -> int:
    if len(text) <= _SHORT:  # nearly all, and there may be half a million
        return int(text)
    try:
        return numbers.whole(text)
    except ValueError as error:
        raise BadBody(str(error)) from None


def _kind(value: Any) -> str:
    words = {dict: "an object", list: "an array", str: "a text", bool: "true or false", type(None): "null"}
    return words.get(type(value), "a number")

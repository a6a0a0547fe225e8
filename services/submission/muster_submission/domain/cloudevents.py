"""CloudEvents 1.0 in Kafka records: binary mode (ce_ headers), structured mode (one value in JSON or protobuf).

Called for every record of muster.triggers. What comes in is foreign: nothing here raises, and what is no CloudEvent
comes back as a sentence that says why. Protobuf values are taken apart by an adapter and judged here.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from muster_kernel.numbers import real, whole

LARGEST: Final = 256 << 10
"""Bytes that an event may have."""
_JSON: Final = "application/json"
_STRUCTURED: Final = "application/cloudevents"
_PREFIX: Final = "ce_"
_REQUIRED: Final = ("specversion", "id", "source", "type")
_ATTRIBUTE_LIMIT: Final = 2048  # characters
_MOST_ATTRIBUTES: Final = 100
_PATH: Final = 200  # characters of where something is that are said
_UNFIT: Final = re.compile("[\x00\ud800-\udfff]")
_NOT_ATTRIBUTES: Final = frozenset({"data", "data_base64"})


@dataclass(frozen=True, slots=True)
class CloudEvent:
    """One event. (source, id) is its identity; `attributes` are all of them as text.

    `data` is in the media type `content`; an empty one means JSON.
    """

    id: str
    source: str
    type: str
    subject: str
    attributes: Mapping[str, str]
    data: bytes = b""

    @property
    def content(self) -> str:
        """The media type of the data."""
        return self.attributes.get("datacontenttype", "")

    @property
    def name(self) -> str:
        """The event as people see it in what it caused."""
        return f"{self.source} {self.id}"


@dataclass(frozen=True, slots=True)
class NoCloudEvent:
    """The record is no CloudEvent; `why` is a sentence for people."""

    why: str


@dataclass(frozen=True, slots=True)
class Draft:
    """Attributes and data before anything is required of them."""

    attributes: dict[str, str] = field(default_factory=dict)
    data: bytes = b""


Unpack = Callable[[bytes], Draft | NoCloudEvent]
"""Takes a value of the protobuf format apart."""


def read(headers: Sequence[tuple[str, bytes]], value: bytes | None, unpack: Unpack) -> CloudEvent | NoCloudEvent:
    """The event in a Kafka record with these headers and this value."""
    if value is not None and len(value) > LARGEST:
        return NoCloudEvent(f"the event has {len(value)} bytes; at most {LARGEST} are allowed")
    try:
        texts = {name.lower(): raw.decode() for name, raw in headers}
    except UnicodeDecodeError:
        return NoCloudEvent("a header is no UTF-8 text")
    draft = _draft(texts, value or b"", unpack)
    return draft if isinstance(draft, NoCloudEvent) else checked(draft)


def _draft(texts: Mapping[str, str], value: bytes, unpack: Unpack) -> Draft | NoCloudEvent:
    content = texts.get("content-type", "").partition(";")[0].strip().lower()
    if content == f"{_STRUCTURED}+json":
        return _structured(value)
    if content == f"{_STRUCTURED}+protobuf":
        return unpack(value)
    if content.startswith(_STRUCTURED):
        return NoCloudEvent(f"content-type is {content[:80]}: {_STRUCTURED}+json and +protobuf are understood")
    if _PREFIX + "specversion" in texts:
        return _binary(texts, value)
    return NoCloudEvent(
        "no CloudEvent: expected ce_specversion, ce_id, ce_source and ce_type headers (binary mode), or the "
        f"content-type {_STRUCTURED}+json or {_STRUCTURED}+protobuf (structured mode)"
    )


def _binary(texts: Mapping[str, str], value: bytes) -> Draft:
    attributes = {name.removeprefix(_PREFIX): text for name, text in texts.items() if name.startswith(_PREFIX)}
    if "content-type" in texts:
        attributes["datacontenttype"] = texts["content-type"]
    return Draft(attributes, value)


def _structured(value: bytes) -> Draft | NoCloudEvent:
    try:
        document = loads(value)
    except ValueError as error:
        return NoCloudEvent(f"the value is no JSON: {error}")
    if not isinstance(document, dict):
        return NoCloudEvent("the value is JSON, but not an object")
    attributes: dict[str, str] = {}
    for name, given in document.items():
        if name in _NOT_ATTRIBUTES or given is None:
            continue
        if isinstance(given, dict | list | float):
            return NoCloudEvent(f"attribute {name[:40]!r} is no text, whole number or boolean")
        attributes[name] = given if isinstance(given, str) else json.dumps(given)
    data = _data(document, attributes.get("datacontenttype", ""))
    return data if isinstance(data, NoCloudEvent) else Draft(attributes, data)


def _data(document: Mapping[str, Any], content: str) -> bytes | NoCloudEvent:
    if "data_base64" in document:
        try:
            return base64.b64decode(str(document["data_base64"]), validate=True)
        except (binascii.Error, ValueError):
            return NoCloudEvent("data_base64 is no base64")
    data = document.get("data")
    if data is None:
        return b""
    plain = content.partition(";")[0].strip().lower()
    if isinstance(data, str) and plain not in {"", _JSON} and not plain.endswith("+json"):
        # Not replaced by something else: half of a pair must be refused by whoever reads the data as text.
        return data.encode(errors="surrogatepass")
    return json.dumps(data, separators=(",", ":")).encode()


def checked(draft: Draft) -> CloudEvent | NoCloudEvent:
    """The event, if it has what the standard requires and nothing that cannot be stored."""
    attributes = draft.attributes
    missing = [name for name in _REQUIRED if not attributes.get(name)]
    if missing:
        return NoCloudEvent(f"the event has no {', '.join(missing)}; CloudEvents require {', '.join(_REQUIRED)}")
    if attributes["specversion"] != "1.0":
        return NoCloudEvent(f"specversion is {attributes['specversion'][:40]!r}; 1.0 is understood")
    if len(attributes) > _MOST_ATTRIBUTES:
        return NoCloudEvent(f"the event has {len(attributes)} attributes; at most {_MOST_ATTRIBUTES} are allowed")
    for name, text in attributes.items():
        if len(name) > _ATTRIBUTE_LIMIT or len(text) > _ATTRIBUTE_LIMIT or not (_storable(text) and _storable(name)):
            return NoCloudEvent(
                f"attribute {name[:40]!r} has {len(text)} characters or one that no text may have; at most "
                f"{_ATTRIBUTE_LIMIT} are allowed, none of them NUL"
            )
    return CloudEvent(
        id=attributes["id"],
        source=attributes["source"],
        type=attributes["type"],
        subject=attributes.get("subject", ""),
        attributes=attributes,
        data=draft.data,
    )


def _storable(text: str) -> bool:
    # JSON can smuggle in NUL and lone surrogates, which neither PostgreSQL nor protobuf takes.
    return _UNFIT.search(text) is None


def unfit(value: object, path: str) -> str:
    """Where a value holds text with NUL or half of a surrogate pair, member names among it; empty: nowhere.

    path: what the value itself is called. Not recursive: JSON may be nested deeper than Python's stack.
    """
    rest = [(path, value)]
    while rest:
        where, one = rest.pop()
        if isinstance(one, str) and not _storable(one):
            return where
        if isinstance(one, Mapping):
            if not all(_storable(str(name)) for name in one):
                return f"the name of a member of {where}"
            rest.extend((f"{where}.{name}"[:_PATH], member) for name, member in one.items())
        elif isinstance(one, list):
            rest.extend((where, member) for member in one)
    return ""


def loads(raw: bytes) -> Any:
    """JSON, strictly: no NaN, no number beyond its bounds, no member twice, no deep nesting. Raises ValueError."""
    try:
        return json.loads(
            raw.decode(), parse_constant=_refuse_constant, parse_float=real, parse_int=whole, object_pairs_hook=_unique
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeDecodeError:
        raise ValueError("it is no UTF-8 text") from None


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has a member twice")
    return found

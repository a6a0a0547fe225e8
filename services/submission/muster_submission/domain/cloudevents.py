"""CloudEvents 1.0 as they stand in Kafka records: binary mode (ce_ headers) and structured mode (one JSON value).

Called for every record of muster.triggers. What comes in is foreign: nothing here raises, and what is no CloudEvent
comes back as a sentence that says why.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

LARGEST: Final = 256 << 10
"""Bytes that an event may have."""
_STRUCTURED: Final = "application/cloudevents+json"
_PREFIX: Final = "ce_"
_REQUIRED: Final = ("specversion", "id", "source", "type")
_ATTRIBUTE_LIMIT: Final = 2048  # characters
_NOT_ATTRIBUTES: Final = frozenset({"data", "data_base64"})


@dataclass(frozen=True, slots=True)
class CloudEvent:
    """One event. (source, id) is its identity; `attributes` are all of them as text, `data` is bytes or read JSON."""

    id: str
    source: str
    type: str
    subject: str
    attributes: Mapping[str, str]
    data: Data


@dataclass(frozen=True, slots=True)
class NoCloudEvent:
    """The record is no CloudEvent; `why` is a sentence for people."""

    why: str


@dataclass(frozen=True, slots=True)
class Data:
    """The event's data: `value` is JSON that was read; `raw` are bytes that nobody has read yet."""

    raw: bytes = b""
    value: Any = None
    read: bool = False

    def json(self) -> Any:
        """The data as JSON. Raises ValueError where it is none."""
        return self.value if self.read else loads(self.raw)


@dataclass(frozen=True, slots=True)
class _Draft:
    attributes: dict[str, str] = field(default_factory=dict)
    data: Data = field(default_factory=Data)


def read(headers: Sequence[tuple[str, bytes]], value: bytes | None) -> CloudEvent | NoCloudEvent:
    """The event in a Kafka record with these headers and this value."""
    if value is not None and len(value) > LARGEST:
        return NoCloudEvent(f"the event has {len(value)} bytes; at most {LARGEST} are allowed")
    try:
        texts = {name.lower(): raw.decode() for name, raw in headers}
    except UnicodeDecodeError:
        return NoCloudEvent("a header is no UTF-8 text")
    content = texts.get("content-type", "").partition(";")[0].strip().lower()
    if content == _STRUCTURED:
        draft = _structured(value or b"")
    elif _PREFIX + "specversion" in texts:
        draft = _binary(texts, value or b"")
    else:
        return NoCloudEvent(
            "no CloudEvent: expected ce_specversion, ce_id, ce_source and ce_type headers (binary mode), or the "
            f"content-type {_STRUCTURED} (structured mode)"
        )
    return draft if isinstance(draft, NoCloudEvent) else _checked(draft)


def _binary(texts: Mapping[str, str], value: bytes) -> _Draft | NoCloudEvent:
    attributes = {name.removeprefix(_PREFIX): text for name, text in texts.items() if name.startswith(_PREFIX)}
    if "content-type" in texts:
        attributes["datacontenttype"] = texts["content-type"]
    return _Draft(attributes, Data(raw=value))


def _structured(value: bytes) -> _Draft | NoCloudEvent:
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
            return NoCloudEvent(f"attribute {name!r} is no text, whole number or boolean")
        attributes[name] = given if isinstance(given, str) else json.dumps(given)
    if "data_base64" in document:
        try:
            return _Draft(attributes, Data(raw=base64.b64decode(str(document["data_base64"]), validate=True)))
        except (binascii.Error, ValueError):
            return NoCloudEvent("data_base64 is no base64")
    return _Draft(attributes, Data(value=document.get("data"), read=True))


def _checked(draft: _Draft) -> CloudEvent | NoCloudEvent:
    attributes = draft.attributes
    missing = [name for name in _REQUIRED if not attributes.get(name)]
    if missing:
        return NoCloudEvent(f"the event has no {', '.join(missing)}; CloudEvents require {', '.join(_REQUIRED)}")
    if attributes["specversion"] != "1.0":
        return NoCloudEvent(f"specversion is {attributes['specversion'][:40]!r}; 1.0 is understood")
    for name, text in attributes.items():
        if len(text) > _ATTRIBUTE_LIMIT or not _storable(text):
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
    return "\x00" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def loads(raw: bytes) -> Any:
    """JSON, strictly: no NaN or Infinity, no member twice, no bottomless nesting. Raises ValueError."""
    try:
        return json.loads(raw.decode(), parse_constant=_refuse_constant, object_pairs_hook=_unique)
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

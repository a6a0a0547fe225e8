"""Records and events: CloudEvents' Kafka binding in binary mode, protobuf values, our version header.

The outbox encodes, consumers decode. What cannot be decoded raises Reject with a reason for people; oddities that
carry no meaning for us (a clock an hour off, a missing time, a broken trace) never do.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from google.protobuf.message import DecodeError, Message

from muster_chassis import tracing
from muster_chassis.events import LARGEST_VERSION, Event, Origin, Reject
from muster_chassis.numbers import number
from muster_kernel.ids import is_uuid

CONTENT_TYPE: Final = b"application/protobuf"
SCHEMA: Final = "muster:"
VERSION_HEADER: Final = "muster_version"
SNAPSHOT: Final = "muster_snapshot"
"""The header of an event that says all there is as of its version: it follows whatever version came before."""
ACCOUNT_BEGUN: Final = "muster_begun"
"""The header of UsageAccounted with the beginning of the account's first use, in microseconds since 1970."""
TOMBSTONE: Final = "muster.Tombstone"
"""The ce_type of a record without a value."""
LARGEST_VALUE: Final = 1 << 20  # bytes of a value that we write or read; a larger record is poison
_FOREIGN: Final = uuid.UUID("5b6f6a3e-6f0e-5d0a-9b1e-0f6d2c1f7a10")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SUBJECT_LIMIT: Final = 512


class Decoder(Protocol):
    """Turns a record into an event. Raises Reject where that is impossible."""

    def __call__(self, origin: Origin) -> Event:
        """Decodes one record."""
        ...


def encode_headers(
    *,
    event_id: str,
    event_type: str,
    source: str,
    aggregate: str,
    version: int,
    time: datetime,
    traceparent: str | None,
    extra: Mapping[str, str] | Iterable[tuple[str, str]] = (),
) -> list[tuple[str, bytes]]:
    """The headers of one record that we write."""
    headers = [
        ("ce_specversion", b"1.0"),
        ("ce_id", event_id.encode()),
        ("ce_type", event_type.encode()),
        ("ce_source", source.encode()),
        ("ce_subject", aggregate.encode()),
        ("ce_time", time.isoformat().encode()),
        ("ce_dataschema", f"{SCHEMA}{event_type}".encode()),
        ("content-type", CONTENT_TYPE),
        (VERSION_HEADER, str(version).encode()),
    ]
    if traceparent is not None:
        headers.append(("traceparent", traceparent.encode()))
    pairs = extra.items() if isinstance(extra, Mapping) else extra
    headers.extend((name, text.encode()) for name, text in pairs)
    return headers


class MessageDecoder:
    """Decodes the records that Muster's own services write.

    types: every message that may stand on the topics. wants: the types that the handler reads; the bytes of the
    others are not parsed, since half of a topic is often for someone else.
    """

    def __init__(self, types: Iterable[type[Message]], wants: Iterable[type[Message]] | None = None) -> None:
        self._types = {cls.DESCRIPTOR.full_name: cls for cls in types}
        wanted = self._types.values() if wants is None else wants
        self._wants = frozenset(cls.DESCRIPTOR.full_name for cls in wanted)

    def __call__(self, origin: Origin) -> Event:
        """Decodes one record of ours."""
        headers = _texts(origin.headers)
        event_id, event_type = headers.get("ce_id", ""), headers.get("ce_type", "")
        if not is_uuid(event_id):
            raise Reject(f"ce_id is {event_id!r}: expected the UUID that Muster's services write")
        return Event(
            id=event_id,
            type=event_type,
            source=headers.get("ce_source", ""),
            aggregate=_aggregate(headers),
            version=_version(headers),
            time=_time(headers, origin),
            message=self._message(event_type, origin.value),
            origin=origin,
            traceparent=tracing.valid(headers.get("traceparent")),
        )

    def _message(self, event_type: str, value: bytes | None) -> Message | None:
        if value is None:
            return None
        cls = self._types.get(event_type)
        if cls is None:
            raise Reject(f"ce_type is {event_type!r}: no message of that name is known here")
        if event_type not in self._wants:
            return None
        if len(value) > LARGEST_VALUE:
            raise Reject(f"the value has {len(value)} bytes; a record of ours has at most {LARGEST_VALUE}")
        try:
            return cls.FromString(value)
        except (DecodeError, ValueError) as error:
            raise Reject(f"the value is no {event_type}: {error}") from error


def origin_of(record: Any) -> Origin:
    """Turn a record that aiokafka delivered into an Origin."""
    return Origin(
        record.topic,
        record.partition,
        record.offset,
        record.key,
        record.value,
        tuple((name, value if value is not None else b"") for name, value in record.headers),
        record.timestamp,
    )


def inbox_key(event: Event, bus: str) -> str:
    """What makes a second delivery of this record a duplicate.

    Our events bring a UUID. A foreign one is known by its place on this bus: its own id may repeat on purpose, and
    what that means (a trigger fires once per source and id within a window) is the service's question.
    """
    return event.id if is_uuid(event.id) else place_key(event.origin, bus)


def place_key(origin: Origin, bus: str) -> str:
    """A stable id for a record that brings none: its place, on the bus with that cluster id."""
    return str(uuid.uuid5(_FOREIGN, f"{bus}/{origin.topic}/{origin.partition}/{origin.offset}"))


def aggregate_of(origin: Origin) -> str:
    """The aggregate that a record names, though the rest of it may not decode; '' where it names none."""
    try:
        return _aggregate(_texts(origin.headers))
    except Reject:
        return ""


def version_of(origin: Origin) -> int:
    """The version that a record names, though the rest of it may not decode; 0 where it names none."""
    try:
        return _version(_texts(origin.headers))
    except Reject:
        return 0


def is_snapshot(origin: Origin) -> bool:
    """Whether a record says all there is of its aggregate as of its version."""
    return origin.header(SNAPSHOT) is not None


def _texts(headers: Sequence[tuple[str, bytes]]) -> dict[str, str]:
    try:
        return {name: value.decode() for name, value in headers}
    except UnicodeDecodeError:
        return {name: value.decode("utf-8", "replace") for name, value in headers}


def _aggregate(headers: Mapping[str, str]) -> str:
    aggregate = headers.get("ce_subject", "")
    if "\x00" in aggregate or len(aggregate) > _SUBJECT_LIMIT:
        raise Reject(
            f"ce_subject is {aggregate[:80]!r}: expected at most {_SUBJECT_LIMIT} characters, none of them NUL"
        )
    return aggregate


def _version(headers: Mapping[str, str]) -> int:
    try:
        return number(headers.get(VERSION_HEADER, "0"), LARGEST_VERSION, VERSION_HEADER)
    except ValueError as error:
        raise Reject(str(error)) from error


def _time(headers: Mapping[str, str], origin: Origin) -> datetime:
    try:
        time = datetime.fromisoformat(headers["ce_time"])
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (KeyError, ValueError, OverflowError):
        pass
    try:
        return datetime.fromtimestamp(origin.timestamp / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return _EPOCH

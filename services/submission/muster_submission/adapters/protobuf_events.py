"""CloudEvents in protobuf: the structured mode's second format, and how events are kept and shown.

Called by the stream for `application/cloudevents+protobuf`, by the books of firings and by the rpc. Holds: an event
that was packed unpacks to the same event.
"""

from __future__ import annotations

import base64
from datetime import UTC
from typing import Final

from google.protobuf.message import DecodeError

from muster.events.v1 import cloudevent_pb2 as pb
from muster_submission.domain.cloudevents import CloudEvent, Draft, NoCloudEvent, checked

_OWN: Final = frozenset({"id", "source", "specversion", "type"})
_PROTOBUF: Final = "application/protobuf"


def unpack(value: bytes) -> Draft | NoCloudEvent:
    """What a value of the protobuf format says."""
    try:
        return draft_of(pb.CloudEvent.FromString(value))
    except DecodeError:
        return NoCloudEvent("the value is no CloudEvent in protobuf")


def draft_of(message: pb.CloudEvent) -> Draft | NoCloudEvent:
    """Attributes and data of a message."""
    attributes = dict[str, str]()
    for name, given in message.attributes.items():
        text = _text(given)
        if text is None:
            return NoCloudEvent(f"attribute {name[:40]!r} has no value, or a moment that no calendar has")
        attributes[name] = text
    own = {"id": message.id, "source": message.source, "specversion": message.spec_version, "type": message.type}
    match message.WhichOneof("data"):
        case "text_data":
            data = message.text_data.encode()
        case "proto_data":
            data = message.proto_data.value
            attributes.setdefault("datacontenttype", _PROTOBUF)
        case _:
            data = message.binary_data
    return Draft({**attributes, **own}, data)


def event_of(message: pb.CloudEvent) -> CloudEvent | NoCloudEvent:
    """The event that a message is."""
    draft = draft_of(message)
    return draft if isinstance(draft, NoCloudEvent) else checked(draft)


def pack(event: CloudEvent) -> pb.CloudEvent:
    """The event as a message, its data as bytes."""
    message = pb.CloudEvent(
        id=event.id,
        source=event.source,
        spec_version=event.attributes["specversion"],
        type=event.type,
        binary_data=event.data,
    )
    for name, text in event.attributes.items():
        if name not in _OWN:
            message.attributes[name].ce_string = text
    return message


def _text(given: pb.CloudEventAttributeValue) -> str | None:
    match given.WhichOneof("attr"):
        case "ce_boolean":
            return "true" if given.ce_boolean else "false"
        case "ce_integer":
            return str(given.ce_integer)
        case "ce_bytes":
            return base64.b64encode(given.ce_bytes).decode()
        case "ce_timestamp":
            return _moment(given)
        case None:
            return None
        case member:
            return str(getattr(given, member))


def _moment(given: pb.CloudEventAttributeValue) -> str | None:
    try:
        return given.ce_timestamp.ToDatetime(UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError):
        return None

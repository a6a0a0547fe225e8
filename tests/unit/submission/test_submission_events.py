"""CloudEvents as strangers send them, in binary and in both structured forms."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from muster.events.v1.cloudevent_pb2 import CloudEvent as Message
from muster.events.v1.cloudevent_pb2 import CloudEventAttributeValue as Value
from muster_submission.adapters.protobuf_events import event_of, pack, unpack
from muster_submission.domain import cloudevents
from muster_submission.domain.cloudevents import LARGEST, CloudEvent, NoCloudEvent

NEEDED = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
STRUCTURED = [("Content-Type", b"application/cloudevents+json")]
PROTOBUF = [("content-type", b"application/cloudevents+protobuf")]


def read(headers: list[tuple[str, bytes]], value: bytes | None) -> CloudEvent | NoCloudEvent:
    return cloudevents.read(headers, value, unpack)


def binary(value: bytes = b"{}", **more: str) -> CloudEvent | NoCloudEvent:
    return read([(f"ce_{name}", text.encode()) for name, text in (NEEDED | more).items()], value)


def structured(**more: Any) -> CloudEvent | NoCloudEvent:
    return read(STRUCTURED, json.dumps(NEEDED | more).encode())


def test_both_modes_say_the_same() -> None:
    one = binary(b'{"a": 1}', subject="x", region="eu")
    two = structured(data={"a": 1}, subject="x", region="eu")
    assert isinstance(one, CloudEvent)
    assert isinstance(two, CloudEvent)
    assert (
        (one.id, one.source, one.type, one.subject)
        == (two.id, two.source, two.type, two.subject)
        == ("1", "/s", "t", "x")
    )
    assert json.loads(one.data) == json.loads(two.data) == {"a": 1}
    assert one.attributes["region"] == two.attributes["region"] == "eu"
    coded = structured(data_base64=base64.b64encode(b'{"a": 1}').decode(), attempt=3, dry=True, note=None)
    assert isinstance(coded, CloudEvent)
    assert json.loads(coded.data) == {"a": 1}
    assert (coded.attributes["attempt"], coded.attributes["dry"]) == ("3", "true")
    typed = read(
        [*((f"ce_{name}", text.encode()) for name, text in NEEDED.items()), ("content-type", b"text/plain")], b"x"
    )
    assert isinstance(typed, CloudEvent)
    assert typed.content == "text/plain"
    told = structured(data="plain", datacontenttype="text/plain")
    assert isinstance(told, CloudEvent)
    assert told.data == b"plain"
    assert told.name == "/s 1"


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (read([], b"x"), "no CloudEvent"),
        (read([], None), "no CloudEvent"),
        (read([("ce_id", b"\xff")], b""), "no UTF-8"),
        (read(STRUCTURED, b"nope"), "no JSON"),
        (read(STRUCTURED, b"[]"), "not an object"),
        (read(STRUCTURED, b'{"a": NaN}'), "no JSON number"),
        (read(STRUCTURED, b'{"a": 1, "a": 2}'), "twice"),
        (read(STRUCTURED, b"\xff"), "UTF-8"),
        (read(STRUCTURED, b"[" * 100_000), "nested"),
        (read(STRUCTURED, None), "no JSON"),
        (structured(id=""), "no id"),
        (structured(specversion="0.3"), "1.0 is understood"),
        (structured(extra={"x": 1}), "no text"),
        (structured(data_base64="!"), "base64"),
        (structured(id="x" * 3000), "at most 2048"),
        (structured(id="a\x00b"), "none of them NUL"),
        (structured(id="\ud800"), "none of them NUL"),
        (binary(b"x" * (LARGEST + 1)), "at most"),
        (binary(source=""), "no source"),
        (binary(b"", **{f"a{number}": "x" for number in range(100)}), "at most 100"),
        (read([("content-type", b"application/cloudevents-batch+json")], b"[]"), "are understood"),
        (read(PROTOBUF, b"\xff"), "no CloudEvent in protobuf"),
        (read(PROTOBUF, Message(id="1").SerializeToString()), "no specversion, source, type"),
    ],
)
def test_what_is_no_cloudevent_says_why(found: CloudEvent | NoCloudEvent, why: str) -> None:
    assert isinstance(found, NoCloudEvent)
    assert why in found.why


def test_protobuf_says_the_same() -> None:
    message = Message(id="1", source="/s", spec_version="1.0", type="t", text_data='{"a": 1}')
    moment = Timestamp(seconds=0)
    message.attributes["time"].ce_timestamp.CopyFrom(moment)
    message.attributes["dry"].ce_boolean = True
    message.attributes["attempt"].ce_integer = 3
    message.attributes["raw"].ce_bytes = b"x"
    message.attributes["subject"].ce_uri_ref = "x"
    found = read(PROTOBUF, message.SerializeToString())
    assert isinstance(found, CloudEvent)
    assert json.loads(found.data) == {"a": 1}
    assert found.subject == "x"
    wanted = {"time": "1970-01-01T00:00:00Z", "dry": "true", "attempt": "3", "raw": "eA==", "subject": "x"}
    assert found.attributes == NEEDED | wanted
    packed = Packed(type_url="type.example/acme.Ready", value=b"\x08\x01")
    told = event_of(Message(id="1", source="/s", spec_version="1.0", type="t", proto_data=packed))
    assert isinstance(told, CloudEvent)
    assert (told.content, told.data) == ("application/protobuf", b"\x08\x01")


@pytest.mark.parametrize("value", [Value(), Value(ce_timestamp=Timestamp(seconds=2**60))])
def test_an_attribute_without_a_value_is_refused(value: Value) -> None:
    message = Message(id="1", source="/s", spec_version="1.0", type="t", attributes={"a": value})
    found = read(PROTOBUF, message.SerializeToString())
    assert isinstance(found, NoCloudEvent)
    assert "attribute 'a'" in found.why


texts = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(texts, texts, st.dictionaries(st.text("abc", min_size=1, max_size=3), texts), st.binary(max_size=50))
def test_what_is_packed_unpacks(identity: str, source: str, more: dict[str, str], data: bytes) -> None:
    attributes = more | {"id": identity, "source": source, "type": "t", "specversion": "1.0"}
    event = CloudEvent(identity, source, "t", "", attributes, data)
    assert event_of(Message.FromString(pack(event).SerializeToString())) == event


@given(st.binary(max_size=200))
def test_no_value_raises(value: bytes) -> None:
    for headers in (STRUCTURED, PROTOBUF, [(f"ce_{name}", text.encode()) for name, text in NEEDED.items()]):
        assert isinstance(read(headers, value), CloudEvent | NoCloudEvent)

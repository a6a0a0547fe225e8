"""A text of an event that CEL would see in part is an error, wherever it stands: a guard must not be passed by half."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given
from hypothesis import strategies as st

from muster_submission.adapters.cel import evaluate
from muster_submission.adapters.protobuf_events import unpack
from muster_submission.domain.cloudevents import CloudEvent, NoCloudEvent, read, unfit
from muster_submission.domain.expressions import CONDITION, Answer, Broken, Question, Schema, Values

ATTRIBUTES = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
BAD = ("\x00", "\ud800", "\udfff")
WHY = "has a NUL or half of a surrogate pair, which no text of an event may have"


def answer(raw: bytes, condition: str, content: str = "application/json", schema: Schema | None = None) -> Answer:
    event = CloudEvent("1", "/s", "t", "", ATTRIBUTES | {"datacontenttype": content}, raw)
    return evaluate(Question({CONDITION: condition}, event, schema))


def guarded(data: Any) -> Answer:
    return answer(json.dumps(data).encode(), "data.u == 'ok'")


@pytest.mark.parametrize("bad", BAD)
def test_a_guard_is_not_passed_by_the_first_part_of_a_text(bad: str) -> None:
    assert guarded({"u": "ok"}) == Values(matched=True, texts={})
    assert guarded({"u": f"ok{bad}evil"}) == Broken(f"data.u {WHY}")
    assert guarded({"u": "ok", "o": [{"p": bad}]}) == Broken(f"data.o.p {WHY}")
    assert guarded({"u": "ok", f"k{bad}": 1}) == Broken(f"the name of a member of data {WHY}")


def test_text_and_attributes_are_looked_at_too() -> None:
    assert answer(b"ok\0evil", "data == 'ok'", "text/plain") == Broken(f"data {WHY}")
    event = CloudEvent("1", "/s", "t", "", ATTRIBUTES | {"user": "ok\0evil"})
    assert evaluate(Question({CONDITION: "event.user == 'ok'"}, event)) == Broken(f"event.user {WHY}")


def test_protobuf_is_looked_at_too() -> None:
    file = descriptor_pb2.FileDescriptorProto(name="a.proto", package="a", syntax="proto3")
    field = descriptor_pb2.FieldDescriptorProto
    file.message_type.add(name="M").field.add(name="u", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    schema = Schema(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString(), "a.M")
    assert answer(b"\x0a\x02ok", "data.u == 'ok'", "application/protobuf", schema) == Values(matched=True, texts={})
    found = answer(b"\x0a\x05ok\x00ev", "data.u == 'ok'", "application/protobuf", schema)
    assert found == Broken(f"data.u {WHY}")


def test_half_of_a_pair_in_structured_text_is_not_replaced() -> None:
    value = json.dumps(ATTRIBUTES | {"datacontenttype": "text/plain", "data": "a\ud800b"}).encode()
    event = read([("content-type", b"application/cloudevents+json")], value, unpack)
    assert not isinstance(event, NoCloudEvent)
    found = evaluate(Question({CONDITION: "data == 'a?b'"}, event))
    assert isinstance(found, Broken)
    assert "nor text" in found.why


def test_depth_is_no_way_around_it() -> None:
    deep: Any = "x\0"
    for _ in range(5_000):
        deep = [deep, "x"]
    assert unfit(deep, "data") == "data"
    assert unfit({"k" * 500: {"v": "\0"}}, "data").startswith("data.kkk")


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=5)
FIT = st.recursive(
    TEXTS | st.integers() | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(FIT, TEXTS, TEXTS, st.sampled_from(BAD), st.booleans())
def test_one_bad_character_anywhere_is_found_and_nothing_else_is(
    fit: Any, before: str, after: str, bad: str, as_name: bool
) -> None:
    assert unfit(fit, "data") == ""
    text = f"{before}{bad}{after}"
    assert unfit([fit, {"n": {text: fit} if as_name else [fit, text]}, fit], "data") != ""

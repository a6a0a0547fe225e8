"""CloudEvents as strangers send them, and the rules that take them."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from muster_submission.domain.cloudevents import LARGEST, CloudEvent, NoCloudEvent, read
from muster_submission.domain.triggers import Firing, Lacks, Remembered, Rule, check, environment, fire

NEEDED = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
STRUCTURED = [("Content-Type", b"application/cloudevents+json")]
RULE = Rule("p", "r", "base", "t")


def binary(value: bytes = b"{}", **more: str) -> CloudEvent | NoCloudEvent:
    return read([(f"ce_{name}", text.encode()) for name, text in (NEEDED | more).items()], value)


def structured(**more: Any) -> CloudEvent | NoCloudEvent:
    return read(STRUCTURED, json.dumps(NEEDED | more).encode())


def event(data: Any = None, **more: str) -> CloudEvent:
    found = structured(data=data, **more)
    assert isinstance(found, CloudEvent)
    return found


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
    assert one.data.json() == two.data.json() == {"a": 1}
    assert one.attributes["region"] == two.attributes["region"] == "eu"
    coded = structured(data_base64=base64.b64encode(b'{"a": 1}').decode(), attempt=3, dry=True, note=None)
    assert isinstance(coded, CloudEvent)
    assert coded.data.json() == {"a": 1}
    assert (coded.attributes["attempt"], coded.attributes["dry"]) == ("3", "true")
    typed = read(
        [*((f"ce_{name}", text.encode()) for name, text in NEEDED.items()), ("content-type", b"text/plain")], b"x"
    )
    assert isinstance(typed, CloudEvent)
    assert typed.attributes["datacontenttype"] == "text/plain"


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
    ],
)
def test_what_is_no_cloudevent_says_why(found: CloudEvent | NoCloudEvent, why: str) -> None:
    assert isinstance(found, NoCloudEvent)
    assert why in found.why


def test_a_rule_takes_by_type_source_and_subject() -> None:
    seen = event(subject="x")
    for rule, taken in (
        (RULE, True),
        (Rule("p", "r", "b", "t", "/s", "x"), True),
        (Rule("p", "r", "b", "u"), False),
        (Rule("p", "r", "b", "t", "/other"), False),
        (Rule("p", "r", "b", "t", "", "y"), False),
        (Rule("p", "r", "b", "t", enabled=False), False),
    ):
        assert rule.takes(seen) is taken


def took(data: Any, **variables: str) -> dict[str, str] | Lacks:
    return environment(Rule("p", "r", "b", "t", variables=variables), event(data))


def test_values_come_whole() -> None:
    data = {"a": {"b": ["x", {"c": "$(rm) 'q' \n"}]}, "n": 1.5, "t": True, "o": {"k": "ü"}}
    found = took(data, A="a.b.1.c", N="n", T="t", O="o", ID="ce:id")
    assert found == {"A": "$(rm) 'q' \n", "N": "1.5", "T": "true", "O": '{"k":"ü"}', "ID": "1"}


@pytest.mark.parametrize(
    ("data", "origin", "why"),
    [
        ({"a": 1}, "b", "data of the event has no member b"),
        ({"a": [1]}, "a.1", "data.a of the event has no member 1"),
        ({"a": None}, "a", "is null"),
        ({"a": "SECRET:s,k"}, "a", "may not reach for a secret"),
        ({"a": "x\x00"}, "a", "no environment variable can hold"),
        ({"a": "x" * 70_000}, "a", "at most 65536"),
        ({}, "ce:region", "no attribute region"),
    ],
)
def test_what_the_event_lacks(data: Any, origin: str, why: str) -> None:
    found = took(data, V=origin)
    assert isinstance(found, Lacks)
    assert "trigger p/r takes V" in found.why
    assert why in found.why


def test_data_that_is_no_json() -> None:
    seen = binary(b"plain")
    assert isinstance(seen, CloudEvent)
    found = environment(Rule("p", "r", "b", "t", variables={"V": "a"}), seen)
    assert isinstance(found, Lacks)
    assert environment(RULE, seen) == {}


def test_a_firing_is_remembered_for_the_window() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    first = fire(None, now, timedelta(days=7))
    assert first == Firing(1, now + timedelta(days=7))
    assert isinstance(first, Firing)
    assert isinstance(fire(first, now + timedelta(days=6), timedelta(days=7)), Remembered)
    again = fire(first, now + timedelta(days=7), timedelta(days=1))
    assert again == Firing(2, now + timedelta(days=8))


def test_everything_wrong_with_a_rule_is_said() -> None:
    assert check(Rule("p", "r", "b", "t", variables={"A_1": "a.b", "B": "ce:id"})) == []
    bad = Rule("P", "", "b", "", "\x00", "s" * 2000, {"1": "a", "B": "a..b", "C": "ce:X", "D": ""}, timedelta(days=91))
    assert {one.path for one in check(bad)} == {
        "trigger.project",
        "trigger.name",
        "trigger.event_type",
        "trigger.event_source",
        "trigger.event_subject",
        "trigger.environment.1",
        "trigger.environment.B",
        "trigger.environment.C",
        "trigger.environment.D",
        "trigger.window",
    }
    many = Rule("p", "r", "b", "t", variables={f"V{number}": "a" for number in range(101)})
    assert [one.path for one in check(many)] == ["trigger.environment"]

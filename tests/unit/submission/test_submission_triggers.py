"""The rules that turn events into runs: what they take, what they may say, and what a run gets of an event."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.duration_pb2 import Duration
from hypothesis import given
from hypothesis import strategies as st

from muster.api.v1 import triggers_pb2 as api
from muster_kernel.words import expand, split
from muster_submission.adapters.cel import evaluate, problems
from muster_submission.adapters.trigger_records import message_of, rule_of
from muster_submission.domain.cloudevents import CloudEvent
from muster_submission.domain.expressions import CONDITION, Broken, Question, Schema, Values
from muster_submission.domain.firings import Excess, Limits, Rate
from muster_submission.domain.taken import Lacks, Taken, appended, take
from muster_submission.domain.triggers import Choice, Rule, check, fits

RULE = Rule("p", "r", "base", "t")


def event(data: Any = None, content: str = "", **more: str) -> CloudEvent:
    attributes = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"} | more
    raw = data if isinstance(data, bytes) else b"" if data is None else json.dumps(data).encode()
    if content:
        attributes["datacontenttype"] = content
    return CloudEvent("1", attributes["source"], attributes["type"], attributes.get("subject", ""), attributes, raw)


def asked(data: Any = None, *, schema: Schema | None = None, content: str = "", **expressions: str) -> Any:
    return evaluate(Question(expressions, event(data, content), schema))


def test_a_rule_takes_by_type_source_and_subject() -> None:
    seen = event(subject="x/y")
    for more, taken in (
        ({}, True),
        ({"event_sources": ("/other", "/s"), "event_subject": "x/y"}, True),
        ({"event_sources": ("/*",), "event_subject": "x/*", "event_type": "*"}, True),
        ({"event_type": "u"}, False),
        ({"event_type": "t.*"}, False),
        ({"event_sources": ("/other",)}, False),
        ({"event_sources": ()}, False),
        ({"event_subject": "y*"}, False),
        ({"enabled": False}, False),
    ):
        assert replace(RULE, **more).takes(seen) is taken, more


@given(st.text("ab", max_size=4), st.text("ab", max_size=4))
def test_a_prefix_fits_what_begins_with_it_and_a_text_only_itself(one: str, two: str) -> None:
    assert fits(one + "*", one + two)
    assert fits(one, two) == (one == two)


def test_values_come_whole() -> None:
    data = {"a": {"b": ["x", {"c": "$(rm) 'q' \n"}]}, "n": 1.5, "w": 3.0, "t": True, "o": {"k": "ü"}}
    found = asked(
        data,
        condition="event.type == 't' && data.n > 1.0",
        A="data.a.b[1].c",
        N="data.n",
        W="data.w",
        T="data.t",
        O="data.o",
        I="event.id",
        D="duration('90s')",
        M="timestamp('2026-01-01T00:00:00Z')",
        B="b'raw'",
        C="'x' + event.id",
    )
    assert isinstance(found, Values)
    assert found.texts == {
        "A": "$(rm) 'q' \n",
        "N": "1.5",
        "W": "3",
        "T": "true",
        "O": '{"k":"ü"}',
        "I": "1",
        "D": "90s",
        "M": "2026-01-01T00:00:00Z",
        "B": "raw",
        "C": "x1",
    }
    assert asked({}, condition="1 == 2", A="data.missing") == Values(matched=False, texts={})
    assert asked(None, A="data == null").texts == {"A": "true"}
    assert asked(b"plain", content="text/plain; charset=utf-8", A="data").texts == {"A": "plain"}


@pytest.mark.parametrize(
    ("data", "content", "expression", "why"),
    [
        ({"a": 1}, "", "data.b", 'no such key|Key not found in map : "b"'),
        ({"a": None}, "", "data.a", "it is null"),
        ({"a": "x"}, "", "data.a > 3", "No matching overloads"),
        (b"nope", "application/json", "data", "no JSON"),
        (b"[" * 100_000, "", "data", "nested too deeply"),
        (b"\xff", "text/plain", "data", "neither JSON, protobuf nor text"),
        (b"\x08\x01", "application/protobuf", "data", "no dataSchema"),
        (b'{"n": 1e999}', "", "data.n", "too large"),
        (b'{"n": 99999999999999999999}', "", "data.n", "out of range"),
        ({"l": [0] * 20_000}, "", "data.l.all(x, x == 0)", "budget exceeded"),
        ({}, "", "1 +", "Syntax error"),
        ({}, "", "type(1)", "no text"),
    ],
)
def test_what_the_event_lacks_is_said(data: Any, content: str, expression: str, why: str) -> None:
    found = asked(data, content=content, V=expression)
    assert isinstance(found, Broken)
    assert any(one in found.why for one in why.split("|")), found.why
    assert not found.runaway


def test_a_condition_is_true_or_false() -> None:
    found = asked({"a": 1}, condition="data.a")
    assert isinstance(found, Broken)
    assert "a condition gives true or false" in found.why
    said = problems({CONDITION: "1 + 1", "environment.A": "nothing", "arguments.0": "data.x"}, None)
    assert said.keys() == {CONDITION, "environment.A"}
    assert "gives INT" in said[CONDITION]
    assert "undeclared reference to 'nothing'" in said["environment.A"]


def schema() -> Schema:
    file = descriptor_pb2.FileDescriptorProto(name="acme.proto", package="acme", syntax="proto3")
    message = file.message_type.add(name="Ready")
    field = descriptor_pb2.FieldDescriptorProto
    message.field.add(name="set_name", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    message.field.add(name="rows", number=2, type=field.TYPE_INT32, label=field.LABEL_OPTIONAL)
    return Schema(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString(), "acme.Ready")


def test_protobuf_data_is_read_by_the_rules_schema() -> None:
    raw = b"\x0a\x03abc\x10\x07"
    found = asked(raw, schema=schema(), content="application/protobuf", A="data.set_name", B="data.rows + 1")
    assert isinstance(found, Values)
    assert found.texts == {"A": "abc", "B": "8"}
    broken = asked(b"\xff", schema=schema(), content="application/x-protobuf", A="data.rows")
    assert isinstance(broken, Broken)
    assert "is no acme.Ready" in broken.why
    assert problems({}, schema()) == {}
    assert "no message 'acme.Other'" in problems({}, replace(schema(), message="acme.Other"))["data_schema"]
    assert "cannot be read" in problems({}, Schema(b"\xff", "x"))["data_schema"]


def test_a_run_takes_what_the_rule_says() -> None:
    rule = replace(
        RULE,
        environment={"A": "data.a"},
        arguments=("data.b", "data.c"),
        choices=(Choice("image", "data.i", ("x", "y")), Choice("project", "data.p", ("q",))),
    )
    assert rule.expressions() == {
        "environment.A": "data.a",
        "arguments.0": "data.b",
        "arguments.1": "data.c",
        "fields.image": "data.i",
        "fields.project": "data.p",
    }
    texts = {"environment.A": "1", "arguments.0": "2", "arguments.1": "", "fields.image": "x", "fields.project": "q"}
    assert take(rule, texts) == Taken({"A": "1"}, ("2", ""), {"image": "x"}, "q")
    for key, text, why in (
        ("fields.image", "z", "the event gives 'z'; allowed are 'x', 'y'"),
        ("fields.project", "p", "allowed are 'q'"),
        ("environment.A", "SECRET:s,k", "may not reach for a secret"),
        ("arguments.0", "a\x00", "neither an argument nor"),
        ("arguments.0", "\ud800", "neither an argument nor"),
        ("arguments.0", "x" * 70_000, "at most 65536"),
    ):
        refused = take(rule, texts | {key: text})
        assert isinstance(refused, Lacks)
        assert why in refused.why


values = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=30)


@given(
    st.lists(
        values | st.sampled_from(["$(HOME)", "${HOME}", "$$", "$", "'; rm -rf /", "-x", "", "a b", '"', "\\"]),
        max_size=5,
    )
)
def test_an_argument_stays_one_word_as_it_is(given_texts: list[str]) -> None:
    written = "--name $(NAME) 'two words'"
    words = split(appended(written, tuple(given_texts)))
    as_started = [expand(word, {"NAME": "n", "HOME": "/root"}) for word in words]
    assert as_started == ["--name", "n", "two words", *given_texts]


def test_arguments_behind_what_cannot_be_split() -> None:
    assert appended("it's", ()) == "it's"
    assert appended("", ("a b",)) == "'a b'"
    with pytest.raises(ValueError, match="No closing quotation"):
        appended("it's", ("x",))


def test_everything_wrong_with_a_rule_is_said() -> None:
    many = tuple(str(number) for number in range(101))
    good = replace(
        RULE,
        event_type="a.*",
        event_sources=("/s*", "*"),
        environment={"A_1": "data.a"},
        choices=(Choice("image", "data.i", ("x",)),),
        limits=Limits(1, Rate(1, timedelta(seconds=1)), Excess()),
    )
    assert check(good) == []
    bad = Rule(
        "P",
        "",
        "b",
        "",
        ("a*b", "", "x" * 2000),
        "\x00",
        "x" * 5000,
        {"1": "a", "C": ""},
        ("",),
        (Choice("image", "i", ()), Choice("image", "i", ("",)), Choice("cpu", "", many)),
        timedelta(days=91),
        Limits(10_001, Rate(0, timedelta(days=2)), Excess(most=0, deadline=timedelta(0))),
        "\x00",
        Schema(b"x" * (257 << 10), "m"),
    )
    assert {one.path.removeprefix("trigger.") for one in check(bad)} == {
        "project",
        "name",
        "event_type",
        "event_sources.0",
        "event_sources.1",
        "event_sources.2",
        "event_subject",
        "condition",
        "environment.1",
        "environment.C",
        "arguments.0",
        "fields.image",
        "fields.cpu",
        "window",
        "max_running",
        "rate.runs",
        "rate.per",
        "excess.most",
        "excess.deadline",
        "run_as",
        "data_schema",
    }
    crowd = replace(
        RULE,
        event_sources=("/s",) * 101,
        environment={f"V{number}": "a" for number in range(101)},
        arguments=("a",) * 101,
        choices=tuple(Choice(f"f{number}", "a", ("x",)) for number in range(101)),
    )
    assert {one.path for one in check(crowd)} >= {
        "trigger.event_sources",
        "trigger.environment",
        "trigger.arguments",
        "trigger.fields",
    }
    assert [one.path for one in check(replace(RULE, event_sources=()))] == ["trigger.event_sources"]


spans = st.timedeltas(timedelta(seconds=1), timedelta(days=7))
rules = st.builds(
    Rule,
    project=st.just("p"),
    name=st.just("r"),
    template=st.just("b"),
    event_type=st.sampled_from(["t", "t.*"]),
    event_sources=st.lists(st.sampled_from(["/s", "*"]), min_size=1).map(tuple),
    event_subject=st.sampled_from(["", "x*"]),
    condition=st.sampled_from(["", "true"]),
    environment=st.dictionaries(st.sampled_from(["A", "B"]), st.just("data.a")),
    arguments=st.lists(st.just("data.b"), max_size=2).map(tuple),
    choices=st.lists(st.just(Choice("image", "data.i", ("x",))), max_size=1).map(tuple),
    window=spans,
    limits=st.builds(
        Limits,
        st.integers(0, 9),
        st.none() | st.builds(Rate, st.integers(1, 9), spans),
        st.builds(Excess, st.booleans(), st.integers(1, 9), spans),
    ),
    run_as=st.sampled_from(["", "robot"]),
    schema=st.none() | st.just(Schema(b"x", "m")),
    enabled=st.booleans(),
)


@given(rules)
def test_a_rule_goes_through_its_message_unchanged(rule: Rule) -> None:
    assert rule_of(api.Trigger.FromString(message_of(rule).SerializeToString())) == rule


def test_durations_that_no_calendar_holds_are_refused() -> None:
    for seconds in (2**62, -(2**62)):
        asked_for = api.Trigger(project="p", name="r", template="b", event_type="t", event_sources=["*"])
        asked_for.window.CopyFrom(Duration(seconds=seconds))
        assert [one.path for one in check(rule_of(asked_for))] == ["trigger.window"]
    assert datetime(2026, 1, 1, tzinfo=UTC) + rule_of(api.Trigger()).window == datetime(2026, 1, 8, tzinfo=UTC)

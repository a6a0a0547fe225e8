"""The small parts: text, backoff, breaker, traces, the catalogues of topics and metrics, identity, health."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import socket
import urllib.error
import urllib.request
from datetime import timedelta
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from muster_chassis import health, identity, metrics, topics, tracing
from muster_chassis.backoff import Backoff
from muster_chassis.breaker import LEAST, WINDOW, Breaker
from muster_chassis.outbox_order import OutOfOrder, check_order
from muster_chassis.text import clean
from muster_kernel.ids import is_uuid


@example("\ud800" * 3, 3)
@given(st.one_of(st.text(alphabet=st.characters(codec=None)), st.binary()), st.integers(3, 50))
def test_cleaned_text_fits_everywhere(text: str | bytes, limit: int) -> None:
    cleaned = clean(text, limit)
    assert "\x00" not in cleaned
    assert len(cleaned) <= limit
    assert cleaned.encode().decode() == cleaned


def test_ordinary_text_stays_as_it_is() -> None:
    assert clean("Grüße, 世界") == "Grüße, 世界"


def test_pauses_double_up_to_their_bound() -> None:
    backoff = Backoff(first=1, last=8)
    pauses = [backoff.next() for _ in range(50)]
    assert all(low / 2 <= pause <= low for pause, low in zip(pauses, [1, 2, 4, 8, 8, 8], strict=False))
    backoff.reset()
    assert backoff.next() <= 1


def test_the_breaker_needs_a_hundred_records_and_more_than_half() -> None:
    breaker = Breaker()
    for _ in range(LEAST - 1):
        breaker.note(rejected=True)
    assert not breaker.tripped
    breaker.note(rejected=True)
    assert breaker.tripped
    breaker.reset()
    assert not breaker.tripped


@given(st.integers(0, 2**32), st.integers(1, 3000), st.floats(0, 1))
def test_the_breaker_counts_the_last_thousand(seed: int, count: int, share: float) -> None:
    drawn = random.Random(seed)
    outcomes = [drawn.random() < share for _ in range(count)]
    breaker = Breaker()
    for rejected in outcomes:
        breaker.note(rejected=rejected)
    window = outcomes[-WINDOW:]
    assert breaker.counts == (sum(window), len(window))
    assert breaker.tripped == (len(window) >= LEAST and 2 * sum(window) > len(window))


def test_a_trace_goes_on_or_begins() -> None:
    parent = tracing.fresh()
    with tracing.span("a", parent) as here:
        assert tracing.trace_id(here) == tracing.trace_id(parent) == tracing.trace_id(tracing.current() or "")
    with tracing.span("b", "nonsense") as new:
        assert tracing.valid(new) == new
    assert tracing.current() is None


@pytest.mark.parametrize("text", [None, "", "00-0-0-0", f"00-{'0' * 32}-{'1' * 16}-01", f"01-{'1' * 32}-{'1' * 16}-01"])
def test_broken_traces_are_dropped(text: str | None) -> None:
    assert tracing.valid(text) is None


def test_every_topic_has_an_owner_and_a_meaning() -> None:
    owners = {"submission", "policy", "scheduler", "telemetry"}
    for topic in (*topics.FIXED, topics.assignments("east"), topics.reports("east")):
        assert topic.owner in owners
        assert topic.meaning.endswith(".")
        assert topics.named(topic.name) == topic
    assert topics.assignments("east").partitions == topics.reports("east").partitions == 1
    assert [topic.name for topic in topics.FIXED if not topic.ours] == ["muster.triggers"]


@pytest.mark.parametrize("name", ["", "East", "a.b", "-a", "a-", "x" * 64, "ä"])
def test_a_cluster_id_that_is_no_topic_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no cluster id"):
        topics.assignments(name)


def test_topics_outside_the_catalogue_do_not_exist() -> None:
    with pytest.raises(KeyError):
        topics.named("muster.unheard")


def test_every_metric_says_what_it_means_and_what_to_do() -> None:
    for entry in metrics.catalogue():
        assert entry.name.startswith("muster_")
        assert entry.meaning.endswith((".", "?"))
        assert entry.action
        assert entry.kind != "counter" or entry.name.endswith("_total")


def test_a_metric_is_declared_once() -> None:
    with pytest.raises(ValueError, match="declared once"):
        metrics.counter("muster_commits_total", unit="x", meaning="x.", action="x")


def test_event_ids_are_new_and_carry_the_time() -> None:
    ids = [identity.event_id() for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert all(is_uuid(one) for one in ids)
    assert abs((UUID(ids[0]).int >> 80) / 1000 - identity.now().timestamp()) < timedelta(minutes=1).total_seconds()


def test_a_trouble_counts_after_its_grace() -> None:
    now = itertools.count(0.0, 3.0)
    state = health.Health(grace=5.0, clock=lambda: next(now))
    state.bad("kafka", "away")
    assert state.serving
    assert state.troubles == {"kafka": "away"}
    state.good("kafka")
    assert state.serving
    state.bad("consumer", "stopped", at_once=True)
    assert not state.serving


def test_a_degraded_condition_is_shown_and_the_process_serves() -> None:
    state = health.Health(grace=0.0)
    state.degraded("records muster.submissions", "the table is locked")
    assert (state.serving, state.troubles) == (True, {})
    assert state.waiting == {"records muster.submissions": "the table is locked"}
    assert metrics.value(health.CONDITION, condition="records muster.submissions") == 0
    state.good("records muster.submissions")
    assert state.waiting == {}


def test_the_side_door_names_what_is_degraded() -> None:
    door = metrics.Exposition("127.0.0.1:0", dict, lambda: {"lane x": "topic x is missing"})
    door.start()
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{door.port}/healthz") as answer:
            assert json.loads(answer.read()) == {
                "serving": True,
                "troubles": {},
                "degraded": {"lane x": "topic x is missing"},
            }
    finally:
        door.stop()


def test_the_side_door_answers_while_others_say_nothing() -> None:
    door = metrics.Exposition("127.0.0.1:0", dict)
    door.start()
    with contextlib.ExitStack() as silent:
        try:
            for _ in range(100):
                silent.enter_context(socket.create_connection(("127.0.0.1", door.port)))
            with urllib.request.urlopen(f"http://127.0.0.1:{door.port}/healthz", timeout=60) as answer:
                assert answer.status == 200
        finally:
            door.stop()


def test_the_side_door_answers_with_metrics_and_reasons() -> None:
    troubles: dict[str, str] = {}
    door = metrics.Exposition("127.0.0.1:0", lambda: troubles)
    door.start()
    try:
        base = f"http://127.0.0.1:{door.port}"
        with urllib.request.urlopen(f"{base}/metrics") as answer:
            assert b"muster_commits_total" in answer.read()
        with urllib.request.urlopen(f"{base}/ready") as answer:
            assert answer.status == 200
        troubles["kafka"] = "away"
        with pytest.raises(urllib.error.HTTPError, match="503") as refused:
            urllib.request.urlopen(f"{base}/healthz")
        assert b"away" in refused.value.read()
        refused.value.close()
    finally:
        door.stop()


def _row(number: int, version: int, topic: str = "muster.decisions", aggregate: str = "w1") -> dict[str, object]:
    return {"id": number, "version": version, "topic": topic, "aggregate": aggregate}


def test_versions_grow_by_one_an_aggregate() -> None:
    check_order([_row(1, 5), _row(2, 1, aggregate="w2"), _row(3, 6), _row(4, 0), _row(5, 7)])
    for second in (5, 7, 4):
        with pytest.raises(OutOfOrder, match="outbox row 2"):
            check_order([_row(1, 5), _row(2, second)])


def test_on_compacted_topics_they_only_grow() -> None:
    check_order([_row(1, 5, "muster.tenancy"), _row(2, 9, "muster.tenancy")])
    with pytest.raises(OutOfOrder):
        check_order([_row(1, 5, "muster.tenancy"), _row(2, 5, "muster.tenancy")])

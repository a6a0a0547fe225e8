"""What stands in the query of a REST request: read as it was meant, or refused by its name with what is allowed."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from muster_chassis.rpc import KeyReused
from muster_submission.rest import answers, requests
from muster_submission.rest.errors import BadBody

KNOWN = ["CPU", "GpuMemory", "POD_COUNT"]


def asked(*query: tuple[str, str]) -> Request:
    return Request({"type": "http", "query_string": urlencode(query).encode(), "headers": []})


def refusal(read: Callable[[], Any]) -> str:
    with pytest.raises(BadBody) as caught:
        read()
    (said,) = caught.value.violations
    assert said.description.startswith(said.field)
    return str(said.description)


def keyed(key: str) -> Request:
    return Request({"type": "http", "query_string": b"", "headers": [(b"idempotency-key", key.encode())]})


def test_a_key_is_the_callers_own_and_a_long_one_is_refused_by_its_own_length() -> None:
    assert [requests.own_key(keyed(key)) for key in ("k1", "k" * 200, "")] == ["k1", "k" * 200, None]
    assert requests.idempotency_key(keyed("k1")) == "k1"
    assert requests.idempotency_key(asked()) != requests.idempotency_key(asked())
    for read in (requests.own_key, requests.idempotency_key):
        said = refusal(lambda read=read: read(keyed("k" * 5000)))  # type: ignore[misc]
        assert said == "Idempotency-Key has 5000 characters; it has 1 to 200"


def test_a_reused_key_is_said_as_it_was_given_and_not_as_a_name_that_is_taken() -> None:
    body = json.loads(bytes(answers.refused(KeyReused("k1")).body))
    assert (body["code"], body["message"]) == (409, KeyReused.said)
    assert "name" not in body["message"]
    assert body["details"] == "idempotency key 'k1' came with another request before; use a new key for a new request"


def test_whole_numbers_stay_within_their_bounds() -> None:
    assert [requests.whole(asked(("n", text)), "n", 0, 20, 7) for text in ("0", "20")] == [0, 20]
    assert requests.whole(asked(), "n", 0, 20, 7) == 7
    for wrong in ("-1", "21", "", "1.0", "\u0661", "9" * 5000):
        assert refusal(lambda wrong=wrong: requests.whole(asked(("n", wrong)), "n", 0, 20, 7)).endswith("from 0 to 20")  # type: ignore[misc]
    assert requests.whole_schema(0, 20, 7) == {"type": "integer", "minimum": 0, "maximum": 20, "default": 7}


def test_flags_and_words_come_in_any_case_and_as_members_of_a_class() -> None:
    assert [requests.flag(asked(("f", text)), "f") for text in ("true", "False", "")] == [True, False, False]
    assert refusal(lambda: requests.flag(asked(("f", "1")), "f")) == "f is '1'; it is true or false"
    assert requests.one_of(asked(("w", "Metric.cpu")), "w", KNOWN) == "CPU"
    assert requests.one_of(asked(), "w", KNOWN, "CPU") == "CPU"
    assert refusal(lambda: requests.one_of(asked(), "w", KNOWN)) == "w is ''; it is one of CPU, GpuMemory, POD_COUNT"


def test_several_words_are_repeated_or_parted_by_commas_and_count_once() -> None:
    query = asked(("w", "pod_count, CPU,"), ("w", "Metric.CPU"))
    assert requests.words(query, "w", KNOWN, least=1, most=3) == ["POD_COUNT", "CPU"]
    assert requests.words(asked(), "w", KNOWN, least=0, most=1) == []
    bounds = "expected 1 to 2 of CPU, GpuMemory, POD_COUNT"
    assert refusal(lambda: requests.words(query, "w", KNOWN, least=1, most=2)) == f"w: 3 are given; {bounds}"
    assert refusal(lambda: requests.words(asked(), "w", KNOWN, least=1, most=2)) == f"w: 0 are given; {bounds}"
    strange = asked(("w", "CPU,Disk"))
    assert refusal(lambda: requests.words(strange, "w", KNOWN, least=1, most=2)) == f"w: 'Disk' is not known; {bounds}"


@pytest.mark.parametrize("text", ["2026-01-31T12:00:00Z", "2026-01-31T13:00:00 01:00", " 2026-01-31T12:00:00"])
def test_times_are_utc_and_a_plus_sign_may_have_become_a_space(text: str) -> None:
    assert requests.moment(asked(("at", text)), "at") == datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize("text", ["now", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "1969-12-31", "\0"])
def test_what_is_no_time_that_anything_happened_at_is_refused(text: str) -> None:
    assert "a time after 1970 is expected" in refusal(lambda: requests.moment(asked(("at", text)), "at"))


def test_a_stretch_of_time_has_both_ends_in_their_order() -> None:
    early, late = "2026-01-31T12:00:00+00:00", "2026-01-31T13:00:00+00:00"
    start, end = requests.stretch_of_time(asked(("start", early), ("end", late)))
    assert (start.isoformat(), end.isoformat()) == (early, late)
    assert refusal(lambda: requests.stretch_of_time(asked(("end", late)))).startswith("start is missing")
    assert refusal(lambda: requests.stretch_of_time(asked(("start", late)))).startswith("end is missing")
    turned = asked(("start", late), ("end", early))
    assert refusal(lambda: requests.stretch_of_time(turned)) == "end lies before start"


@given(st.text(max_size=60))
def test_no_query_ends_in_another_error(text: str) -> None:
    query = asked(("start", text), ("end", text), ("n", text), ("w", text))
    for read in (
        lambda: requests.stretch_of_time(query),
        lambda: requests.whole(query, "n", 0, 10, 0),
        lambda: requests.words(query, "w", KNOWN, least=1, most=2),
        lambda: requests.one_of(query, "w", KNOWN),
    ):
        try:
            read()
        except BadBody as error:
            assert error.violations

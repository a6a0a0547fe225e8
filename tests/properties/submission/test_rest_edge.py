"""Whatever comes in over HTTP, the edge's own parts answer with one of their refusals and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from muster_submission.rest.bodies import as_object, parse
from muster_submission.rest.errors import BadBody, NoSuchRoute, WrongMethod
from muster_submission.rest.router import Router
from tests.support.served import served

ROUTER = Router(served())
METHODS = st.sampled_from(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "X"])
SEGMENTS = st.sampled_from(["api", "v1", "workloads", "trainings", "apis", "", "..", "{workloadId}", "1"]) | st.text()
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner, max_size=5),
    max_leaves=20,
)


@given(METHODS, st.lists(SEGMENTS, max_size=8))
def test_every_path_leads_somewhere_or_is_refused(method: str, segments: list[str]) -> None:
    path = "/" + "/".join(segments)
    try:
        operation, values = ROUTER.find(method, path)
    except (NoSuchRoute, WrongMethod):
        return
    assert set(values) == {part[1:-1] for part in operation.path.split("/") if part.startswith("{")}


@given(st.dictionaries(TEXT, VALUES))
def test_what_json_says_is_what_is_read(said: dict[str, Any]) -> None:
    assert as_object(json.dumps(said).encode()) == said
    assert as_object(json.dumps(json.dumps(said)).encode()) == said


@given(st.binary() | st.text().map(lambda text: text.encode("utf-8", "surrogatepass")))
@example(b"{" * 100_000)
@example(b'{"a":1e999}')
@example(b'"' * 1001)
def test_no_bytes_make_the_reader_fail_otherwise(content: bytes) -> None:
    try:
        assert isinstance(as_object(content), dict)
    except BadBody as error:
        assert error.message


@given(st.dictionaries(TEXT, VALUES, min_size=1, max_size=3))
def test_a_member_twice_is_always_seen(said: dict[str, Any]) -> None:
    once = json.dumps(said)
    twice = f"{once[:-1]}, {once[1:]}"
    with pytest.raises(BadBody, match="twice"):
        parse(twice)

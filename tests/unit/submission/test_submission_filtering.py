"""filterBy read into terms: every operator, where commas separate, and what is refused with what is known."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.options.v1 import options_pb2
from muster.workload.v1.workload_pb2 import WorkloadSpec
from muster_submission.domain.fields import BY_NAME, FIELDS, PHASE_WORDS, ListField
from muster_submission.domain.filtering import MOST, BadFilter, Places, conditions, read
from muster_submission.domain.terms import LAST, Except, Interval, Points, Term, Way, holds, impossible, joined, look

PLACES = Places(
    {
        "projectId": lambda: [("team-a", "1"), ("team-b", "22")],
        "departmentName": lambda: [("team-a", "vision"), ("team-b", "speech")],
        "departmentId": lambda: [("team-a", "1"), ("team-b", "2")],
        "clusterId": lambda: [("east", "71f69d83-ba66-4822-adf5-55ce55efd210")],
    }
)
UUID = "01900000-0000-7000-8000-000000000001"
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def terms(*given: str) -> tuple[Term, ...]:
    return read(given, PLACES)


def passes(condition: str, value: object) -> bool:
    return all(holds(term, value) for term in terms(condition))


@pytest.mark.parametrize(
    ("condition", "yes", "no"),
    [
        ("name==a", "a", "b"),
        ("name!=a", "b", "a"),
        ("name<=b", "b", "c"),
        ("name>=b", "b", "a"),
        ("name=@b", "abc", "ac"),
        ("name!@b", "ac", "abc"),
        ("name=^ab", "abc", "cab"),
        ("name=$bc", "abc", "bca"),
        ("name=^", "anything", None),
        ("name=@%", "50%", "50"),
        ("name=@_", "a_b", "ab"),
        ("name==a,b", "a,b", "a"),
        ("name===x", "=x", "x"),
        ("type==Training", 2, 1),
        ("type!=Training", 1, 2),
        ("type=^W", 1, 2),
        ("phase=@ing", PHASE_WORDS["Running"], PHASE_WORDS["Failed"]),
        ("phase>=Running", PHASE_WORDS["Stopped"], PHASE_WORDS["Failed"]),
        ("projectId==22", "team-b", "team-a"),
        ("projectId!=22", "team-a", "team-b"),
        ("departmentName=^vis", "team-a", "team-b"),
        ("clusterId==71f69d83-ba66-4822-adf5-55ce55efd210", "east", "west"),
        ("allocatedGPU>=1.5", 10500, 10499),
        ("allocatedGPU<=1.5", 10500, 10501),
        ("allocatedGPU==0.33", 2310, 2309),
        ("allocatedGPU!=0", 7000, 0),
        ("createdAt>=2026-01-31T12:00:00Z", NOON, NOON - timedelta(microseconds=1)),
        ("createdAt<=2026-01-31T12:00:00Z", NOON, NOON + timedelta(microseconds=1)),
        ("createdAt==2026-01-31T13:00:00+01:00", NOON, NOON + timedelta(seconds=1)),
        ("createdAt==2026-01-31T13:00:00 01:00", NOON, NOON + timedelta(seconds=1)),
        ("createdAt==2026-01-31T12:00:00", NOON, NOON + timedelta(seconds=1)),
        (f"id=={UUID}", UUID, UUID[:-1] + "2"),
    ],
)
def test_each_operator(condition: str, yes: object, no: object) -> None:
    assert passes(condition, yes)
    assert no is None or not passes(condition, no)


def test_what_has_no_moment_passes_no_comparison() -> None:
    never = datetime.min.replace(tzinfo=UTC)
    assert not passes("completedAt<=2026-01-31T12:00:00Z", never)
    assert passes("completedAt!=2026-01-31T12:00:00Z", never)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (["name==a,phase==Running"], ["name==a", "phase==Running"]),
        (["name==a,b,phase==Running"], ["name==a,b", "phase==Running"]),
        (["name==a,colour==red"], ["name==a,colour==red"]),
        (["name==a, phase == Running"], ["name==a", " phase == Running"]),
        (["name==a", "type==Training"], ["name==a", "type==Training"]),
        ([json.dumps(["name==a,phase==b", "type==c"])], ["name==a,phase==b", "type==c"]),
        (["", "[]"], []),
    ],
)
def test_where_conditions_end(text: list[str], parts: list[str]) -> None:
    assert conditions(text) == parts


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("colour==red", "there are id, name, type"),
        ("'; DROP TABLE workload_list; --", "is no condition"),
        ("name~red", "operators are == != <= >= =@ !@ =^ =$"),
        ("allocatedGPU=@1", "it takes == != <= >="),
        ("id<=x", "it takes == !="),
        ("phase==Dancing", "one of Creating, Pending"),
        ("phase==Deleted", "one of Creating, Pending"),
        ("type==training", "one of Workspace, Training"),
        ("createdAt==tomorrow", "2026-01-31T13:00:00Z"),
        ("createdAt==9999-12-31T23:59:59-23:00", "is no time"),
        ("allocatedGPU==NaN", "is not a number"),
        ("allocatedGPU==1e400", "is not a number"),
        ("id==1", "UUID"),
        ("name==\x00", "no NUL"),
        (f"name=={'x' * 1001}", "at most 1000"),
        ("[1]", "none of texts"),
        ("[", "none of texts"),
    ],
)
def test_what_cannot_be_read(condition: str, said: str) -> None:
    with pytest.raises(BadFilter, match=said.replace("^", r"\^").replace("$", r"\$")):
        terms(condition)


def test_there_are_not_too_many_conditions() -> None:
    assert len(terms(*["name=@a"] * MOST)) == MOST
    with pytest.raises(BadFilter, match="at most 50"):
        terms(*["name=@a"] * (MOST + 1))


def test_other_lists_bring_their_own_fields() -> None:
    own = {"colour": ListField("colour", BY_NAME["name"].nature, "colour", "what it looks like")}
    assert read(["colour==red,name==x"], PLACES, own) == (Points("colour", frozenset({"red,name==x"})),)


def test_fields_of_the_spec_are_those_that_the_catalogue_calls_so() -> None:
    marked = {field.name: field.GetOptions().Extensions[options_pb2.field] for field in WorkloadSpec.DESCRIPTOR.fields}
    assert [name for name, option in marked.items() if option.filterable] == ["name"]
    assert [name for name, option in marked.items() if option.sortable] == ["name"]
    assert BY_NAME["name"].sortable
    assert len(BY_NAME) == len(FIELDS)


_VALUES = st.sampled_from(range(6))
_TERM = st.one_of(
    st.builds(Points, st.just("c"), st.frozensets(_VALUES)),
    st.builds(Interval, st.just("c"), st.none() | _VALUES, st.none() | _VALUES),
    st.builds(Except, st.just("c"), st.frozensets(_VALUES)),
)


@given(st.lists(_TERM, max_size=5), _VALUES)
def test_joining_terms_keeps_their_meaning(some: list[Term], value: int) -> None:
    fewer = joined(tuple(some))
    assert all(holds(term, value) for term in fewer) == all(holds(term, value) for term in some)
    assert sum(isinstance(term, Points | Interval) for term in fewer) <= 1
    if impossible(fewer):
        assert not all(holds(term, value) for term in some)


@given(st.text(max_size=5), st.text(max_size=3), st.sampled_from(["=@", "!@", "=^", "=$"]))
def test_texts_are_looked_into_as_python_does(whole: str, part: str, way: str) -> None:
    meant = {"=@": part in whole, "!@": part not in whole, "=^": whole.startswith(part), "=$": whole.endswith(part)}
    assert look(Way(way), whole, part) is meant[way]


_LETTERS = st.characters(exclude_characters=LAST + "\x00", exclude_categories=["Cs"])


@given(st.text(_LETTERS, max_size=4), st.text(_LETTERS, max_size=6))
def test_what_begins_with_a_text_is_one_stretch_of_its_order(part: str, whole: str) -> None:
    for text in (whole, part + whole):
        assert passes(f"name=^{part}", text) is text.startswith(part)


@given(st.text(max_size=200))
def test_no_text_gets_an_exception_out(text: str) -> None:
    try:
        found = terms(text)
    except BadFilter:
        return
    assert all(term.column in {field.column for field in FIELDS} for term in found)


GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "lists.md"


def test_the_guide_has_every_field_and_its_examples_can_be_read() -> None:
    text = GUIDE.read_text()
    for field in FIELDS:
        sorts = "yes" if field.sortable else "no"
        assert f"| `{field.name}` | {' '.join(field.operators)} | {sorts} | {field.meaning} |" in text
    examples = re.findall(r"^- `filterBy=(.*)`$", text, flags=re.MULTILINE)
    assert [len(conditions([one])) for one in examples] == [1, 2, 3, 2, 2]
    for one in examples:
        assert terms(one)

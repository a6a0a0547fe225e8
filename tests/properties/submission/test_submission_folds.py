"""Whatever order the topics come in, and however often, the read model ends in one state; tokens and events hold."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from muster_kernel.ids import check_name
from muster_kernel.lifecycle import DesiredPhase, Phase
from muster_submission.adapters.protobuf_events import unpack
from muster_submission.domain import cloudevents
from muster_submission.domain import progress as p
from muster_submission.domain.cloudevents import LARGEST, CloudEvent, NoCloudEvent
from muster_submission.domain.cursors import BadToken, page_token, read_cursor, read_page_token
from muster_submission.domain.names import Given, Prefixed, demand, resolve, run_name
from muster_submission.domain.progress import Changed, Fact, Progress, Why, apply
from muster_submission.domain.snapshots import Shown
from muster_submission.handlers.progress import News, fold
from muster_submission.ports import Line

AT = datetime(2026, 1, 1, tzinfo=UTC)


def read(headers: list[tuple[str, bytes]], value: bytes | None) -> CloudEvent | NoCloudEvent:
    return cloudevents.read(headers, value, unpack)


WORDS = st.sampled_from(["", "a", "b"])
WHYS = st.builds(Why, WORDS, WORDS)
# A refused workload is never decided about but for its failure and its deletion, so phases follow the lifecycle there.
PHASES = st.sampled_from([phase for phase in Phase if phase is not Phase.CREATING])
DECISIONS = st.one_of(
    st.builds(p.Queued, WORDS),
    st.builds(p.Placed, st.integers(0, 3), WORDS, WORDS, st.integers(0, 9)),
    st.builds(p.Waiting, WHYS),
    st.builds(p.Preempted, WHYS),
    st.builds(p.Scaled, st.integers(0, 9), st.integers(0, 9)),
    st.builds(
        p.PhaseMoved, st.none(), PHASES, st.integers(0, 3), WHYS, st.just(AT), st.sampled_from([None, *DesiredPhase])
    ),
    st.builds(p.RequestRefused, WHYS),
)
# Text as an attribute of an event may be: something, storable, and of characters that UTF-8 has.
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)
NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)


def ended(facts: list[tuple[Fact, int]]) -> Progress:
    progress = Progress()
    for fact, version in facts:
        outcome = apply(progress, fact, version)
        if isinstance(outcome, Changed):
            progress = outcome.progress
            progress.check()
    return progress


@given(st.lists(DECISIONS, max_size=8), st.data())
def test_any_interleaving_of_the_topics_ends_in_one_state(decisions: list[p.Decision], data: st.DataObject) -> None:
    generations = data.draw(st.lists(st.booleans(), max_size=3))
    verdicts: list[Fact] = [
        p.Admitted(number) if number == 1 or taken else p.Rejected(number, ("no",))
        for number, taken in enumerate(generations, start=1)
    ]
    left: list[list[tuple[int, Fact]]] = [list(enumerate(verdicts, start=1)), list(enumerate(decisions, start=1))]
    mixed: list[tuple[Fact, int]] = []
    while any(left):
        side = data.draw(st.sampled_from([queue for queue in left if queue]))
        version, fact = side.pop(0)
        mixed.append((fact, version))
    straight = [(fact, version) for version, fact in enumerate(verdicts, start=1)]
    straight += [(fact, version) for version, fact in enumerate(decisions, start=1)]
    assert ended(mixed) == ended(straight)
    repeated = [
        mixed[at]
        for at in sorted(
            [*range(len(mixed)), *data.draw(st.lists(st.integers(0, max(0, len(mixed) - 1)), max_size=3)) * bool(mixed)]
        )
    ]
    assert ended(repeated) == ended(mixed)


@given(st.booleans(), st.booleans())
def test_a_refused_workload_ends_failed_or_deleted_either_way(first: bool, deleted: bool) -> None:
    refused: list[tuple[Fact, int]] = [(p.Rejected(1, ("no",)), 1)]
    moves = [p.PhaseMoved(None, Phase.FAILED, 0, Why("PolicyRefused", "policy refuses it: no"), AT, None)]
    if deleted:
        moves.append(p.PhaseMoved(None, Phase.DELETED, 0, p.NO_REASON, AT, DesiredPhase.DELETED))
    decided: list[tuple[Fact, int]] = [(fact, version) for version, fact in enumerate(moves, start=1)]
    done = ended(refused + decided) if first else ended(decided + refused)
    assert done == ended(refused + decided)
    assert not done.held


@given(st.lists(st.tuples(st.integers(0, 2), DECISIONS), max_size=12), st.integers(1, 5))
def test_a_batch_is_its_parts(told: list[tuple[int, p.Decision]], size: int) -> None:
    versions = dict.fromkeys(range(3), 0)
    news = []
    for number, fact in told:
        versions[number] += 1
        news.append(News(f"w{number}", "E", versions[number], AT, fact, status=b"s%d" % versions[number]))
    start = {f"w{number}": Progress() for number in range(3)}
    whole = fold(start, news)
    parts = dict(start)
    lines: list[Line] = []
    status: dict[str, bytes] = {}
    for at in range(0, len(news), size):
        batch = fold(parts, news[at : at + size])
        parts |= batch.progress
        status |= batch.status
        lines += batch.lines
    assert start | whole.progress == parts
    assert (whole.lines, whole.status) == (lines, status)


@given(st.text(max_size=40), st.binary(max_size=20), st.binary(max_size=20))
def test_a_token_reads_back_and_fits_no_other_question(last: str, bound: bytes, other: bytes) -> None:
    last = last.encode("utf-8", "replace").decode().replace("\x00", "")  # no name of a row has that
    token = page_token(last or "x", bound)
    assert read_page_token(token, bound) == (last or "x")
    if other != bound:
        try:
            read_page_token(token, other)
        except BadToken:
            return
        raise AssertionError("a token of another question was taken")


@given(st.text(max_size=60), st.binary(max_size=10))
def test_no_token_and_no_cursor_breaks_anything(text: str, bound: bytes) -> None:
    for attempt in (lambda: read_page_token(text, bound), lambda: read_cursor(text)):
        try:
            attempt()
        except BadToken as error:
            assert str(error)


REQUIRED = ("ce_specversion", "ce_id", "ce_source", "ce_type")
CE_HEADERS = st.tuples(
    st.sampled_from([*REQUIRED, *map(str.upper, REQUIRED), "ce_subject", "content-type"]) | st.text(max_size=12),
    st.sampled_from([b"1.0", b"application/cloudevents+json", b"application/json"]) | st.binary(max_size=30),
)


@given(st.lists(CE_HEADERS, max_size=8), st.none() | st.binary(max_size=200))
def test_no_record_breaks_the_reading_of_events(headers: list[tuple[str, bytes]], value: bytes | None) -> None:
    event = read(headers, value)
    if isinstance(event, NoCloudEvent):
        assert event.why
        assert event.why.isprintable(), "what is refused is told in one line"
        return
    # What is taken is a whole event, of attributes that every part behind can store.
    assert event.attributes["specversion"] == "1.0"
    assert all((event.id, event.source, event.type))
    assert not any("\0" in text or len(text) > 2048 for text in event.attributes.values())


@given(TEXTS, TEXTS, TEXTS, TEXTS, st.binary(max_size=200), st.booleans())
def test_both_modes_tell_the_same_event(
    id_: str,
    source: str,
    kind: str,
    subject: str,
    data: bytes,
    upper: bool,
) -> None:
    told = {"specversion": "1.0", "id": id_, "source": source, "type": kind, "subject": subject}
    headers = [((f"CE_{name}" if upper else f"ce_{name}"), text.encode()) for name, text in told.items()]
    binary = read(headers, data)
    document = json.dumps({**told, "data_base64": base64.b64encode(data).decode()})
    structured = read([("content-type", b"application/cloudevents+json; charset=utf-8")], document.encode())
    assert isinstance(binary, CloudEvent)
    assert binary == structured
    assert (binary.id, binary.source, binary.type, binary.subject) == (id_, source, kind, subject)
    assert binary.attributes == told
    assert binary.data == data


@given(st.sets(st.sampled_from(REQUIRED), min_size=1))
def test_an_event_without_what_it_must_have_is_refused_by_name(missing: set[str]) -> None:
    event = read([(name, b"1.0") for name in REQUIRED if name not in missing], b"")
    assert isinstance(event, NoCloudEvent)
    if "ce_specversion" in missing:
        assert event.why.startswith("no CloudEvent: expected ce_specversion")
    else:
        assert event.why.startswith("the event has no ")
        assert all(name.removeprefix("ce_") in event.why.partition(";")[0] for name in missing)


def test_an_event_too_large_is_refused_with_its_size() -> None:
    value = bytes(LARGEST + 9)
    event = read([(name, b"1.0") for name in REQUIRED], value)
    assert event == NoCloudEvent(f"the event has {len(value)} bytes; at most {LARGEST} are allowed")


@given(st.lists(st.tuples(st.sampled_from("pq"), st.one_of(NAMES.map(Given), NAMES.map(Prefixed))), max_size=20))
def test_every_prefix_gets_its_numbers(namings: list[tuple[str, Given | Prefixed]]) -> None:
    wanted = demand(namings)
    assert wanted == sorted(wanted)
    names = resolve(namings, {(project, prefix): range(1, count + 1) for project, prefix, count in wanted})
    made = [
        (project, name) for (project, chosen), name in zip(namings, names, strict=True) if isinstance(chosen, Prefixed)
    ]
    assert len(names) == len(namings)
    assert sum(count for _, _, count in wanted) == len(made)


@given(NAMES, st.text(max_size=20), st.text(max_size=20), st.integers(1, 10**9))
def test_runs_have_legal_names(template: str, source: str, event_id: str, number: int) -> None:
    source, event_id = source.encode("utf-8", "replace").decode(), event_id.encode("utf-8", "replace").decode()
    name = run_name(template * 3, trigger="p/t", source=source, event_id=event_id, number=number)
    assert check_name(name) == name


@given(st.lists(st.integers(0, 30), min_size=1, max_size=30, unique=True), st.integers(1, 7), st.data())
def test_a_snapshot_hides_exactly_what_it_showed(ids: list[int], size: int, data: st.DataObject) -> None:
    ordered = sorted((f"{number:03}" for number in ids), reverse=True)
    shown, head, at_head = Shown(), 5, dict[str, int]()
    for at in range(0, len(ordered), size):
        page = ordered[at : at + size]
        last = at + size >= len(ordered)
        shown.add("" if last else page[-1], head)
        at_head |= dict.fromkeys(page, head)
        head += data.draw(st.integers(0, 3))
    for one in ordered:
        for sequence in range(shown.start + 1, head + 2):
            assert shown.has(one, sequence) == (sequence <= at_head[one])

"""No event fires a rule twice within its window, no limit is ever exceeded, nobody overtakes those that wait.

Any sequence of events, ends of runs, passing time and turns of the waiting room is played on the domain's decisions,
with books in memory as the ones in PostgreSQL keep them; after each step the laws are looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from muster_submission.domain.firings import (
    Before,
    Drop,
    Excess,
    Limits,
    Load,
    Rate,
    Start,
    Wait,
    decide,
    exceeded,
    number,
)
from muster_submission.domain.names import run_name

START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Books:
    """What a rule did: starts with their moments, live runs, those that wait with their deadlines."""

    limits: Limits
    window: timedelta
    now: datetime = START
    before: dict[int, Before] = field(default_factory=dict)
    fired: list[tuple[int, int, datetime]] = field(default_factory=list)
    starts: list[datetime] = field(default_factory=list)
    live: int = 0
    waiting: list[tuple[int, datetime]] = field(default_factory=list)
    order: list[int] = field(default_factory=list)
    started: list[int] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    def load(self) -> Load:
        rate = self.limits.rate
        recent = sum(one > self.now - rate.per for one in self.starts) if rate else 0
        return Load(self.live, recent, len(self.waiting))

    def event(self, identity: int, *, replayed: bool = False) -> None:
        count = number(self.before.get(identity), self.now, replayed=replayed)
        if count is None:
            return
        if not replayed:
            self.fired.append((identity, count, self.now))
        self.before[identity] = Before(count, self.now + self.window)
        name = run_name("base", trigger="p/r", source="/s", event_id=str(identity), number=count)
        assert name not in self.names
        self.names.add(name)
        firing = len(self.names)
        match decide(self.limits, self.load(), self.now):
            case Start():
                self.start(firing)
            case Wait(until=until):
                self.waiting.append((firing, until))
            case Drop(why=why):
                assert why

    def start(self, firing: int) -> None:
        self.starts.append(self.now)
        self.live += 1
        self.started.append(firing)

    def go_on(self) -> None:
        self.waiting = [one for one in self.waiting if one[1] > self.now]
        while self.waiting and not exceeded(self.limits, self.load()):
            firing, _ = self.waiting.pop(0)
            self.start(firing)

    def check(self) -> None:
        limits = self.limits
        assert not limits.running or self.live <= limits.running
        if limits.rate is not None:
            for at in self.starts:
                inside = [one for one in self.starts if at <= one < at + limits.rate.per]
                assert len(inside) <= limits.rate.runs
        assert len(self.waiting) <= limits.excess.most
        assert limits.excess.waits or not self.waiting
        for one, count, at in self.fired:
            for other, later_count, later in self.fired:
                if one == other and count < later_count:
                    assert later >= at + self.window
        if limits.excess.waits:
            assert self.started == sorted(self.started)


limits = st.builds(
    Limits,
    st.integers(0, 3),
    st.none() | st.builds(Rate, st.integers(1, 3), st.timedeltas(timedelta(seconds=1), timedelta(seconds=30))),
    st.builds(Excess, st.booleans(), st.integers(1, 4), st.timedeltas(timedelta(seconds=1), timedelta(minutes=2))),
)
steps = st.lists(
    st.tuples(st.just("event"), st.integers(0, 4))
    | st.tuples(st.just("replay"), st.integers(0, 4))
    | st.tuples(st.just("end"), st.just(0))
    | st.tuples(st.just("wait"), st.integers(1, 40))
    | st.tuples(st.just("go on"), st.just(0)),
    max_size=60,
)


@given(limits, st.timedeltas(timedelta(seconds=1), timedelta(seconds=60)), steps)
def test_once_in_a_window_and_never_above_the_limits(
    bounds: Limits, window: timedelta, taken: list[tuple[str, int]]
) -> None:
    books = Books(bounds, window)
    for step, value in taken:
        match step:
            case "event":
                books.event(value)
            case "replay" if value in books.before:
                books.event(value, replayed=True)
            case "end":
                books.live = max(0, books.live - 1)
            case "wait":
                books.now += timedelta(seconds=value)
            case "go on":
                books.go_on()
        books.check()


@given(limits, st.builds(Load, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)))
def test_a_decision_says_what_it_is_for(bounds: Limits, load: Load) -> None:
    above = exceeded(bounds, load)
    match decide(bounds, load, START):
        case Start():
            assert not above
        case Wait(until=until, why=why):
            assert bounds.excess.waits
            assert until == START + bounds.excess.deadline
            assert why
        case Drop(why=why):
            assert above or load.waiting
            assert why


def test_without_limits_everything_starts() -> None:
    assert decide(Limits(), Load(running=1000), START) == Start()

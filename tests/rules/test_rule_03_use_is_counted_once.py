"""Rule 3 for use: each moment in which a replica held devices is counted once, whatever is lost, repeated or restarted.

Taken out here: telling again what may be lost (hours are missing), the moment that an agent keeps (what an agent missed
while it was away is missing, as it was beyond an hour), and telemetry's coverage (what is told again counts twice).
"""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster_cluster_agent.domain.usage import boundary
from muster_cluster_agent.sampling import Sampler
from tests.support.usage import UsageRoad

STEPS = st.lists(
    st.one_of(
        st.sampled_from(["round", "deliver", "unacknowledged", "reconnect", "restart", "begin", "finish", "release"]),
        st.sampled_from([1.0, 15.0, 400.0, 9000.0, 200_000.0]),
    ),
    max_size=40,
)


class Life(UsageRoad):
    """A cluster's life in steps that are called by name; `held`: when each replica began and ended to hold its GPU."""

    def __init__(self, sampler: type[Sampler]) -> None:
        super().__init__(sampler)
        self.held: dict[int, tuple[float, float | None]] = {}

    async def step(self, step: str | float) -> None:
        """Lets time pass, or lets happen what is named."""
        if isinstance(step, float):
            self.now += step
        elif step == "round":
            await self.sampler.round()
        else:
            getattr(self, step)()

    def unacknowledged(self) -> None:
        self.deliver(acknowledged=False)

    def begin(self) -> None:
        number = len(self.held)
        self.held[number] = (self.now, None)
        self.start(number)

    def finish(self) -> None:
        for number, (began, ended) in self.held.items():
            if ended is None:
                self.held[number] = (began, self.now)
                self.end(number)
                return

    def release(self) -> None:
        for number, (_, ended) in self.held.items():
            if ended is not None and f"r{number}" in self.backend.replicas:
                self.remove(number)

    def missing(self) -> dict[int, float]:
        """By workload, how many GPU-seconds too few (below 0: too many) are counted; those that are right left out."""
        used = {n: (boundary(self.now) if ended is None else ended) - began for n, (began, ended) in self.held.items()}
        lack = {number: max(0.0, seconds) - self.telemetry.seconds(number) for number, seconds in used.items()}
        return {number: seconds for number, seconds in lack.items() if seconds}


def _missing(steps: list[str | float], sampler: type[Sampler] = Sampler) -> dict[int, float]:
    """What is missing once everything has arrived."""

    async def play() -> dict[int, float]:
        life = Life(sampler)
        for step in [*steps, *["deliver", "round"] * 3, "deliver"]:
            await life.step(step)
        return life.missing()

    return asyncio.run(play())


@given(STEPS)
@settings(max_examples=400, deadline=None)
def test_each_moment_of_use_is_counted_once(steps: list[str | float]) -> None:
    assert _missing(steps) == {}


LOST: list[str | float] = ["begin", 400.0, "round", "reconnect"]
AWAY: list[str | float] = ["begin", 9000.0, "round", "deliver", "round", 200_000.0, "restart"]
REPEATED: list[str | float] = ["begin", 9000.0, "round", "unacknowledged"]


@pytest.mark.parametrize("steps", [LOST, AWAY, REPEATED])
def test_nothing_is_missing_of_them(steps: list[str | float]) -> None:
    assert _missing(steps) == {}


def test_without_telling_again_it_is_missing() -> None:
    class Trusting(Sampler):
        def rewind(self) -> None:
            self._outstanding = 0

    assert _missing(LOST, Trusting)[0] > 0


def test_by_an_hour_from_now_alone_it_is_missing() -> None:
    class Forgetful(Sampler):
        def rewind(self) -> None:
            super().rewind()
            self._since = self._clock() - 3600.0

    assert _missing(AWAY, Forgetful)[0] > 0


def test_without_coverage_it_is_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster_telemetry.domain.accounts.cover", lambda _, span: ([], span[1] - span[0]))
    assert _missing(REPEATED)[0] < 0

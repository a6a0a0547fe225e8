"""Jobs made up by chance: streams of arrivals with a seed, so that the same scenario always brings the same jobs.

Called by reading.py. A stream is a Poisson process; each of its jobs is of one of its classes by share, and its
duration is lognormal around the class's median. Where a load is wanted, the durations are scaled by one common factor.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import NamedTuple

from muster_kernel.quantities import GPU
from muster_scheduler.domain.asked.workloads import SECOND, Request
from muster_scheduler.simulation.scenario import Job, units_of


class Sort(NamedTuple):
    """One class of jobs of a stream. `spread`: the standard deviation of the logarithm of its duration; 0: none."""

    name: str
    share: float
    request: Request
    median: int  # microseconds
    spread: float = 0.0
    failing: float = 0.0  # the part of the jobs whose first run fails

    @property
    def mean(self) -> float:
        """The mean duration in microseconds: exp(mu + sigma^2 / 2) of a lognormal distribution."""
        return self.median * math.exp(self.spread * self.spread / 2)


class Stream(NamedTuple):
    """Arrivals of one project. One of `total` and `per_hour` is 0, or both are and `load` says how many come."""

    project: str
    sorts: tuple[Sort, ...]
    total: int = 0  # over the whole time
    per_hour: float = 0.0
    load: float = 0.0  # GPU time asked for, as a part of the fleet's
    begin: int = 0  # it comes from then on, microseconds since the start ..
    end: int = 0  # .. until then; 0: to the end

    def window(self, length: int) -> int:
        """For how much of the whole time it comes; microseconds."""
        return max(0, min(self.end or length, length) - self.begin)


def jobs(streams: tuple[Stream, ...], *, seed: int, length: int, gpus: int) -> tuple[Job, ...]:
    """The jobs of all streams, by time; `length` in microseconds."""
    made: list[Job] = []
    for number, stream in enumerate(streams):
        chance = random.Random(f"{seed}/{number}/{stream.project}")  # noqa: S311 - chance of a simulation, no secret
        made += _scaled(list(_stream(stream, chance, length, gpus)), stream, length, gpus)
    made.sort(key=lambda job: (job.at, job.name))
    return tuple(made)


def expected(stream: Stream, length: int, gpus: int) -> float:
    """How many jobs a stream brings in the mean."""
    if stream.total:
        return stream.total
    window = stream.window(length)
    if stream.per_hour:
        return stream.per_hour * window / (3600 * SECOND)
    share = sum(sort.share for sort in stream.sorts)
    work = sum(sort.share / share * units_of(sort.request) / GPU * sort.mean for sort in stream.sorts)
    return stream.load * gpus * window / work if work else 0.0


def _stream(stream: Stream, chance: random.Random, length: int, gpus: int) -> Iterator[Job]:
    number = expected(stream, length, gpus)
    window = stream.window(length)
    times = _times(chance, number, window, exact=bool(stream.total)) if window else []
    shares = [sort.share for sort in stream.sorts]
    for index, at in enumerate(times):
        sort = chance.choices(stream.sorts, shares)[0]
        duration = max(SECOND, int(sort.median * math.exp(chance.gauss(0.0, sort.spread))))
        fails_after = max(1, int(duration * chance.random())) if chance.random() < sort.failing else 0
        name = f"{stream.project}-{sort.name}-{index}"
        yield Job(name, stream.project, stream.begin + at, duration, sort.request, fails_after)


def _times(chance: random.Random, number: float, length: int, *, exact: bool) -> list[int]:
    """Arrivals of a Poisson process, in order: a fixed number of them is spread evenly over the time by chance."""
    if exact:
        return sorted(chance.randrange(length) for _ in range(int(number)))
    times: list[int] = []
    at = 0.0
    while number > 0:
        at += chance.expovariate(number / length)
        if at >= length:
            break
        times.append(int(at))
    return times


def _scaled(made: list[Job], stream: Stream, length: int, gpus: int) -> list[Job]:
    """The same jobs, longer or shorter by one factor, so that a fixed number of them makes the load that is wanted."""
    if not (stream.load and (stream.total or stream.per_hour)):
        return made
    work = sum(units_of(job.request) * job.duration for job in made)
    factor = stream.load * gpus * GPU * stream.window(length) / work if work else 1.0
    return [
        job._replace(duration=max(SECOND, int(job.duration * factor)), fails_after=int(job.fails_after * factor))
        for job in made
    ]

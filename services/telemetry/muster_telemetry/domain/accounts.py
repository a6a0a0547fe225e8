"""Samples into accounts: how much each workload has held, counted in exact integers.

Called by the handlers with the coverage of the replicas that a batch speaks about. Pure.
Holds: the sum over all samples does not depend on their order, their number of repeats or how they were cut up, as
long as a replica holds one charge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from muster_telemetry.domain.coverage import Span, cover

SECOND: Final = 1_000_000  # microseconds
GPU: Final = 7_000  # accounting units of one whole GPU
LONGEST: Final = 24 * 3600 * SECOND
LARGEST_CHARGE: Final = 4_096 * GPU


@dataclass(frozen=True, slots=True)
class Sample:
    """A replica held `charge` (1/7,000 GPU) over `span`."""

    workload: str
    project: str
    name: str
    replica: str
    span: Span
    charge: int


@dataclass(frozen=True, slots=True)
class Growth:
    """What a batch adds to the account of one workload: `amount` in 1/7,000 GPU times microseconds.

    since, until: the beginning of its first and the end of its last interval, in microseconds since 1970.
    """

    workload: str
    project: str
    name: str
    amount: int
    since: int
    until: int


def objection(sample: Sample) -> str | None:
    """Why a sample cannot be counted; None where it can."""
    start, end = sample.span
    if end <= start:
        return f"the interval of {sample.replica[:80]} ends before it begins: {start} to {end} microseconds"
    if end - start > LONGEST:
        hours = (end - start) // (3600 * SECOND)
        return f"the interval of {sample.replica[:80]} lasts {hours} hours; an agent reports at least once a day"
    if sample.charge > LARGEST_CHARGE:
        return f"{sample.replica[:80]} holds {sample.charge} in 1/7,000 GPU; at most {LARGEST_CHARGE} can be"
    return None


def count(
    samples: Iterable[Sample], covered: Mapping[str, Sequence[Span]]
) -> tuple[dict[str, list[Span]], list[Growth]]:
    """The coverage of every replica of the batch afterwards, and what each workload's account grows by.

    A repeat gives no growth in amount; `until` is the end of the latest interval all the same.
    """
    spans: dict[str, list[Span]] = {}
    growth: dict[str, Growth] = {}
    for sample in samples:
        before = spans.get(sample.replica)
        spans[sample.replica], new = cover(
            before if before is not None else covered.get(sample.replica, ()), sample.span
        )
        old = growth.get(sample.workload)
        growth[sample.workload] = Growth(
            sample.workload,
            sample.project,
            sample.name,
            (old.amount if old else 0) + new * sample.charge,
            min(old.since if old else sample.span[0], sample.span[0]),
            max(old.until if old else 0, sample.span[1]),
        )
    return spans, list(growth.values())


def gpu_seconds(amount: int) -> float:
    """An account for people: whole GPUs times seconds."""
    return amount / (GPU * SECOND)

"""What counts as a sample, why the rest does not, and that the rest costs its neighbours nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.events.v1.agent_pb2 import UsageSample, UsageSampled
from muster_chassis.events import Origin, Reject
from muster_telemetry.samples import samples_of
from muster_telemetry.stream import in_bytes
from tests.support.usage import ID, sampled


def sample(**fields: Any) -> UsageSample:
    made = UsageSample(workload_id=ID, project="team-a", name="t", replica="r-0", gpu_charge=7000)
    getattr(made, "from").seconds = 10
    made.to.seconds = 12
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def usage(*samples: UsageSample) -> UsageSampled:
    return UsageSampled(cluster="c", samples=samples)


def test_samples() -> None:
    found, rest = samples_of(sampled(usage(sample(), sample(replica="r-1"))))
    assert [one.replica for one in found] == ["r-0", "r-1"]
    assert (found[0].workload, found[0].span, found[0].charge) == (ID, (10_000_000, 12_000_000), 7000)
    assert rest is None


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"workload_id": "x"}, "expected a UUID"),
        ({"replica": ""}, "replica is ''"),
        ({"project": "a\0b"}, "none of them NUL"),
        ({"name": "x" * 300}, "name is"),
        ({"gpu_charge": 2**63}, "at most"),
    ],
)
def test_what_is_rejected(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(Reject) as caught:
        samples_of(sampled(usage(sample(**fields))))
    assert said in caught.value.reason


def test_times_that_cannot_be() -> None:
    wrong = sample()
    wrong.to.seconds = 2**62
    with pytest.raises(Reject, match="none that can be"):
        samples_of(sampled(usage(wrong)))
    with pytest.raises(Reject, match="no value"):
        samples_of(sampled(None))
    with pytest.raises(Reject, match="no samples: expected at least one"):
        samples_of(sampled(usage()))


def test_a_bad_sample_costs_its_neighbours_nothing() -> None:
    bad = sample(replica="")
    found, rest = samples_of(sampled(usage(sample(), bad, sample(replica="r-2"))))
    assert [one.replica for one in found] == ["r-0", "r-2"]
    assert rest is not None
    assert UsageSampled.FromString(rest.value) == usage(bad)
    assert rest.reason.startswith("1 of 3 samples cannot be counted; samples[1]: replica is ''")


@given(st.lists(st.integers(0, 300), max_size=30), st.integers(1, 500))
def test_a_transaction_is_bounded_by_bytes(sizes: list[int], limit: int) -> None:
    origins = [Origin("muster.samples", 0, number, None, b"x" * size, ()) for number, size in enumerate(sizes)]
    parts = list(in_bytes(origins, limit))
    assert [origin for part in parts for origin in part] == origins
    assert all(len(part) == 1 or sum(len(one.value or b"") for one in part) <= limit for part in parts)

"""What an agent writes down of a replica's devices is what the chaos checker counts."""

from __future__ import annotations

import pytest

from muster_cluster_agent.domain import launch
from muster_cluster_agent.domain.model import Share, Slice
from tests.chaos.checker import Held
from tests.chaos.journals import entries_of


@pytest.mark.parametrize(
    ("share", "held"),
    [
        (Share("GPU-0", whole=True), Held("GPU-0", 1000)),
        (Share("GPU-0", portion_milli=250), Held("GPU-0", 250)),
        (Share("GPU-0", portion_milli=1000), Held("GPU-0", 1000)),
        (Share("GPU-0", memory_bytes=4096), Held("GPU-0", 0, 4096)),
        (Share("GPU-0", slice=Slice("3g.20gb", 4)), Held("GPU-0", 428)),
    ],
)
def test_a_share_is_counted_as_it_was_given(share: Share, held: Held) -> None:
    spec = {"name": "r", "workload_id": "w", "generation": 1, "attempt": 1, "devices": [launch.described(share)]}
    [entry] = entries_of(spec, [{"event": "started", "monotonic": 1.5}])
    assert entry.held == (held,)
    assert entry.at_ns == 1_500_000_000

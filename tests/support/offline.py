"""Partitions without a leader, as the clients of Kafka in this process see them."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.cluster import ClusterMetadata


def without_leader(monkeypatch: pytest.MonkeyPatch) -> set[TopicPartition]:
    """Return a set: each partition that a test puts into it has no leader until the test takes it out."""
    offline: set[TopicPartition] = set()
    real: Any = ClusterMetadata.leader_for_partition

    def leader(self: ClusterMetadata, tp: TopicPartition) -> int | None:
        found: int | None = -1 if tp in offline else real(self, tp)
        return found

    monkeypatch.setattr(ClusterMetadata, "leader_for_partition", leader)
    return offline

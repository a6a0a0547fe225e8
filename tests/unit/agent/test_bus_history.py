"""From which epoch on the assignments of a new Kafka count."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from muster_chassis.numbers import LARGEST_EPOCH
from muster_cluster_agent.adapters.bus_history import LEAST_EPOCH, BusHistory


@dataclass
class State:
    """An agent's state in memory; order: what was kept, in turn."""

    instance: str = "i"
    start: int = 1
    bus: str | None = None
    numbers: dict[str, int] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)

    def read_number(self, name: str) -> int:
        return self.numbers.get(name, 0)

    async def keep_number(self, name: str, value: int) -> None:
        self.numbers[name] = value
        self.order.append(name)

    async def known(self) -> str | None:
        return self.bus

    async def replace(self, cluster_id: str) -> None:
        self.bus = cluster_id
        self.order.append("bus")


async def test_on_the_first_bus_every_epoch_counts() -> None:
    state = State()
    history = BusHistory(state, lambda: 4)
    await history.replace("a")
    assert (history.least_epoch, state.bus) == (0, "a")


async def test_on_a_new_bus_a_later_epoch_counts_and_outlives_the_agent() -> None:
    state = State(bus="a")
    epoch = 4
    history = BusHistory(state, lambda: epoch)
    await history.replace("a")
    assert history.least_epoch == 0
    await history.replace("b")
    assert state.order[-2:] == [LEAST_EPOCH, "bus"]
    assert BusHistory(state, lambda: 0).least_epoch == history.least_epoch == 5
    epoch = 5
    await history.replace("c")
    assert history.least_epoch == 6


@pytest.mark.parametrize("kept", [-1, LARGEST_EPOCH + 1])
async def test_a_number_that_cannot_be_ours_is_forgotten(kept: int) -> None:
    assert BusHistory(State(numbers={LEAST_EPOCH: kept}), lambda: 1).least_epoch == 0


async def test_the_largest_epoch_is_obeyed_on_a_new_bus() -> None:
    history = BusHistory(State(bus="a"), lambda: LARGEST_EPOCH)
    await history.replace("b")
    assert history.least_epoch == LARGEST_EPOCH

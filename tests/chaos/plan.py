"""What a chaos run does, fixed by its seed: which workloads come when, and what is killed when.

Called by `run.py` and the driver. Pure: the same seed gives the same plan on every machine; only what the machine makes
of it differs. Holds: every target is killed at least once where there are enough kills, and Kafka comes back empty
exactly once, not first and not last.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

SERVICES: Final = ("submission", "policy", "scheduler", "telemetry")
STANDBY: Final = "scheduler-2"
INFRASTRUCTURE: Final = ("kafka", "postgres")
WIPE: Final = "kafka-wiped"
SUPERVISOR: Final = "supervisor"
PROGRAMS: Final = ("etcd", "kube-apiserver")
ON_KUBERNETES: Final = (*PROGRAMS, "agent-lab", "kafka")

Shape = Literal["training", "failing", "gang", "mpi", "inference", "suspended"]
_WEIGHTS: Final[dict[Shape, int]] = {
    "training": 100,
    "failing": 14,
    "gang": 24,
    "mpi": 16,
    "inference": 26,
    "suspended": 20,
}
_WEIGHTS_ON_KUBERNETES: Final[dict[Shape, int]] = {**_WEIGHTS, "mpi": 0}
_GAP_ON_KUBERNETES: Final = (5.0, 12.0)
_FROZEN: Final = (3.0, 20.0)  # seconds; the agent's Lease lasts 15


@dataclass(frozen=True, slots=True)
class Arrival:
    """A workload that comes `at` seconds after the start and runs `seconds` when nothing disturbs it."""

    at: float
    name: str
    shape: Shape
    seconds: float
    gpu: str
    """What each replica asks for: a portion or a number of devices."""
    workers: int = 1


@dataclass(frozen=True, slots=True)
class Kill:
    """A kill -9, or the emptying of Kafka, `at` seconds after the start. `pick` in 0..1 chooses among processes.

    frozen: it is not killed, and answers nothing for so many seconds: what speaks to it is cut off.
    """

    at: float
    target: str
    pick: float
    frozen: float = 0.0


@dataclass(frozen=True, slots=True)
class ChaosPlan:
    """Everything that a run does."""

    arrivals: tuple[Arrival, ...]
    kills: tuple[Kill, ...]


def draw(
    seed: int,
    workloads: int,
    kills: int,
    clusters: tuple[str, ...],
    gap: tuple[float, float] = (4.0, 8.0),
    more: tuple[str, ...] = (STANDBY,),
) -> ChaosPlan:
    """The plan of a seed. `gap` bounds the seconds between two kills; arrivals are spread over the same time.

    more: the instances of services beside the first ones.
    """
    dice = random.Random(seed)
    at, times = 0.0, []
    for _ in range(kills):
        at += dice.uniform(*gap)
        times.append(at)
    targets = _targets(dice, kills, clusters, more)
    kill_list = tuple(Kill(t, target, dice.random()) for t, target in zip(times, targets, strict=True))
    span = max(at * 0.9, 20.0)
    return ChaosPlan(arrivals=tuple(_arrivals(dice, workloads, span)), kills=kill_list)


def draw_on_kubernetes(seed: int, workloads: int, kills: int) -> ChaosPlan:
    """The plan of a seed where the replicas are pods: only what stands between Muster and its pods is hit."""
    dice = random.Random(seed)
    every = [(target, frozen) for target in ON_KUBERNETES for frozen in (False, True)]
    wipes = int(kills > len(every))  # each part is killed and frozen first
    hits = dice.sample(every, min(kills, len(every)))
    hits += dice.choices(every, k=kills - len(hits) - wipes)
    dice.shuffle(hits)
    if wipes:
        hits.insert(dice.randrange(kills // 3, 2 * kills // 3), (WIPE, False))
    at, kill_list = 0.0, []
    for target, frozen in hits:
        at += dice.uniform(*_GAP_ON_KUBERNETES)
        kill_list.append(Kill(at, target, dice.random(), dice.uniform(*_FROZEN) if frozen else 0.0))
    arrivals = _arrivals(dice, workloads, max(at * 0.9, 20.0), _WEIGHTS_ON_KUBERNETES)
    # No portions there: a whole number of devices is what a pod may ask for.
    return ChaosPlan(tuple(replace(each, gpu=dice.choice(["1", "1", "2"])) for each in arrivals), tuple(kill_list))


def _targets(dice: random.Random, kills: int, clusters: tuple[str, ...], more: tuple[str, ...]) -> list[str]:
    every = [*SERVICES, *more, *(f"agent-{c}" for c in clusters), SUPERVISOR, *INFRASTRUCTURE]
    # Supervisors and schedulers are where a mistake costs a device: they are drawn more often.
    likely = [*every, "scheduler", SUPERVISOR, SUPERVISOR, SUPERVISOR, "submission"]
    targets = dice.sample(every, min(kills, len(every)))
    targets += [dice.choice(likely) for _ in range(kills - len(targets))]
    dice.shuffle(targets)
    if kills > 2:
        targets[dice.randrange(kills // 3, max(kills // 3 + 1, 2 * kills // 3))] = WIPE
    return targets


def _arrivals(
    dice: random.Random, workloads: int, span: float, weights: Mapping[Shape, int] = _WEIGHTS
) -> list[Arrival]:
    shapes = dice.choices(list(weights), weights=list(weights.values()), k=workloads)
    times = sorted(dice.uniform(0.0, span) for _ in range(workloads))
    return [
        Arrival(
            at=at,
            name=f"{shape}-{number}",
            shape=shape,
            seconds=dice.uniform(0.2, 6.0),
            gpu=dice.choice(["0.25", "0.5", "1", "2"])
            if shape in {"training", "suspended"}
            else dice.choice(["0.5", "1"]),
            workers=dice.randint(2, 4) if shape in {"gang", "mpi"} else dice.randint(1, 2),
        )
        for number, (at, shape) in enumerate(zip(times, shapes, strict=True))
    ]

"""Phases as the numbers that the contracts and the tables carry.

The kernel speaks in words, protobuf and the tables in numbers: here is the one place where they meet. A test holds
the order equal to the proto's.
"""

from __future__ import annotations

from typing import Final

from muster_kernel.lifecycle import DesiredPhase, Phase

PHASES: Final[tuple[Phase, ...]] = tuple(Phase)
DESIRED: Final[tuple[DesiredPhase, ...]] = tuple(DesiredPhase)
ENDED: Final = frozenset({Phase.COMPLETED, Phase.FAILED, Phase.DELETED})
"""Nothing of it runs or will run again."""
_NUMBERS: Final = {phase: number for number, phase in enumerate(PHASES, start=1)}
_DESIRED_NUMBERS: Final = {desired: number for number, desired in enumerate(DESIRED, start=1)}


def number(phase: Phase) -> int:
    """The number of a phase, 1 to 15."""
    return _NUMBERS[phase]


def phase(number: int) -> Phase | None:
    """The phase of a number; None for 0 and for what a newer version may have added."""
    return PHASES[number - 1] if 1 <= number <= len(PHASES) else None


def desired_number(desired: DesiredPhase) -> int:
    """The number of a desired phase, 1 to 3."""
    return _DESIRED_NUMBERS[desired]


def desired_phase(number: int) -> DesiredPhase | None:
    """The desired phase of a number; None for 0 and for what a newer version may have added."""
    return DESIRED[number - 1] if 1 <= number <= len(DESIRED) else None

"""What an attack is: one thing that a stranger tries on a running stack, and whether the stack held.

Each module in `tests/attacks/rows` declares its attacks in `ATTACKS`; `tests/attacks/run.py` (`make attack`) runs them.
Every attack names the test that proves its worth: the same attempt succeeds there, because the test substitutes the
part of the product that prevents it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.attacks.stage import Stage


class Actor(StrEnum):
    """Who attacks."""

    REPLICA = "replica"
    """The command of a running workload."""
    NO_ROLE = "no-role"
    """An application with a valid token and no role."""
    VIEWER = "viewer"
    RESEARCHER = "researcher"
    PROJECT_ADMIN = "project-admin"
    LOOPBACK = "loopback"
    """A local process without any token."""
    BROWSER = "browser"
    """A foreign page in the browser of a user who can reach the REST address."""


class StackKind(StrEnum):
    """Which stack the attack needs."""

    AUTH = "auth"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the stack held, and one line of evidence: the status code, the refused path, the count."""

    held: bool
    evidence: str


def held(evidence: str) -> Verdict:
    """The attack was refused and changed nothing."""
    return Verdict(held=True, evidence=evidence)


def broken(evidence: str) -> Verdict:
    """The attack had the effect that it must not have."""
    return Verdict(held=False, evidence=evidence)


@dataclass(frozen=True, slots=True)
class Attack:
    """One scripted attack.

    row: the finding, such as `A7`. name: unique, lower case with dashes. proof: the test in which the attack works,
    as `tests/rules/test_x.py::test_y`. noisy: whether the latency of other tenants is measured before it and during it;
    such an attack goes on until `stage.until` seconds of the monotonic clock, others end by themselves.
    """

    row: str
    name: str
    actor: Actor
    run: Callable[[Stage], Awaitable[Verdict]]
    proof: str
    stack: StackKind = StackKind.AUTH
    noisy: bool = False

"""What applying a document means for the workload that it named before: nothing, a change, a new start.

Called by handlers/apply.py with what the read model shows. Pure.
Holds: the same document twice is one workload; what cannot change while it runs is never changed silently.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from muster_kernel.lifecycle import DesiredPhase, Phase
from muster_submission.domain.phases import ENDED

_OBJECT_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Create:
    """There is none: make one."""


@dataclass(frozen=True, slots=True)
class Renew:
    """The one there has ended: it gives its name up, and another is made."""


@dataclass(frozen=True, slots=True)
class Keep:
    """It is what the document says."""


@dataclass(frozen=True, slots=True)
class Steer:
    """Only whether it should run differs: resume it, or suspend it."""

    run: bool


@dataclass(frozen=True, slots=True)
class Change:
    """Its spec differs in fields that a running one takes; `then`: and whether it should run differs as well."""

    then: Steer | None = None


@dataclass(frozen=True, slots=True)
class Fixed:
    """Its spec differs in these fields, which cannot change while it is there."""

    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Going:
    """It is being deleted: its name is free once nothing of it is left."""


Step = Create | Renew | Keep | Steer | Change | Fixed | Going


@dataclass(frozen=True, slots=True)
class Known:
    """The workload that the document named before."""

    phase: Phase
    desired: DesiredPhase


def step(known: Known | None, changed: Sequence[str], fixed: Sequence[str], *, run: bool | None) -> Step:
    """What to do.

    changed: the fields that differ, `active` left out. fixed: those among them that cannot change while it is there.
    run: what the document says of `active`; None where it says nothing, which leaves it as it is.
    """
    if known is None or known.phase is Phase.DELETED:
        return Create()
    if known.phase in ENDED:
        return Renew()
    if known.phase is Phase.DELETING or known.desired is DesiredPhase.DELETED:
        return Going()
    if fixed:
        return Fixed(tuple(fixed))
    steer = None if run is None or run == (known.desired is DesiredPhase.RUNNING) else Steer(run)
    if changed:
        return Change(steer)
    return steer or Keep()


def check_object_name(name: str) -> None:
    """Raises ValueError for what Kubernetes would not call an object."""
    if not _OBJECT_NAME.fullmatch(name):
        shown = name if len(name) <= 80 and name.isprintable() else repr(name[:80])  # noqa: PLR2004 - fits in a line
        raise ValueError(
            f"{shown!r} is not the name of an object: lower-case letters, digits, dashes and dots, at most 253 of them"
        )

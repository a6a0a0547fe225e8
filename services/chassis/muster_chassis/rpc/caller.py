"""Who is calling, for the length of one call."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Caller:
    """The one who calls: the token's subject, its groups, and who vouches for it."""

    subject: str
    groups: tuple[str, ...] = ()
    issuer: str = ""


LOCAL: Final = Caller("local")
"""Everyone, where authentication is switched off."""

_caller: ContextVar[Caller] = ContextVar("caller", default=LOCAL)


def caller() -> Caller:
    """Who made the call that this task serves."""
    return _caller.get()


def set_caller(who: Caller) -> None:
    """Called by the interceptor, in the call's own task."""
    _caller.set(who)

"""Who is calling, and from where, for the length of one call."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Caller:
    """The one who calls: the token's subject, its groups, and who vouches for it. Two calls of one are equal."""

    subject: str
    groups: tuple[str, ...] = ()
    issuer: str = ""
    credential: int | None = None
    """The version of the secret that an application's token was made with; None: a person, or a service of ours."""
    channel: str = field(default="grpc", compare=False)
    """How the call came in: grpc, rest or kubernetes."""
    peer: str = field(default="", compare=False)
    """The address that it came from."""

    @property
    def key(self) -> str:
        """The same text for the same caller and for no other: two issuers may know people of one name."""
        return f"{self.issuer}\n{self.subject}" if self.issuer else self.subject


LOCAL: Final = Caller("local")
"""Everyone, where authentication is switched off."""

NOBODY: Final = Caller("")
"""Whoever calls what needs no token. No rule can speak of them."""

_caller: ContextVar[Caller] = ContextVar("caller", default=LOCAL)


def caller() -> Caller:
    """Who made the call that this task serves."""
    return _caller.get()


def set_caller(who: Caller) -> None:
    """Called at the edge of each channel, in the call's own task."""
    _caller.set(who)

"""What the handlers of access need of the world: rules, applications, tokens, and the state that judges calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from muster_chassis.rpc import Caller
from muster_chassis.unit import Unit
from muster_submission.domain.access import Binding
from muster_submission.domain.bindings import Holder, State
from muster_submission.domain.refreshing import RefreshToken


class AccessBooks(Protocol):
    """Access rules and applications."""

    async def state(self) -> State:
        """Everything that decides about calls, at most half a second old."""
        ...


@dataclass(frozen=True, slots=True)
class GivenRule:
    """A role that someone has somewhere, since when and from whom."""

    number: int
    holder: Holder
    binding: Binding
    created_at: datetime
    created_by: str
    holder_name: str
    """The name of an application; empty for people and groups."""


class RuleBooks(Protocol):
    """Access rules as rows."""

    async def add(self, unit: Unit, holder: Holder, binding: Binding, by: str) -> tuple[GivenRule, bool]:
        """The rule, and whether it is new."""
        ...

    async def count(self, unit: Unit) -> int:
        """How many rules there are; nobody else gives one until the transaction ends."""
        ...

    async def lock(self, unit: Unit, number: int) -> GivenRule | None:
        """A rule, locked until the transaction ends."""
        ...

    async def remove(self, unit: Unit, number: int) -> None:
        """Removes a rule."""
        ...

    async def admins(self, unit: Unit) -> int:
        """How many rules give the whole tenant to somebody; none of them goes until the transaction ends."""
        ...


@dataclass(frozen=True, slots=True)
class Application:
    """A program with an id and a secret, of which there is only the SHA-256."""

    id: str
    name: str
    secret: bytes = field(repr=False)
    credential: int
    enabled: bool
    created_at: datetime
    created_by: str
    updated_at: datetime
    used_at: datetime | None


class ApplicationBooks(Protocol):
    """Applications as rows."""

    async def find(self, ref: str, unit: Unit | None = None) -> Application | None:
        """The application of that id or name; within a transaction it is locked until its end."""
        ...

    async def add(self, unit: Unit, application: str, name: str, secret: bytes, by: str) -> Application | None:
        """Makes an application; None where its id or name is taken."""
        ...

    async def new_secret(self, unit: Unit, application: str, secret: bytes) -> None:
        """Replaces the secret."""
        ...

    async def enable(self, unit: Unit, application: str, enabled: bool) -> None:  # noqa: FBT001 - a column's value
        """Switches an application on or off."""
        ...

    async def end(self, unit: Unit, application: str) -> None:
        """Ends an application for good, with its rules."""
        ...

    async def used(self, unit: Unit, application: str) -> None:
        """Notes that it got a token."""
        ...


class TokenMaker(Protocol):
    """Makes tokens for applications."""

    async def access(self, application: str, credential: int, now: datetime) -> str:
        """A token with which an application may call."""
        ...

    async def refresh(self, application: str, credential: int, token: RefreshToken) -> str:
        """A token that can only be exchanged for another one."""
        ...

    async def read_refresh(self, token: str) -> tuple[Caller, str]:
        """The application that a refresh token is for, and the token's id. Raises Unauthenticated."""
        ...


class RefreshBooks(Protocol):
    """Refresh tokens as rows."""

    async def lock(self, unit: Unit, token: str) -> RefreshToken | None:
        """The token of that id, locked until the transaction ends; None for one that ended."""
        ...

    async def add(self, unit: Unit, token: RefreshToken, ends_at: datetime) -> None:
        """Writes a new token."""
        ...

    async def rotate(self, unit: Unit, token: str, successor: RefreshToken, ends_at: datetime) -> None:
        """Writes the successor of a token."""
        ...

    async def end(self, unit: Unit, family: str) -> None:
        """Ends all tokens of a family."""
        ...

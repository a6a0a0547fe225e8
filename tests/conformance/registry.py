"""Cases by their names, with what each needs of a platform."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from tests.conformance import cases
from tests.conformance.platforms import Capability
from tests.conformance.stage import Stage

Body = Callable[..., Awaitable[None]]


@dataclass(frozen=True)
class Case:
    """One case. alone: it ends its agent or changes its epoch, and so has an agent of its own.

    own_bus: it empties Kafka, and so has one of its own; it is alone, too. long: it waits for half a minute and more,
    such as for a Lease to run out, so it is begun first.
    """

    name: str
    body: Body
    given: tuple[Any, ...]
    needs: frozenset[Capability]
    alone: bool
    own_bus: bool = False
    long: bool = False

    async def play(self, stage: Stage) -> None:
        """Raises AssertionError or TimeoutError where it does not hold."""
        await self.body(stage, *self.given)


CASES: Final[dict[str, Case]] = {}


def case(
    *needs: Capability, given: Iterable[Any] = (), alone: bool = False, own_bus: bool = False, long: bool = False
) -> Callable[[Body], Body]:
    """Registers a case; given: what it is played with, once for each. A tuple is several arguments."""

    def register(body: Body) -> Body:
        values = [each if isinstance(each, tuple) else (each,) for each in given] or [()]
        for value in values:
            word = "-".join(re.sub(r"[^A-Za-z0-9_.]+", "_", str(each))[:40] for each in value)
            name = f"{body.__name__}[{word}]" if word else body.__name__
            if name in CASES:
                raise ValueError(f"there are two cases {name}")
            CASES[name] = Case(name, body, value, frozenset(needs), alone or own_bus, own_bus, long)
        return body

    return register


def load() -> dict[str, Case]:
    """Every case, in the order of its module and of its place there."""
    for module in pkgutil.iter_modules(cases.__path__):
        importlib.import_module(f"{cases.__name__}.{module.name}")
    return CASES

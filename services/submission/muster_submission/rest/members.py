"""Reads members of a JSON object one by one and gathers everything that is wrong with them, each with its path.

Called by the readers of bodies that the workload catalogue does not describe: org units, node pools, clusters, access
rules. Holds: a member that nobody knows is an error, with the nearest known name; null counts as left out.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from muster_chassis.errors import Violation
from muster_submission.rest.errors import BadBody

Value = TypeVar("Value")
_LONGEST = 1000


class Findings:
    """What is wrong with a body."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []

    def add(self, path: str, said: str) -> None:
        """One thing that is wrong."""
        self.violations.append(Violation(path, said))

    def object(self, value: Any, path: str, known: Iterable[str]) -> Mapping[str, Any]:
        """The object there, with every unknown member found; an empty one where it is none."""
        names = list(known)
        if not isinstance(value, dict):
            self.add(path, f"expected an object with {', '.join(names)}")
            return {}
        for name in value:
            if name not in names:
                near = difflib.get_close_matches(name, names, 1)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
                self.add(join(path, name[:80]), f"is not known here; {hint}")
        return {name: member for name, member in value.items() if name in names}

    def text(self, value: Any, path: str) -> str:
        """A text; '' where there is none."""
        if value is None:
            return ""
        if not isinstance(value, str):
            self.add(path, "expected a text")
            return ""
        if len(value) > _LONGEST:
            self.add(path, f"has {len(value)} characters: at most {_LONGEST}")
            return ""
        return value

    def texts(self, value: Any, path: str) -> list[str]:
        """An array of texts; empty where there is none."""
        return [self.text(one, f"{path}.{at}") for at, one in enumerate(self.array(value, path))]

    def array(self, value: Any, path: str) -> list[Any]:
        """An array; empty where there is none."""
        if value is None:
            return []
        if not isinstance(value, list):
            self.add(path, "expected an array")
            return []
        return value

    def integer(self, value: Any, path: str, low: int, high: int) -> int | None:
        """A whole number; None where there is none."""
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self.add(path, f"expected a whole number from {low} to {high}")
            return None
        return value

    def boolean(self, value: Any, path: str) -> bool:
        """Yes or no; no where there is neither."""
        if not isinstance(value, bool | None):
            self.add(path, "expected true or false")
        return value is True

    def number(self, value: Any, path: str, read: Callable[[Any], Value]) -> Value | None:
        """What `read` makes of it; None where it raises ValueError."""
        try:
            return read(value)
        except ValueError as problem:
            self.add(path, str(problem))
            return None

    def raise_any(self, what: str) -> None:
        """Raises BadBody where something is wrong."""
        if self.violations:
            said = "; ".join(f"{one.field}: {one.description}" if one.field else one.description for one in self.some)
            raise BadBody(f"{what} is refused: {said}", violations=self.violations)

    @property
    def some(self) -> list[Violation]:
        """As many as fit into a sentence."""
        return self.violations[:5]


def join(path: str, name: str) -> str:
    """The path of a member."""
    return f"{path}.{name}" if path else name

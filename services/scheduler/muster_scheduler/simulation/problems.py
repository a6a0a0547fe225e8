"""What is wrong with a scenario or a trace: where, what was given, what is allowed.

Raised by reading.py and traces.py, shown by the command. Holds: every problem of a file is told, not only the first.
"""

from __future__ import annotations

from typing import NamedTuple


class Problem(NamedTuple):
    """One problem. `line` counts from 1; 0: of the file as a whole."""

    file: str
    line: int
    path: str
    text: str

    def __str__(self) -> str:
        """`day.yaml:12: projects[1].quotas: ...`."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.path}: {self.text}" if self.path else f"{place}: {self.text}"


class Unusable(Exception):
    """A file cannot be simulated."""

    def __init__(self, problems: list[Problem]) -> None:
        """At least one problem."""
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems

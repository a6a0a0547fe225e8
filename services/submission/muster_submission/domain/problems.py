"""One thing that is wrong with a request, as a value: path, sentence, place in the document.

Made by the language, by names, by triggers and by quotas; `rpc` turns a list of them into field violations.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """`message` says what was given and what is allowed. `line` and `column` count from 1; 0: there is no document."""

    path: str
    message: str
    line: int = 0
    column: int = 0

    def sentence(self) -> str:
        """The problem with its place, as `14:7: ...`; without a document the message alone."""
        return f"{self.line}:{self.column}: {self.message}" if self.line else self.message

"""What reading a document gives: the typed spec, and everything that is wrong with it, each with its place.

Made by the reader; submission turns violations into gRPC field violations, the client prints them.
Holds: lines and columns count from 1; 0 means that there is no text to point at.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from muster_language.spec import Kind, WorkloadSpec

MOST_VIOLATIONS: Final = 100
"""Errors after which the reading of a document or a body ends."""


class TooManyErrors(Exception):
    """There are MOST_VIOLATIONS errors already: to read on would cost time and help no one."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One error: `path` such as `spec.gpu.value`, `message` what is wrong, `allowed` what would be right."""

    path: str
    message: str
    line: int = 0
    column: int = 0
    allowed: str = ""

    @property
    def text(self) -> str:
        """Message and what is allowed in one sentence, for a channel with one line."""
        return f"{self.message}: {self.allowed}" if self.allowed else self.message


MORE: Final = Violation("", "and more errors; the rest was not read")
"""The last error where there are too many."""


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a file.

    `spec` holds what could be read even where there are violations; `kind` is None where the document does not say a
    known one; `name` is empty where it gives none or only a prefix; `object_name` is metadata.name, by which the
    document is known when it is applied again; `warnings` refuse nothing.
    `list_line` is where the list begins that the document is an item of; 0: it stands by itself.
    """

    kind: Kind | None
    spec: WorkloadSpec
    namespace: str | None
    name: str
    violations: list[Violation] = field(default_factory=list)
    source: str = "<file>"
    line: int = 1
    object_name: str = ""
    warnings: list[Violation] = field(default_factory=list)
    list_line: int = 0

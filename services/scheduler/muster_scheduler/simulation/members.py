"""The members of a YAML document with their places: every value is asked for by name, type and bounds.

Called by reading.py. A value that is missing or wrong is noted as a problem and replaced by a harmless one, so that all
problems of a file come out at once; members that nobody asked for are problems too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

import yaml

from muster_kernel.quantities import parse_bytes, parse_milli_cpu
from muster_scheduler.domain.asked.workloads import SECOND
from muster_scheduler.simulation.problems import Problem

T = TypeVar("T")
_SPANS: Final = {"": SECOND, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND, "d": 86_400 * SECOND}
_SPAN: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)([smhd]?)")
_LONGEST: Final = 60
LONGEST_TIME: Final = 400 * _SPANS["d"]


def span(text: str) -> int:
    """Microseconds of `90`, `90s`, `20m`, `1.5h`, `1h30m` or `2d`. Raises ValueError saying what is allowed."""
    parts = _SPAN.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text[:_LONGEST]!r} is no time: write seconds, or a number with s, m, h or d, as in 1h30m")
    total = sum(int(float(number) * _SPANS[unit]) for number, unit in parts)
    if total > LONGEST_TIME:
        raise ValueError(f"{text[:_LONGEST]!r} is too long: at most 400d")
    return total


class Members:
    """One mapping of the document. An absent one has no members."""

    def __init__(self, node: yaml.Node | None, path: str, file: str, problems: list[Problem]) -> None:
        """`path` names it in problems."""
        self.path, self._file, self._problems = path, file, problems
        self.line = node.start_mark.line + 1 if node is not None else 0
        self._values: dict[str, yaml.Node] = {}
        self._asked: set[str] = set()
        if isinstance(node, yaml.MappingNode):
            self._take(node)
        elif node is not None:
            self.wrong("", f"{_shown(node)} is no mapping: write members such as `name: value`", self.line)

    def _take(self, node: yaml.MappingNode) -> None:
        for key, value in node.value:
            name = str(key.value)
            if name in self._values:
                self.wrong(name, "is given twice: give it once", key.start_mark.line + 1)
            self._values[name] = value

    def wrong(self, name: str, text: str, line: int = 0) -> None:
        """Notes a problem with a member, or with the mapping itself."""
        value = self._values.get(name)
        at = line or (value.start_mark.line + 1 if value is not None else self.line)
        self._problems.append(Problem(self._file, at, ".".join(part for part in (self.path, name) if part), text))

    def __contains__(self, name: str) -> bool:
        """Whether the member is given."""
        return name in self._values

    def done(self) -> None:
        """Nothing more will be asked for: what is left over is unknown."""
        for name in self._values:
            if name not in self._asked:
                self.wrong(name[:_LONGEST], f"is not known here: allowed are {', '.join(sorted(self._asked))}")

    # -- values ------------------------------------------------------------------------------------------------------

    def text(self, name: str, default: str | None = None) -> str:
        """A name or a word."""
        return self._read(name, default, "", _word)

    def flag(self, name: str, *, default: bool) -> bool:
        """True or false."""
        return self._read(name, default, default, _flag)

    def whole(self, name: str, default: int | None, low: int, high: int) -> int:
        """A whole number within bounds."""

        def read(text: str) -> int:
            if not re.fullmatch(r"-?[0-9]{1,15}", text) or not low <= int(text) <= high:
                raise ValueError(f"{text[:_LONGEST]!r}: a whole number from {low} to {high} is allowed")
            return int(text)

        return self._read(name, default, low, read)

    def number(self, name: str, default: float | None, low: float, high: float) -> float:
        """A number within bounds."""

        def read(text: str) -> float:
            if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?", text) or not low <= float(text) <= high:
                raise ValueError(f"{text[:_LONGEST]!r}: a number from {low:g} to {high:g} is allowed")
            return float(text)

        return self._read(name, default, low, read)

    def span(self, name: str, default: int | None, low: int = 0) -> int:
        """A time in microseconds."""

        def read(text: str) -> int:
            found = span(text)
            if found < low:
                raise ValueError(f"{text!r} is too short: at least {low // SECOND}s")
            return found

        return self._read(name, default, max(low, SECOND), read)

    def cpu(self, name: str, default: int) -> int:
        """Milli-CPU."""
        return self._read(name, default, default, parse_milli_cpu)

    def memory(self, name: str, default: int) -> int:
        """Bytes."""
        return self._read(name, default, default, parse_bytes)

    def words(self, name: str, default: tuple[str, ...]) -> tuple[str, ...]:
        """A list of names, or one."""
        self._asked.add(name)
        node = self._values.get(name)
        if node is None:
            return default
        each = node.value if isinstance(node, yaml.SequenceNode) else [node]
        if any(not isinstance(one, yaml.ScalarNode) for one in each) or not each:
            self.wrong(name, "is no list of names: write a name, or [a, b]")
            return default
        return tuple(str(one.value) for one in each)

    def members(self, name: str) -> Members:
        """A mapping inside."""
        self._asked.add(name)
        return Members(self._values.get(name), self._inside(name), self._file, self._problems)

    def named(self, name: str) -> Iterator[tuple[str, Members]]:
        """A mapping of names to mappings."""
        inner = self.members(name)
        for key, node in inner._values.items():  # noqa: SLF001 - of its own kind
            yield key, Members(node, f"{inner.path}.{key}", self._file, self._problems)

    def list(self, name: str, most: int = 100_000) -> Iterator[Members]:
        """A list of mappings."""
        self._asked.add(name)
        node = self._values.get(name)
        if node is None:
            return
        if not isinstance(node, yaml.SequenceNode) or len(node.value) > most:
            self.wrong(name, f"is no list of at most {most:,} entries: write each with a leading `- `")
            return
        for number, each in enumerate(node.value):
            yield Members(each, f"{self._inside(name)}[{number}]", self._file, self._problems)

    def _inside(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def _read(self, name: str, default: T | None, instead: T, read: Callable[[str], T]) -> T:
        self._asked.add(name)
        node = self._values.get(name)
        if node is None:
            if default is None:
                self.wrong(name, "is missing: it has to be given")
                return instead
            return default
        if not isinstance(node, yaml.ScalarNode):
            self.wrong(name, f"{_shown(node)} is no single value")
            return instead
        try:
            return read(str(node.value))
        except ValueError as error:
            self.wrong(name, str(error))
            return instead


def _word(text: str) -> str:
    if not text or len(text) > _LONGEST:
        raise ValueError(f"{text[:_LONGEST]!r}: a word of 1 to {_LONGEST} characters is allowed")
    return printable(text)


def printable(text: str) -> str:
    """The text itself. Raises ValueError where a terminal would obey it instead of showing it."""
    if not text.isprintable():
        raise ValueError(f"{text[:_LONGEST]!r} has control characters: letters, digits and signs are allowed")
    return text


def _flag(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError(f"{text[:_LONGEST]!r}: true or false is allowed")
    return text == "true"


def _shown(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        return repr(str(node.value)[:_LONGEST])
    return "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"

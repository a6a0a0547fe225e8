"""YAML text as a tree of nodes with their places, within limits: nothing is typed yet and nothing is guessed.

Called by the reader only. The tree is built from the event stream in one pass with a stack of its own: composing
recurses in C and 30,000 nested brackets end the process; here depth is counted before anything is built.
Holds: whatever the text is, the answer is a value; a scalar is what the user wrote, never YAML 1.1's idea of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from muster_language.documents import Violation

DEEPEST: Final = 64
MOST_NODES: Final = 20_000
LONGEST_DOCUMENT: Final = 1 << 20  # characters
LONGEST_FILE: Final = 16 << 20
MOST_DOCUMENTS: Final = 1_000

_CORE_TAGS: Final = frozenset(
    {None, *(f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq"))}
)
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})


@dataclass(frozen=True, slots=True)
class Scalar:
    """A text as it stands, quotes and escapes resolved. `null`: written plain as nothing, ~ or null."""

    text: str
    null: bool
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Mapping:
    """Entries in their order; duplicate keys have been reported and left out."""

    entries: list[tuple[Scalar, Node]]
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Sequence:
    """Items in their order."""

    items: list[Node]
    line: int
    column: int


Node = Scalar | Mapping | Sequence


@dataclass(slots=True)
class Loaded:
    """One document of the stream: its root (None: empty or not readable) and what is wrong with it as YAML."""

    line: int
    root: Node | None = None
    violations: list[Violation] = field(default_factory=list)


class _Stop(Exception):
    """The text goes beyond a limit: reading on could only cost more."""


def load(text: str) -> list[Loaded]:
    """Every document of the text. Stops at the first syntax error or limit; what came before it is kept."""
    if len(text) > LONGEST_FILE:
        message = f"the file has {len(text)} characters"
        return [Loaded(1, None, [Violation("", message, 1, 1, f"at most {LONGEST_FILE}")])]
    builder = _Builder()
    try:
        for event in _events(text):
            builder.take(event)
    except _Stop:
        pass
    except yaml.YAMLError as error:
        builder.fail(_syntax(error, text))
    except UnicodeError:
        builder.fail(Violation("", "the text is not valid Unicode", 1, 1, "UTF-8 text"))
    return builder.documents


def _events(text: str) -> Iterator[yaml.Event]:
    loader = yaml.CSafeLoader(text)
    try:
        while loader.check_event():
            event = loader.get_event()
            if event is not None:
                yield event
    finally:
        loader.dispose()


def _syntax(error: yaml.YAMLError, text: str) -> Violation:
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        what = " ".join(part for part in (error.context, error.problem) if part)
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        return Violation("", f"this is not YAML: {what}", line, column, _tab_hint(text, line))
    if isinstance(error, yaml.reader.ReaderError):
        before = text[: error.position] if isinstance(error.position, int) else ""
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        return Violation("", f"this is not YAML: {error.reason}", line, column, "printable text in UTF-8")
    return Violation("", "this is not YAML", 1, 1)


def _tab_hint(text: str, line: int) -> str:
    lines = text.splitlines()
    given = lines[line - 1] if line <= len(lines) else ""
    indent = given[: len(given) - len(given.lstrip())]
    return "indentation is made of spaces, and this line begins with a tab" if "\t" in indent else ""


@dataclass(slots=True)
class _Open:
    """A collection whose end has not come yet."""

    node: Mapping | Sequence
    key: Scalar | None = None  # of a mapping: the key whose value comes next
    skip: bool = False  # the next value belongs to a key that was refused
    keys: dict[str, Scalar] = field(default_factory=dict)


class _Builder:
    """Takes events one by one and grows the tree; the stack holds the open collections."""

    def __init__(self) -> None:
        self.documents: list[Loaded] = []
        self._stack: list[_Open] = []
        self._nodes = 0
        self._begin = 0

    def take(self, event: yaml.Event) -> None:
        """One event further. Raises _Stop beyond a limit."""
        match event:
            case yaml.ScalarEvent():
                self._count(event)
                self._tag(event)
                self._add(self._scalar(event))
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._count(event)
                self._tag(event)
                self._open(event)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._add(self._stack.pop().node)
            case yaml.AliasEvent():
                self._say(event, f"the alias *{event.anchor} is not taken", "write the value out where it is used")
                self._add(Scalar("", True, *_place(event)))
            case yaml.DocumentStartEvent():
                self._start(event)
            case _:
                pass

    def fail(self, violation: Violation) -> None:
        """Reading ended at an error: the document in hand is not complete."""
        if not self.documents:
            self.documents.append(Loaded(violation.line))
        self.documents[-1].root = None
        self.documents[-1].violations.append(violation)

    def _start(self, event: yaml.DocumentStartEvent) -> None:
        line, _ = _place(event)
        if len(self.documents) == MOST_DOCUMENTS:
            self._say(event, f"the file has more than {MOST_DOCUMENTS} documents", "split it into several files")
            raise _Stop
        self.documents.append(Loaded(line))
        self._nodes, self._begin = 0, _marks(event)[0].index
        if event.version or event.tags:
            self._say(event, "a %YAML or %TAG directive is not taken", "leave the line out")

    def _count(self, event: yaml.Event) -> None:
        self._nodes += 1
        if self._nodes > MOST_NODES:
            self._give_up(event, f"the document has more than {MOST_NODES} values", "make it smaller")
        if len(self._stack) >= DEEPEST and not isinstance(event, yaml.ScalarEvent):
            self._give_up(event, f"brackets or blocks are nested deeper than {DEEPEST}", f"at most {DEEPEST} levels")
        if _marks(event)[1].index - self._begin > LONGEST_DOCUMENT:
            self._give_up(event, f"the document is longer than {LONGEST_DOCUMENT} characters", "make it smaller")

    def _give_up(self, event: yaml.Event, message: str, allowed: str) -> None:
        self._say(event, message, allowed)
        self._stack.clear()
        self.documents[-1].root = None
        raise _Stop

    def _tag(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent) -> None:
        tag = event.tag
        if tag not in _CORE_TAGS:
            self._say(event, f"the tag {tag} is not taken", "leave the tag out: the field says what its value is")

    def _scalar(self, event: yaml.ScalarEvent) -> Scalar:
        text: str = event.value
        if "\0" in text:
            self._say(event, "the value has a NUL character", "text without NUL")
            text = text.replace("\0", "")
        plain = event.style is None or event.style == ""
        return Scalar(text, plain and text in _NULLS, *_place(event))

    def _open(self, event: yaml.Event) -> None:
        place = _place(event)
        node: Mapping | Sequence = (
            Mapping([], *place) if isinstance(event, yaml.MappingStartEvent) else Sequence([], *place)
        )
        self._stack.append(_Open(node))

    def _add(self, node: Node) -> None:
        if not self._stack:
            self.documents[-1].root = node
            return
        top = self._stack[-1]
        if isinstance(top.node, Sequence):
            top.node.items.append(node)
        elif top.skip:
            top.skip = False
        elif top.key is None:
            self._key(top, node)
        else:
            top.node.entries.append((top.key, node))
            top.key = None

    def _key(self, top: _Open, node: Node) -> None:
        if not isinstance(node, Scalar):
            self._report(node, "a list or a mapping cannot be a key", "a key is one word")
            top.skip = True
        elif node.text == "<<":
            self._report(node, "a merge key (<<) is not taken", "write the fields out")
            top.skip = True
        elif node.text in top.keys:
            first = top.keys[node.text]
            self._report(
                node, f"{node.text} is given twice", f"the first one is in line {first.line}; keep one of them"
            )
            top.skip = True
        else:
            top.keys[node.text] = node
            top.key = node

    def _say(self, event: yaml.Event, message: str, allowed: str) -> None:
        self.documents[-1].violations.append(Violation(self._path(), message, *_place(event), allowed))

    def _report(self, node: Node, message: str, allowed: str) -> None:
        self.documents[-1].violations.append(Violation(self._path(), message, node.line, node.column, allowed))

    def _path(self) -> str:
        parts = [open_.key.text if open_.key else "" for open_ in self._stack if isinstance(open_.node, Mapping)]
        return ".".join(part for part in parts if part)


def _place(event: yaml.Event) -> tuple[int, int]:
    start, _ = _marks(event)
    return start.line + 1, start.column + 1


def _marks(event: yaml.Event) -> tuple[Any, Any]:
    """Where the event begins and ends; the C parser gives every event both."""
    return event.start_mark, event.end_mark

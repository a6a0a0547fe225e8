"""YAML text into nodes, within limits: one pass over the C parser's events, with a stack of its own.

Called by the reader, by policy for its documents, and by the client to find a place in a file.
Composing recurses in C, and 30,000 nested brackets end the process; here depth is counted before anything is built.
Holds: whatever the text is, the answer is a value: every document so far, with what is wrong in it as YAML.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from muster_language.documents.document import Violation
from muster_language.documents.nodes import Mapping, Node, Scalar, Sequence

DEEPEST: Final = 64
MOST_NODES: Final = 20_000
LONGEST_DOCUMENT: Final = 1 << 20  # characters
LONGEST_FILE: Final = 16 << 20
MOST_DOCUMENTS: Final = 1_000

_CORE_TAGS: Final = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq")
)
_MERGE: Final = "<<"
_new: Final = tuple.__new__  # what a named tuple does, without the call around it
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})


@dataclass(slots=True)
class Loaded:
    """One document of the stream: its root (None: empty or not readable) and what is wrong with it as YAML.

    list_line: where the list begins that it is an item of; 0: it stands by itself.
    """

    line: int
    root: Node | None = None
    violations: list[Violation] = field(default_factory=list)
    list_line: int = 0


class _Stop(Exception):
    """The text goes beyond a limit: reading on could only cost more."""


def load(text: str, most: int = MOST_DOCUMENTS) -> list[Loaded]:
    """The first `most` documents. Stops at the first syntax error or limit; what came before it is kept."""
    if len(text) > LONGEST_FILE:
        message = f"the file has {len(text)} characters"
        return [Loaded(1, None, [Violation("", message, 1, 1, f"at most {LONGEST_FILE}")])]
    builder = _Builder(most)
    try:
        _walk(text, builder)
    except _Stop:
        pass
    except yaml.YAMLError as error:
        builder.fail(_syntax(error, text))
    except UnicodeEncodeError as error:
        builder.fail(Violation("", "the text is not valid Unicode", *_position(text[: error.start]), "text in UTF-8"))
    return builder.documents


def decode(content: bytes) -> str | Violation:
    """The text of a file, or where it stops being UTF-8."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        place = _position(content[: error.start].decode())
        message = f"byte {error.start} (0x{content[error.start]:02x}) is not UTF-8"
        return Violation("", message, *place, "text in UTF-8: save the file in that encoding")


def _walk(text: str, builder: _Builder) -> None:
    take = builder.takers()
    loader = yaml.CSafeLoader(text)
    try:
        event: Any = loader.get_event()
        while event is not None and event.__class__ is not yaml.StreamEndEvent:
            take[event.__class__](event)
            event = loader.get_event()
    finally:
        loader.dispose()


def _position(before: str) -> tuple[int, int]:
    """Line and column of what comes after a text, both from 1."""
    return before.count("\n") + 1, len(before) - before.rfind("\n")


def _syntax(error: yaml.YAMLError, text: str) -> Violation:
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        what = " ".join(part for part in (error.context, error.problem) if part)
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        return Violation("", f"this is not YAML: {what}", line, column, _tab_hint(text, line))
    if isinstance(error, yaml.reader.ReaderError):
        before = text[: error.position] if isinstance(error.position, int) else ""
        return Violation("", f"this is not YAML: {error.reason}", *_position(before), "printable text in UTF-8")
    return Violation("", "this is not YAML", 1, 1)


def _tab_hint(text: str, line: int) -> str:
    lines = text.splitlines()
    given = lines[line - 1] if line <= len(lines) else ""
    indent = given[: len(given) - len(given.lstrip())]
    return "indentation is made of spaces, and this line begins with a tab" if "\t" in indent else ""


class _Open:
    """A collection whose end has not come yet."""

    __slots__ = ("into", "key", "keys", "node", "skip")

    def __init__(self, node: Mapping | Sequence, keys: dict[str, Scalar] | None) -> None:
        self.node = node
        self.into: list[Any] = node[0]
        self.keys = keys  # None: a sequence
        self.key: Scalar | None = None  # of a mapping: the key whose value comes next
        self.skip = False  # the next value belongs to a key that was refused


class _Builder:
    """Takes events one by one and grows the tree; the stack holds the open collections."""

    def __init__(self, most: int) -> None:
        self.documents: list[Loaded] = []
        self._most = most
        self._stack: list[_Open] = []
        self._nodes = 0
        self._begin = 0

    def takers(self) -> dict[type, Callable[[Any], None]]:
        """What each kind of event does; each may raise _Stop."""
        return {
            yaml.StreamStartEvent: lambda _: None,
            yaml.DocumentStartEvent: self._start,
            yaml.DocumentEndEvent: lambda event: self._within(event.start_mark),
            yaml.ScalarEvent: self._scalar,
            yaml.MappingStartEvent: self._mapping,
            yaml.SequenceStartEvent: self._sequence,
            yaml.MappingEndEvent: self._end,
            yaml.SequenceEndEvent: self._end,
            yaml.AliasEvent: self._alias,
        }

    def fail(self, violation: Violation) -> None:
        """Reading ended at an error: the document in hand is not complete."""
        if not self.documents:
            self.documents.append(Loaded(violation.line))
        self.documents[-1].root = None
        self.documents[-1].violations.append(violation)

    def _start(self, event: Any) -> None:
        mark = event.start_mark
        if len(self.documents) == self._most:
            told = f"the file has more than {self._most} document{'s' if self._most > 1 else ''}"
            self._say(mark, told, "split it into several files")
            raise _Stop
        self.documents.append(Loaded(mark.line + 1))
        self._nodes, self._begin = 0, mark.index
        if event.version or event.tags:
            self._say(mark, "a %YAML or %TAG directive is not taken", "leave the line out")

    def _scalar(self, event: Any) -> None:
        """The one event of which a document has many: what follows is written out instead of called."""
        mark, text = event.start_mark, event.value
        self._nodes += 1
        if self._nodes > MOST_NODES:
            self._too_many(mark)
        plain = not event.style
        if event.tag is not None:
            self._tag(mark, event.tag)
        if not plain and "\0" in text:  # without quotes the parser itself refuses it
            self._say(mark, "the value has a NUL character", "text without NUL")
            text = text.replace("\0", "")
        null = plain and text in _NULLS and (event.tag is None or event.tag in _CORE_TAGS)
        node = _new(Scalar, (text, null, plain, mark.line + 1, mark.column + 1))
        top = self._stack[-1] if self._stack else None
        if top is None:
            self.documents[-1].root = node
        elif top.key is not None:
            top.into.append((top.key, node))
            top.key = None
        elif top.keys is None:
            top.into.append(node)
        elif top.skip or text in top.keys or text == _MERGE:
            self._key(top, top.keys, node)
        else:
            top.keys[text] = top.key = node

    def _mapping(self, event: Any) -> None:
        mark = event.start_mark
        self._open(event, mark)
        self._stack.append(_Open(Mapping([], mark.line + 1, mark.column + 1), {}))

    def _sequence(self, event: Any) -> None:
        mark = event.start_mark
        self._open(event, mark)
        self._stack.append(_Open(Sequence([], mark.line + 1, mark.column + 1), None))

    def _open(self, event: Any, mark: Any) -> None:
        self._nodes += 1
        if self._nodes > MOST_NODES:
            self._too_many(mark)
        self._within(mark)
        if event.tag is not None:
            self._tag(mark, event.tag)
        if len(self._stack) >= DEEPEST:
            self._give_up(mark, f"brackets or blocks are nested deeper than {DEEPEST}", f"at most {DEEPEST} levels")

    def _end(self, _: Any) -> None:
        self._add(self._stack.pop().node)

    def _alias(self, event: Any) -> None:
        mark = event.start_mark
        self._nodes += 1
        if self._nodes > MOST_NODES:
            self._too_many(mark)
        # Its name may be a credential that begins with * and was not quoted: it is never said.
        self._say(
            mark, "an alias (* and a name) is not taken", "write the value out; a text that begins with * in quotes"
        )
        self._add(Scalar("", False, True, mark.line + 1, mark.column + 1))

    def _too_many(self, mark: Any) -> None:
        self._give_up(mark, f"the document has more than {MOST_NODES} values", "make it smaller")

    def _within(self, mark: Any) -> None:
        if mark.index - self._begin > LONGEST_DOCUMENT:
            self._give_up(mark, f"the document is longer than {LONGEST_DOCUMENT} characters", "make it smaller")

    def _give_up(self, mark: Any, message: str, allowed: str) -> None:
        self._say(mark, message, allowed)
        self._stack.clear()
        self.documents[-1].root = None
        raise _Stop

    def _tag(self, mark: Any, tag: str) -> None:
        if tag not in _CORE_TAGS:
            # The tag may be a credential that begins with ! and was not quoted: it is never said.
            self._say(mark, "a tag (! and a name) is not taken", "leave it out; a text that begins with ! in quotes")

    def _add(self, node: Node) -> None:
        if not self._stack:
            self.documents[-1].root = node
            return
        top = self._stack[-1]
        if top.key is not None:
            top.into.append((top.key, node))
            top.key = None
        elif top.keys is None:
            top.into.append(node)
        else:
            self._key(top, top.keys, node)

    def _key(self, top: _Open, keys: dict[str, Scalar], node: Node) -> None:
        if top.skip:
            top.skip = False
        elif not isinstance(node, Scalar):
            self._refuse(top, node, "a list or a mapping cannot be a key", "a key is one word")
        elif node.text == _MERGE:
            self._refuse(top, node, "a merge key (<<) is not taken", "write the fields out")
        elif node.text in keys:
            first = keys[node.text].line
            self._refuse(
                top, node, f"{node.text} is given twice", f"the first one is in line {first}; keep one of them"
            )
        else:
            keys[node.text] = top.key = node

    def _refuse(self, top: _Open, node: Node, message: str, allowed: str) -> None:
        top.skip = True
        self.documents[-1].violations.append(Violation(self._path(), message, node.line, node.column, allowed))

    def _say(self, mark: Any, message: str, allowed: str) -> None:
        self.documents[-1].violations.append(Violation(self._path(), message, mark.line + 1, mark.column + 1, allowed))

    def _path(self) -> str:
        return ".".join(each.key.text for each in self._stack if each.key is not None and each.key.text)

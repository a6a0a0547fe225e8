"""What a reader has to say about a document so far: errors and warnings at their nodes, and what stands elsewhere.

One value a document, handed through everything that reads a part of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from muster_language.catalogue import nearest
from muster_language.documents.document import MOST_VIOLATIONS, TooManyErrors, Violation
from muster_language.documents.nodes import Mapping, Node, Scalar, Sequence
from muster_language.values import Refused

_LISTED: Final = 40  # known names that an error lists at most


@dataclass(slots=True)
class Findings:
    """Errors (`found`) and remarks that refuse nothing (`warned`).

    moved: paths of the spec whose value stands elsewhere in the text -> where, for errors that are found later.
    whole: paths of the specs whose `gpu` said a number of devices, which the spec alone does not show.
    """

    found: list[Violation] = field(default_factory=list)
    warned: list[Violation] = field(default_factory=list)
    moved: dict[str, str] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)

    def say(self, path: str, node: Node, message: str, allowed: str = "") -> None:
        """An error at a node. Raises TooManyErrors."""
        if len(self.found) >= MOST_VIOLATIONS:
            raise TooManyErrors
        self.found.append(Violation(path, message, node.line, node.column, allowed))

    def warn(self, path: str, node: Node, message: str) -> None:
        """A remark at a node."""
        self.warned.append(Violation(path, message, node.line, node.column))

    def refuse(self, path: str, node: Node, refused: Refused) -> None:
        """An error at a node whose value is not taken."""
        self.say(path, node, refused.message, refused.allowed)

    def unknown(self, mapping: Mapping, known: Iterable[str], path: str = "") -> None:
        """An error for each key that is not known."""
        names = list(known)
        for key, _ in mapping.entries:
            if key.text not in names:
                self.say(f"{path}{key.text}", key, *unknown_field(key.text, names))

    def text(self, node: Node, path: str) -> str | None:
        """The text of a value; None after an error."""
        if not isinstance(node, Scalar):
            what = "list" if isinstance(node, Sequence) else "mapping"
            self.say(path, node, f"a {what} stands where a value belongs")
        elif node.null:
            self.say(path, node, "the field has no value", 'a value, or "" for the empty text')
        else:
            return node.text
        return None

    def words(self, node: Node, path: str) -> list[str]:
        """The texts of a list; what is none is said."""
        if not isinstance(node, Sequence):
            self.say(path, node, "this is not a list", "a list of words, such as [a, b]")
            return []
        found = []
        for index, item in enumerate(node.items):
            if isinstance(item, Scalar) and not item.null:
                found.append(item.text)
            else:
                self.say(f"{path}.{index}", item, "an entry of the list is not a text", "a list of words")
        return found


def unknown_field(word: str, known: list[str]) -> tuple[str, str]:
    """Message and hint for a word that is no field: the nearest known name, else the known ones."""
    near = nearest(word, known)
    if near is not None:
        return f"unknown field; did you mean {near}?", ""
    listed = f"{', '.join(known[:_LISTED])}{', ..' if len(known) > _LISTED else ''}"
    return "unknown field", f"known here: {listed}"

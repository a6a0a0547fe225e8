"""Values, bounds and options of a policy document: nodes into what the rows say they are, with every error at its line.

Used by the readers of documents, rules and defaults.
Holds: a value that is returned is legal for its row; None means that an error has been said.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from muster_language import Row, Violation, catalogue
from muster_language.catalogue import nearest
from muster_language.catalogue import value_types as of
from muster_language.checks.bounds import refusal
from muster_language.documents.nodes import Mapping, Node, Scalar, Sequence
from muster_language.values import Refused, shown, typed
from muster_policy_engine.amounts import comparable
from muster_policy_engine.policy import Bound, Options


@dataclass(slots=True)
class NodeReader:
    """Reads nodes and remembers what was wrong with them."""

    found: list[Violation] = field(default_factory=list)

    def say(self, path: str, node: Node, message: str, allowed: str = "") -> None:
        """An error at a node."""
        self.found.append(Violation(path, message, node.line, node.column, allowed))

    def entries(
        self, node: Node, path: str, known: list[str], unnamed: Collection[str] = ()
    ) -> Iterator[tuple[str, Node]]:
        """The entries of a mapping whose keys are known; the others are errors. unnamed: keys that no error offers."""
        for key, value in self.pairs(node, path, known, unnamed):
            yield key.text, value

    def pairs(
        self, node: Node, path: str, known: list[str], unnamed: Collection[str] = ()
    ) -> Iterator[tuple[Scalar, Node]]:
        """The same with the nodes of the keys."""
        if not isinstance(node, Mapping):
            if not is_null(node):
                self.say(path, node, "a mapping belongs here", ", ".join(known))
            return
        for key, value in node.entries:
            if key.text in known or key.text in unnamed:
                yield key, value
            else:
                near = nearest(key.text, known)
                hint = f"; did you mean {near}?" if near else ""
                self.say(join(path, key.text), key, f'unknown field "{key.text[:60]}"{hint}', ", ".join(known[:20]))

    def scalar(self, row: Row, node: Node, path: str) -> Any:
        """A value of the row; a list where the row is one."""
        if row.type == of.ARRAY and isinstance(node, Sequence):
            texts = [each.text for each in node.items if isinstance(each, Scalar) and not each.null]
            if len(texts) < len(node.items):
                self.say(path, node, "a list of texts belongs here", "[a, b]")
                return None
            return self._checked(row, texts, node, path)
        if not isinstance(node, Scalar) or node.null:
            self.say(path, node, "a value belongs here")
            return None
        return self._checked(row, typed(row, node.text), node, path)

    def _checked(self, row: Row, value: Any, node: Node, path: str) -> Any:
        refused = value if isinstance(value, Refused) else refusal(row, value)
        if refused is not None:
            self.say(path, node, refused.message, refused.allowed)
            return None
        return value

    def flag(self, node: Node, path: str) -> bool | None:
        """Whether it is true."""
        value = self.scalar(catalogue().by_name["tty"], node, path)
        return value if isinstance(value, bool) else None

    def bound(self, row: Row, node: Node, path: str) -> Bound | None:
        """A bound that values of the row compare with."""
        if not isinstance(node, Scalar) or node.null:
            self.say(path, node, "a number belongs here")
            return None
        try:
            amount = comparable(row, node.text)
        except ValueError:
            self.say(path, node, f"{shown(node.text)} is not a value of {row.path}")
            return None
        if path.endswith(".step") and amount <= 0:
            self.say(path, node, f"{shown(node.text)} is not a step", "a number above 0")
            return None
        return Bound(amount, node.text)

    def options(self, row: Row, node: Node, path: str) -> Options | None:
        """The only values: `[a, b]`, or the long form `[{value: a, displayed: A}]`."""
        if not isinstance(node, Sequence) or not node.items:
            self.say(path, node, "a list of values belongs here", "[a, b]")
            return None
        values, texts, displayed = [], [], []
        for index, item in enumerate(node.items):
            here = f"{path}.{index}"
            inner, shown_as = self._option(item, here) if isinstance(item, Mapping) else (item, "")
            value = self.scalar(row, inner, here)
            if value is not None and isinstance(inner, Scalar):
                values.append(value)
                texts.append(inner.text)
                displayed.append(shown_as)
        return Options(tuple(values), tuple(texts), tuple(displayed))

    def _option(self, item: Mapping, path: str) -> tuple[Node, str]:
        entries = dict(self.entries(item, path, ["value", "displayed"]))
        shown_as = entries.get("displayed")
        return entries.get("value", item), shown_as.text if isinstance(shown_as, Scalar) else ""

    def word(self, node: Node, path: str) -> str:
        """The label of an item; empty where it is none."""
        if isinstance(node, Scalar) and node.text and not node.null:
            return node.text
        self.say(path, node, "a label belongs here")
        return ""

    def labels(self, node: Node, path: str) -> tuple[str, ...] | None:
        """The labels of items that stay as they are: `[a, b]`."""
        labels = [
            each.text
            for each in (node.items if isinstance(node, Sequence) else ())
            if isinstance(each, Scalar) and each.text and not each.null
        ]
        if not isinstance(node, Sequence) or len(labels) < len(node.items):
            self.say(path, node, "a list of labels belongs here", "[a, b]")
            return None
        return tuple(labels)


def is_null(node: Node) -> bool:
    """Whether a node says nothing: `null`, `~`, or no value at all."""
    return isinstance(node, Scalar) and node.null


def join(path: str, word: str) -> str:
    """`compute` and `gpuPortionRequest` -> `compute.gpuPortionRequest`."""
    return f"{path}.{word}" if path else word

"""The rules of a document: the mapping under a path into the rules of its place.

Used by the reader of a policy's body.
Holds: a rule that its place does not take is an error; so is a rule beside `blocked`, which leaves nothing to rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from muster_language import Kind
from muster_language.catalogue import nearest
from muster_language.documents.nodes import Node, Scalar
from muster_language.values import shown
from muster_policy_engine.amounts import factor_of, unit_of
from muster_policy_engine.documents.reading import NodeReader, is_null, join
from muster_policy_engine.places import Place, places
from muster_policy_engine.policy import DefaultFrom, Rules

WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "required": "required",
        "canEdit": "can_edit",
        "min": "minimum",
        "max": "maximum",
        "step": "step",
        "options": "options",
        "canAdd": "can_add",
        "locked": "locked",
        "defaultFrom": "default_from",
        "blocked": "blocked",
    }
)
"""The words of v2 and the members of Rules that they fill."""
_FLAGS: Final = frozenset({"required", "canEdit", "canAdd", "blocked"})


class RuleReader:
    """Reads the rules of a policy of one kind."""

    def __init__(self, reader: NodeReader, kind: Kind) -> None:
        self._reader = reader
        self._kind = kind
        self._others: Mapping[str, Callable[[Place, Node, str], Any]] = {
            "options": lambda place, node, path: reader.options(place.value, node, path),
            "locked": lambda _, node, path: reader.labels(node, path),
            "defaultFrom": self._default_from,
        }

    def rules(self, place: Place, node: Node, path: str) -> Rules:
        """The rules that a node says for a place."""
        said: dict[str, Any] = {}
        taken = [word for word in WORDS if word in place.rules]
        for key, value in self._reader.pairs(node, path, taken, WORDS):
            word, here = key.text, join(path, key.text)
            if word not in taken:
                self._reader.say(here, key, f"{place.path} does not take the rule {word}", ", ".join(taken))
                continue
            if is_null(value):
                continue
            if word in _FLAGS:
                read: Any = self._reader.flag(value, here)
            elif word in self._others:
                read = self._others[word](place, value, here)
            else:
                read = self._reader.bound(place.value, value, here)
            said[WORDS[word]] = read
        rules = Rules(**said)
        self._agree(rules, node, path)
        return rules

    def _agree(self, rules: Rules, node: Node, path: str) -> None:
        low, high = rules.minimum, rules.maximum
        if low is not None and high is not None and low.amount > high.amount:
            self._reader.say(path, node, f"min {low.text} is above max {high.text}", "min at most max")
        if rules.blocked and len(rules.said) > 1:
            self._reader.say(path, node, "a blocked field has no other rule", "blocked: true alone")

    def _default_from(self, place: Place, node: Node, path: str) -> DefaultFrom | None:
        """`{field: compute.cpuCoreLimit, factor: 0.5}`: the field by its path, a member of the item by its name."""
        entries = dict(self._reader.entries(node, path, ["field", "factor"]))
        field, factor = entries.get("field"), entries.get("factor")
        if not isinstance(field, Scalar) or not isinstance(factor, Scalar):
            self._reader.say(path, node, "a field and a factor belong here", "{field: PATH, factor: NUMBER}")
            return None
        source = self._source(place, field, join(path, "field"))
        if source is None:
            return None
        try:
            amount = factor_of(place.value, source.value, factor.text)
        except ValueError as error:
            self._reader.say(join(path, "factor"), factor, str(error), "a number above 0, or an amount such as 16Gi")
            return None
        if amount <= 0:
            self._reader.say(join(path, "factor"), factor, f"{shown(factor.text)} is not a factor", "a number above 0")
            return None
        return DefaultFrom(source, amount, factor.text)

    def _source(self, place: Place, field: Scalar, path: str) -> Place | None:
        """The place that the field names: an amount of the same side, of items a member of the same item."""
        near = {self._short(place, each): each for each in self._sources(place)}
        text = field.text.removeprefix(place.side)
        if text in near:
            return near[text]
        guess = nearest(text, list(near))
        hint = f"; did you mean {guess}?" if guess else ""
        said = f"{shown(field.text)} is not an amount from which {place.path} can be worked out{hint}"
        self._reader.say(path, field, said)
        return None

    def _sources(self, place: Place) -> list[Place]:
        """Every amount that the place could be worked out from."""
        return [
            each
            for each in places(self._kind).values()
            if each.side is place.side
            and (not each.itemized or each.row is place.row)
            and (place.itemized or not each.itemized)
            and unit_of(each.value) is not None
            and "min" in each.rules  # a member with a path for each of its two names has one that is ruled as an amount
            and not each.first_only
            and each.value is not place.value
        ]

    def _short(self, target: Place, place: Place) -> str:
        """How the target's rule calls the place: by the member's name in the same item, else by its path."""
        return place.value.path if place.itemized else place.path.removeprefix(target.side)

"""Create bodies of the REST API into typed specs, by the catalogue's REST paths.

Called by submission's routes through `rest`. What is not one member to one field stands in `rest_compounds`.
Holds: nothing that the user did not say is written; null is the same as leaving a member out; every error at once,
each under the path that the user wrote.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from muster_language.catalogue import Row, nearest
from muster_language.catalogue import value_types as of
from muster_language.documents.document import MOST_VIOLATIONS, TooManyErrors, Violation
from muster_language.rest.tree import Branch, Leaf
from muster_language.rest.values import from_json, given
from muster_language.values import Refused, shown

_LISTED: Final = 40
_MOST_ITEMS: Final = 1_000
_UPPER: Final = re.compile(r"_([a-z0-9])")
# Members that mean nothing without each other: path of the object -> what it needs.
TOGETHER: Final = {
    "podAffinity": ("type", "key"),
    "podAntiAffinity": ("type", "key"),
    "probes.readiness": ("handler",),
    "claimInfo": ("size",),
}


@dataclass(slots=True)
class Findings:
    """What was found while reading: errors, and what was ignored."""

    violations: list[Violation] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def say(self, path: str, message: str, allowed: str = "") -> None:
        """An error. Raises TooManyErrors."""
        if len(self.violations) >= MOST_VIOLATIONS:
            raise TooManyErrors
        self.violations.append(Violation(path, message, allowed=allowed))

    def unknown(self, path: str, name: str, known: list[str]) -> None:
        """A member that nobody knows: in snake case a twin of one that is known, else perhaps mistyped."""
        twin = _UPPER.sub(lambda found: found[1].upper(), name)
        near = twin if twin in known else nearest(name, known)
        if near is not None:
            self.say(path, f"unknown member; did you mean {shown(near)}?")
        else:
            more = ", .." if len(known) > _LISTED else ""
            self.say(path, "unknown member", f"known here: {', '.join(known[:_LISTED])}{more}")


@dataclass(frozen=True, slots=True)
class BodyReader:
    """Reads the objects of one body."""

    findings: Findings

    def members(self, branch: Branch, value: Any, target: Any, path: str) -> None:
        """Reads an object's members into the message."""
        if not isinstance(value, Mapping):
            self.findings.say(path, f"{given(value)} stands here", "an object")
            return
        for name, item in value.items():
            node = branch.members.get(name)
            here = f"{path}.{name}"
            if node is None:
                self.findings.unknown(here, name, list(branch.members))
            elif item is None:
                continue
            elif isinstance(node, Branch):
                self.members(node, item, target, here)
            else:
                self._leaf(node, item, target, here)
        self._together(value, path)

    def _together(self, value: Mapping[str, Any], path: str) -> None:
        for end, names in TOGETHER.items():
            if path.endswith(f".{end}"):
                for name in names:
                    if value.get(name) is None:
                        self.findings.say(f"{path}.{name}", "it is missing", f"{end} needs {' and '.join(names)}")

    def _leaf(self, leaf: Leaf, value: Any, target: Any, path: str) -> None:
        row = leaf.row
        match row.type:
            case of.ITEMIZED:
                self._items(leaf, value, getattr(target, row.name), path)
            case of.OBJECT if leaf.inside is not None:
                message = getattr(target, row.name)
                message.SetInParent()
                self.members(leaf.inside, value, message, path)
                self._mandatory(row, message, path)
            case of.ARRAY:
                self._array(row, value, getattr(target, row.name), path)
            case _:
                self._scalar(row, value, target, path)

    def _scalar(self, row: Row, value: Any, target: Any, path: str) -> None:
        typed = from_json(row, value)
        if isinstance(typed, Refused):
            self.findings.say(path, typed.message, typed.allowed)
        else:
            setattr(target, row.name, typed)

    def _array(self, row: Row, value: Any, target: Any, path: str) -> None:
        target.SetInParent()
        if not isinstance(value, list):
            self.findings.say(path, f"{given(value)} stands here", "a list of texts")
            return
        for index, entry in enumerate(value[:_MOST_ITEMS]):
            if isinstance(entry, str):
                target.values.append(row.one_of.get(entry.casefold(), entry))
            else:
                self.findings.say(f"{path}[{index}]", f"{given(entry)} stands here", "a text")

    def _items(self, leaf: Leaf, value: Any, target: Any, path: str) -> None:
        if not isinstance(value, list):
            self.findings.say(path, f"{given(value)} stands here", "a list of objects")
            return
        if len(value) > _MOST_ITEMS:
            self.findings.say(path, f"{len(value)} items are too many", f"at most {_MOST_ITEMS}")
        for index, item in enumerate(value[:_MOST_ITEMS]):
            message, here = target.add(), f"{path}[{index}]"
            if leaf.inside is not None:
                self.members(leaf.inside, item, message, here)
            if isinstance(item, Mapping):
                self._mandatory(leaf.row, message, here)

    def _mandatory(self, row: Row, message: Any, path: str) -> None:
        """Says what is missing, by the names that REST has for it."""
        keeps = not getattr(message, "deleted", False)
        for member in row.inside:
            wanted = member.mandatory and member.rest and (keeps or member.rest == row.item_key)
            if wanted and not is_set(message, member.name):
                self.findings.say(f"{path}.{member.rest}", "it is missing", f"{_last(row.rest)} needs {member.rest}")


def is_set(message: Any, name: str) -> bool:
    """Whether a field is there: a label, which is never unset, when it says something."""
    descriptor = message.DESCRIPTOR.fields_by_name[name]
    return bool(message.HasField(name) if descriptor.has_presence else getattr(message, name))


def _last(path: str) -> str:
    return path.rpartition(".")[2]

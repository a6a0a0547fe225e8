"""An issue in the words of YAML: `gpu: must be no greater than 4`, as v1 and the command show it.

Called by the command and by the Kubernetes paths. REST shows the same issue by its REST path.
Holds: an issue is one line, whatever its path is.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from muster_language import Row, catalogue
from muster_language.catalogue import value_types as of
from muster_policy_engine.judging.rules import Objection

_MASTER: Final = "masterSpec."
_VALUE: Final = "value "


def yaml_text(objection: Objection) -> str:
    """`gpu: must be no greater than 4`: the YAML name, and the sentence without `value` in front."""
    return f"{yaml_path(objection)}: {objection.details.removeprefix(_VALUE)}"


def yaml_path(objection: Objection) -> str:
    """The YAML name of what an issue is about: `gpu`, `ports.web.container`, `masterSpec.image`."""
    prefix = _MASTER if objection.path.startswith(_MASTER) else ""
    path = objection.path.removeprefix(prefix)
    return f"{prefix}{_as_ruled(objection, path) or _named(path)}"


def _as_ruled(objection: Objection, path: str) -> str:
    """The field by which a v1 policy rules the value of several: its author and its reader know it by that name."""
    rules = objection.policy.body.rules.values() if objection.policy is not None else ()
    fitting = (each.place for each in rules if each.place.combined is not None and each.place.combined.path == path)
    return next((place.path.removeprefix(place.side) for place in fitting), "")


def _named(path: str) -> str:
    row = next((row for row in _by_length() if path == row.path or path.startswith(f"{row.path}.")), None)
    if row is None:
        return path
    word, inside = row.yaml or row.path, path[len(row.path) + 1 :]
    if not inside:
        return word
    return f"{word}.{_member(row, inside)}"


def _member(row: Row, inside: str) -> str:
    """A member of an object, or an item's label with a member of it. Labels may hold dots."""
    members = sorted((each for each in row.inside if each.path), key=lambda each: len(each.path), reverse=True)
    for member in members:
        word = member.yaml or member.path
        if row.type == of.OBJECT and inside == member.path:
            return word
        if row.type == of.ITEMIZED and inside.endswith(f".{member.path}"):
            return f"{inside.removesuffix(member.path)}{word}"
    return inside


@cache
def _by_length() -> tuple[Row, ...]:
    """Fields by their paths, the longest first: one may begin with another."""
    return tuple(sorted(catalogue().rows, key=lambda row: len(row.path), reverse=True))

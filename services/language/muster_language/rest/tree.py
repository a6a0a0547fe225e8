"""The members of REST bodies as a tree, made from the catalogue's REST paths: `compute.cpuCoreRequest` is two levels.

Called by the REST reader and writer and by the OpenAPI schemas. Holds: a tree is made once a kind; each leaf is one
row, and what a row cannot say stands in `rest_compounds`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache

from muster_language.catalogue import Row, catalogue
from muster_language.spec import Kind


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """A member that is one row; `inside`: the members of its items, or of it where it is an object."""

    row: Row
    inside: Branch | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """An object that only groups members."""

    members: Mapping[str, Branch | Leaf] = field(default_factory=dict)


@cache
def spec_tree(kind: Kind, *, master: bool = False) -> Branch:
    """What `spec` takes for a kind, or `masterSpec`."""
    rows = [row for row in catalogue().rows if kind in row.rest_kinds and row.rest and not row.rest_beside_spec]
    return _tree((row.rest, row) for row in rows if row.for_roles or not master)


@cache
def serving_port() -> Branch:
    """The members of an inference service's `servingPort`, which are those of its first port."""
    prefix = "servingPort."
    return _tree(
        (path.removeprefix(prefix), row)
        for row in catalogue().by_name["ports"].inside
        for path in row.rest_also
        if path.startswith(prefix)
    )


def _tree(rows: Iterable[tuple[str, Row]]) -> Branch:
    root: dict[str, Branch | Leaf] = {}
    for path, row in rows:
        *above, last = path.split(".")
        members = root
        for name in above:
            branch = members.setdefault(name, Branch({}))
            if not isinstance(branch, Branch) or not isinstance(branch.members, dict):
                raise TypeError(f"the REST path {path} of {row.name} goes through {name}, which is a value")
            members = branch.members
        members[last] = Leaf(row, _tree((each.rest, each) for each in row.inside if each.rest) if row.inside else None)
    return Branch(root)

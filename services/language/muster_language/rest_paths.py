"""Where the LAYER stage points, in REST's words: `spec.environment.items.X` is `spec.environmentVariables[0]`.

Called by `rest`, since people look for the path that they wrote. Holds: a path that cannot be told otherwise stays as
it is; it is never dropped.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from muster_language.catalogue import Row, catalogue
from muster_language.labels import label_of
from muster_language.spec import WorkloadSpec


def rest_path(path: str, spec: WorkloadSpec) -> str:
    """The path of a violation as the author of a REST body knows it."""
    root, _, rest = path.partition(".")
    message = spec.master_spec if root == "masterSpec" else spec
    row = next((row for row in _rows(rest) if row.rest), None)
    if row is None:
        return path
    if row.rest_beside_spec:
        return row.rest
    tail = rest[len(row.yaml) + 1 :]
    if row.repeated:
        return f"{root}.{row.rest}{_item(row, getattr(message, row.name), tail.removeprefix('items.'))}"
    return f"{root}.{row.rest}{_member(row.members, tail)}"


def _rows(rest: str) -> Iterable[Row]:
    """The row that a YAML path begins with: by its name up to the next dot."""
    name = rest.partition(".")[0]
    found = catalogue().by_yaml.get(name)
    return () if found is None else (found,)


def _item(row: Row, items: Any, tail: str) -> str:
    """The place of the item whose label the path goes on with; labels may hold dots."""
    for index, item in enumerate(items):
        label = label_of(item)
        if tail == label or tail.startswith(f"{label}."):
            return f"[{index}]{_member(row.inside, tail[len(label) + 1 :])}"
    return f".{tail}" if tail else ""


def _member(rows: tuple[Row, ...], tail: str) -> str:
    name = tail.removeprefix("value").removeprefix(".")
    if not name:
        return ".value" if tail and any(row.yaml == "value" for row in rows) else ""
    member = next((row for row in rows if row.yaml == name and row.rest), None)
    return "" if member is None else f".{member.rest}"

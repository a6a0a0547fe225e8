"""What policy says against a workload, where its document has it: file, line, and the field as YAML calls it.

Called by submit and apply once a workload was refused. Issues speak of fields by the paths that policies and REST use;
who wrote YAML never saw those. Pure. Holds: an issue about no field that YAML has is shown as it came.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from muster_client.cli.documents import Piece
from muster_client.cli.failures import violation_text
from muster_client.errors import Violation
from muster_language import Row, catalogue
from muster_language.documents.loading import load
from muster_language.documents.nodes import Node
from muster_language.documents.places import place_of

_SIDES = {"worker": "spec", "master": "masterSpec", "masterSpec": "masterSpec"}
_OTHERS = {"gpuDevices": ("gpu",)}  # `gpu: 8` is how most people write a number of devices


def in_document(piece: Piece, issues: Iterable[str]) -> list[str]:
    """The issues, one a line, each with its place; `path: details` comes from the control plane."""
    documents = load(piece.text)
    root = documents[0].root if documents else None
    return [_said(piece, root, *issue.partition(": ")[::2]) if ": " in issue else issue for issue in issues]


def _said(piece: Piece, root: Node | None, path: str, details: str) -> str:
    found = _field(path)
    if found is None:
        return f"{path}: {details}"
    base, row, rest = found
    written = f"{base}.{row.yaml}"
    for name in (row.yaml, *row.aliases, *_OTHERS.get(row.yaml, ())):
        field = f"{base}.{name}"
        place = place_of(root, _inside(field, row, rest), {})
        if place is not None and f"{place.path}.".startswith(f"{field}."):
            line = piece.document.line if piece.document.list_line else place.line + piece.offset
            column = 1 if piece.document.list_line else place.column
            return violation_text(Violation(place.path, details, line, column), piece.source)
    return violation_text(Violation(written, details, piece.document.line, 1), piece.source)


def _field(path: str) -> tuple[str, Row, str] | None:
    """Where the field stands in a document, its row, and what the path says behind it."""
    side, _, below = path.partition(".")
    base, within = (_SIDES[side], below) if side in _SIDES else ("spec", path)
    steps = within.split(".")
    for length in range(len(steps), 0, -1):
        row = _rows().get(".".join(steps[:length]))
        if row is not None and row.yaml:
            return base, row, ".".join(steps[length:])
    return None


def _inside(field: str, row: Row, rest: str) -> str:
    """The place within an item, from its label and member; the field where the path says nothing more."""
    if not rest or not row.repeated:
        return field
    label, _, member = rest.partition(".")
    return f"{field}.items.{label}.value.{member}" if member else f"{field}.items.{label}"


@cache
def _rows() -> dict[str, Row]:
    return {row.path: row for row in catalogue().rows} | dict(catalogue().by_rest)

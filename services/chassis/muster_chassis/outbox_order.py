"""Whether rows of the outbox are in commit order: what the relay looks at before it publishes them (rule 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from muster_chassis.topics import named


class OutOfOrder(Exception):
    """The outbox is not in commit order: a version was skipped or repeated. Nothing may be published past it."""


def check_order(rows: Sequence[Any]) -> None:
    """Asserts that in one pass the versions of each aggregate grow by one. Raises OutOfOrder.

    On compacted topics they only have to grow: rows that newer ones have replaced are removed from the outbox.
    """
    last: dict[tuple[str, str], int] = {}
    for row in rows:
        version = row["version"]
        if not version:
            continue
        key = (row["topic"], row["aggregate"])
        before = last.get(key)
        if before is not None and version != before + 1 and not (version > before and named(row["topic"]).compacted):
            raise OutOfOrder(
                f"outbox row {row['id']}: {key[0]} of {key[1]} has version {version} after {before}; "
                "was a row inserted without append_outbox?"
            )
        last[key] = version

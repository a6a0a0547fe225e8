"""The check that outbox rows are in commit order. The relay runs it before it publishes them (rule 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from muster_chassis.topics import named


class OutOfOrder(Exception):
    """An outbox out of commit order: a version was skipped or repeated. Nothing may be published after it."""


def check_order(rows: Sequence[Any]) -> None:
    """Check that the versions of each aggregate grow by one within a pass. Raises OutOfOrder.

    On compacted topics the versions only have to grow: replaced rows are removed from the outbox.
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

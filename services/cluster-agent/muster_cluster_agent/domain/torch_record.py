"""The record that torchrun's wrapper leaves of a failure (shims/trun.py), as a sentence for people.

Read by both back ends: from a file of the replica, or from the pod's termination message. Pure.
Holds: the replica itself can write it, so that anything may be in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from muster_cluster_agent.domain.text import plain_line

_LONGEST_RANK: Final = 60  # characters: the numbers in a record may have thousands of digits


def failure_in(record: Mapping[str, Any]) -> str:
    """Which rank ended first and how, or what went wrong with torchrun itself; empty where it says neither."""
    rank, code, error = record.get("rank"), record.get("exit_code"), record.get("error")
    if isinstance(rank, int) and isinstance(code, int):
        return plain_line(f"rank {rank} ended first, with {code}", _LONGEST_RANK)
    return plain_line(error) if isinstance(error, str) else ""


def message_of(text: str) -> str:
    """A termination message as people read it: the record's sentence where it is a record, else the text itself."""
    try:
        record = json.loads(text) if text.startswith("{") else None
    except (ValueError, RecursionError):
        return text
    if not isinstance(record, dict) or "ok" not in record:
        return text
    return "" if record["ok"] is True else failure_in(record)

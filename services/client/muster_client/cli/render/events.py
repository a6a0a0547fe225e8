"""What happened to a workload: an event a line, long ones filled to 80 columns. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from muster.api.v1 import workloads_pb2
from muster_client.cli.printable import folded
from muster_client.cli.render.amounts import time_of
from muster_client.words import phase_word

_TIME = "%Y-%m-%d %H:%M:%S"
_WIDE = len("2026-01-31 12:00:00")
_PHASE = len("Initializing")
_FURTHER = " " * 8
_CHANGE: Final = re.compile(r"^\w+ -> \w+: ")


def heading() -> str:
    """The names of the columns."""
    return f"{'TIME (UTC)':<{_WIDE}}  ATTEMPT  {'PHASE':<{_PHASE}}  WHAT"


def event_lines(events: Iterable[workloads_pb2.WorkloadEvent]) -> Iterator[str]:
    """Each event, its further lines indented; an event before the first place belongs to no attempt."""
    for each in events:
        at = time_of(each.at)
        when = at.strftime(_TIME) if at else "-"
        attempt = str(each.attempt) if each.attempt else "-"
        phase = phase_word(each.phase)
        # The column PHASE says already where a change of the phase leads to.
        what = _CHANGE.sub("", each.text) if each.text.partition(": ")[0].endswith(f"-> {phase}") else each.text
        yield folded(f"{when:<{_WIDE}}  {attempt:>7}  {phase:<{_PHASE}}  {what}", _FURTHER)

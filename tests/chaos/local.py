"""A chaos run on the local back end: two clusters of real processes, judged by their supervisors' journals."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from tests.chaos import checker, clusters, complaints, documents, journals, killer, ledger
from tests.chaos.plan import ChaosPlan
from tests.chaos.play import Outcome, Upgrading, drive
from tests.chaos.probe import Probe
from tests.support.stacks import running_stack

PAIR = MappingProxyType({"scheduler": 2})


def run(
    plan: ChaosPlan,
    folder: Path,
    counts: Mapping[str, int] = PAIR,
    *,
    probed: bool = False,
    upgrade: Upgrading | None = None,
) -> Outcome:
    """Play one whole run: stack up, plan, stack down, verdict.

    counts: instances by service. probed: a probe runs at the same time. upgrade: the stack is upgraded halfway.
    """
    began = time.monotonic()
    book = folder / "ledger.jsonl"
    probe = Probe() if probed else None
    with running_stack(folder / "stack", clusters.declarations(), instances=counts) as stack:
        hunter = killer.Killer(stack.stack)
        asyncio.run(drive(stack, plan, book, hunter, documents.document, clusters.GPUS, probe, upgrade))
    told = ledger.read(book)
    entries = [e for name in clusters.NAMES for e in journals.read_state_folder(stack.layout.agent(name))]
    history = checker.History(
        journal=entries,
        acknowledged=frozenset(told.acknowledged),
        last_phase=told.phases,
        complaints=complaints.read(stack.layout.logs),
        marked_processes=[f"process {pid} of {replica}" for pid, replica in killer.marked(stack.layout.key)],
    )
    seen = probe.result(hunter.moments) if probe else {}
    if upgrade is not None:
        seen |= {"replaced": len(upgrade.replaced)}
    return Outcome(checker.judge(history), dict(hunter.hits), time.monotonic() - began, seen)

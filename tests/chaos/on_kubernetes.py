"""A chaos run on a real API server, whose nodes kwok plays: what stands between Muster and its pods is hit.

Called by `run.py`. The API server and etcd are killed and frozen, and so are the agent and Kafka. Judged by the history
of etcd, the audit log and the client's own log alone.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from muster_cluster_agent.domain.kubernetes import marks
from tests.chaos import checker, cluster_history, cluster_log, complaints, documents, killer, ledger
from tests.chaos.plan import ChaosPlan
from tests.chaos.play import Outcome, drive, say
from tests.support import kubernetes, kwok
from tests.support.kubernetes import Cluster
from tests.support.kubernetes_stack import kubernetes_stack, left_over

NODES: Final = 20  # room for all workloads at the same time: none is preempted
GPUS: Final = 8  # of a node


def missing() -> str:
    """What is not built here; empty: nothing."""
    if not kubernetes.built():
        return kubernetes.MISSING
    return "" if kwok.built() else kwok.MISSING


def run(plan: ChaosPlan, folder: Path) -> Outcome:
    """Play one whole run: cluster and stack up, plan, stack down, verdict."""
    began = time.monotonic()
    book = folder / "ledger.jsonl"
    names = [f"n-{number}" for number in range(NODES)]
    with (
        kubernetes.cluster(folder, more=cluster_log.options(folder)) as found,
        kwok.nodes(found, folder, names, GPUS, kwok.COMPLETES),
    ):
        with kubernetes_stack(folder / "stack", found, None) as stack:
            hunter = killer.Killer(stack.stack, found.programs)
            asyncio.run(drive(stack, plan, book, hunter, documents.document_on_kubernetes, NODES * GPUS))
            found.until_ready()
            left = left_over(found)
            held = cluster_history.stuck(_items(found))
        versions = cluster_log.versions(found.etcd)
    calls = cluster_log.calls(folder)
    say(f"  judged: {len(versions)} versions of pods in etcd, {len(calls)} calls for new ones in the audit log")
    told = ledger.read(book)
    entries = cluster_history.entries_of(versions, GPUS)
    history = checker.History(
        journal=entries,
        acknowledged=frozenset(told.acknowledged),
        last_phase=told.phases,
        complaints=complaints.read(
            stack.layout.logs,
            Counter(kill.target for kill in plan.kills if kill.frozen > complaints.WATCHDOG_SECONDS),
        ),
        marked_processes=left,
    )
    verdict = checker.judge(history)
    again = [*cluster_history.started_again(entries, told.stopped), *cluster_history.incarnations_overlap(entries)]
    twice = (*verdict.duplicate_starts, *cluster_history.made_twice(calls), *again)
    return Outcome(
        replace(verdict, duplicate_starts=twice),
        dict(hunter.hits),
        time.monotonic() - began,
        more={
            "stuck_finalizers": held,
            "disturbed": cluster_history.disturbed(versions, told.stopped),
            "unexpected": cluster_history.unexpected(told.acknowledged, told.phases),
            "disagreements": cluster_history.disagreements(calls, versions),
        },
    )


def _items(found: Cluster) -> list[dict[str, Any]]:
    """Pods and roots, as they are now."""
    items: list[dict[str, Any]] = []
    for kind, path in (("Pod", "/api/v1/pods"), ("ConfigMap", "/api/v1/configmaps")):
        answer = found.http.get(path, params={"labelSelector": marks.SELECTOR})
        items += [{**item, "kind": kind} for item in answer.raise_for_status().json()["items"]]
    return items

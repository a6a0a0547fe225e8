"""The composition root: which part is given to which.

Called by the runtime once. The order matters: no other agent acts once anything is read, what runs is found
before the first assignment is read, and nothing is done before the assignments were read to their end.
"""

from __future__ import annotations

import asyncio
from typing import Final

from muster_chassis.bus import Bus
from muster_chassis.key_files import TrustFile
from muster_chassis.numbers import LARGEST_EPOCH
from muster_chassis.runtime import Runtime
from muster_chassis.signatures import RecordVerifier
from muster_chassis.watchdog import long_section
from muster_cluster_agent.adapters.bus_history import BusHistory
from muster_cluster_agent.adapters.file_reader import KUBERNETES_BACKEND, backend_named
from muster_cluster_agent.adapters.local.parts import open_local
from muster_cluster_agent.adapters.reports import KafkaReporter
from muster_cluster_agent.handlers.agent import Agent
from muster_cluster_agent.handlers.folders import FolderKeeper
from muster_cluster_agent.parts import Parts
from muster_cluster_agent.ports import Backend, BeatReport, NumberStore, Report
from muster_cluster_agent.rpc import Gateway
from muster_cluster_agent.sampling import Sampler
from muster_cluster_agent.settings import AgentSettings
from muster_cluster_agent.stream import Assignments

_IMPORT_SECONDS: Final = 120.0
_LAST_REPORTS = 2.0  # seconds for what is queued when the agent is told to stop


async def compose(runtime: Runtime, settings: AgentSettings) -> None:
    """Opens every part and names the eternal tasks."""
    verifier = RecordVerifier(TrustFile(settings.trust_file))
    parts = await _open(runtime, settings)
    backend, state, cluster = parts.backend, parts.state, parts.cluster
    for name, task in parts.eternal.items():
        runtime.eternal(name, task)
    history = BusHistory(state, lambda: agent.epoch)
    bus = Bus(settings.broker, client=f"agent-{cluster}", identity=history, health=runtime.health)
    runtime.close_last(bus.close)
    reporter = KafkaReporter(bus, cluster, state.instance, state.start, backend.observed_at)
    settings.submission.warn()
    gateway = Gateway(settings.submission, cluster, state.instance, backend, settings.application_file)
    agent = Agent(
        backend,
        reporter,
        state.instance,
        secrets=gateway,
        hold=settings.hold,
        epoch=kept_epoch(state),
        workers=parts.workers,
    )
    agent.least_epoch = lambda: history.least_epoch
    await agent.adopt()

    async def keep_usage(until: float) -> None:
        await state.keep_number("usage", int(until))

    sampler = Sampler(backend, reporter, keep_usage, kept=state.read_number("usage"))
    _wire(runtime, reporter, agent, sampler, backend)

    async def keep_epoch(epoch: int) -> None:
        await state.keep_number("epoch", epoch)

    assignments = Assignments(bus, cluster, agent, backend, reporter, keep_epoch, verifier, parts.support)
    await bus.open()
    runtime.eternal("bus", bus.watch)
    runtime.eternal("reports", reporter.run)
    runtime.eternal("assignments", assignments.run)
    runtime.eternal("work", agent.work)
    runtime.eternal("watch", agent.watch)
    runtime.eternal("layouts", agent.layouts.run)
    runtime.eternal("heartbeat", agent.beat)
    runtime.eternal("usage", sampler.run)
    runtime.eternal("gateway", gateway.run)
    if parts.folders is not None:
        runtime.eternal("folders", FolderKeeper(parts.folders, gateway).run)


async def _open(runtime: Runtime, settings: AgentSettings) -> Parts:
    """The back end that the cluster file names."""
    if backend_named(settings.cluster_file) == KUBERNETES_BACKEND:
        # Here alone: the Kubernetes library takes a second to import and 100 MiB, which a local agent does not need. On
        # a machine that starts many processes at once a second becomes ten and more.
        with long_section(_IMPORT_SECONDS):
            from muster_cluster_agent.adapters.kubernetes.parts import open_kubernetes  # noqa: PLC0415

        return await open_kubernetes(runtime, settings)
    return await open_local(runtime, settings)


def kept_epoch(state: NumberStore) -> int:
    """The highest epoch that was kept; one that cannot be ours is forgotten, or no scheduler was ever obeyed again."""
    kept = state.read_number("epoch")
    return kept if 0 <= kept <= LARGEST_EPOCH else 0


def _wire(runtime: Runtime, reporter: KafkaReporter, agent: Agent, sampler: Sampler, backend: Backend) -> None:
    """Who hears that the bus has a report."""
    renewals: set[asyncio.Task[None]] = set()

    def renew(report: Report) -> None:
        if isinstance(report, BeatReport):
            task = asyncio.ensure_future(backend.renew(report.sent_at, report.dead_man))
            renewals.add(task)
            task.add_done_callback(renewals.discard)

    reporter.acknowledged.extend((agent.acknowledged, sampler.acknowledged, renew))

    async def resync() -> None:
        sampler.rewind()
        await agent.resync()

    reporter.resync = resync
    agent.telling.ended = sampler.ended

    async def drain() -> None:
        async with asyncio.timeout(_LAST_REPORTS):
            await reporter.drain()

    runtime.drain(drain)

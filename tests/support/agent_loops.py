"""The agent's loop in this process, with a reporter that keeps what it is told.

Used by the agent's unit tests and by the rules that concern agents: there a part of the loop is substituted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from muster_cluster_agent.domain.model import Assignment, Pattern, Release, Revision, Run, Template
from muster_cluster_agent.handlers.agent import Agent
from muster_cluster_agent.ports import Backend, Report, Secrets, StatusReport
from tests.support.agents import workload_id


@dataclass
class Told:
    """A reporter that keeps what it was told; `acknowledge` plays the bus's answer, at once unless told to wait."""

    agent: Agent | None = None
    at_once: bool = True
    reports: list[Report] = field(default_factory=list)

    def tell(self, report: Report) -> None:
        self.reports.append(report)
        if self.at_once and self.agent is not None:
            self.agent.acknowledged(report)

    def acknowledge(self) -> None:
        """The bus has everything that was told."""
        assert self.agent is not None
        for report in self.reports:
            self.agent.acknowledged(report)

    def states(self, number: int) -> list[str]:
        """The states told of a workload's replicas, in order."""
        found = [r.status for r in self.reports if isinstance(r, StatusReport)]
        return [status.state.name for status in found if status.workload_id == workload_id(number)]

    def of(self, kind: type[Report]) -> list[Report]:
        """The reports of a kind, in order."""
        return [report for report in self.reports if isinstance(report, kind)]


@asynccontextmanager
async def running(
    backend: Backend,
    told: Told,
    *,
    secrets: Secrets | None = None,
    hold: bool = False,
    caught_up: bool = True,
    kind: type[Agent] = Agent,
) -> AsyncIterator[Agent]:
    """An agent that works and watches. `kind`: a substituted one."""
    agent = kind(backend, told, "me", secrets=secrets, hold=hold)
    told.agent = agent
    await agent.adopt()
    tasks = [asyncio.create_task(agent.work()), asyncio.create_task(agent.watch())]
    if caught_up:
        agent.caught_up()
    try:
        yield agent
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def assignment(number: int, command: str = "true", *, attempt: int = 0, epoch: int = 1) -> Assignment:
    """One worker on n-0."""
    run = Run("worker", 0, 1, "n-0")
    revision = Revision(
        1, attempt, Pattern.SINGLE, Template(command=command), (run,), without_effect="image had no effect"
    )
    return Assignment(workload_id(number), epoch, "me", 1, (revision,), grace=1.0)


def release(number: int, *, attempt: int = 0, epoch: int = 1) -> Release:
    """The tombstone of that assignment."""
    return Release(workload_id(number), epoch, 1, attempt, 0.0, "done")

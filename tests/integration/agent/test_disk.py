"""Below the disk's reserve nothing starts, and a workload whose folder is above its budget ends and says why."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from muster_cluster_agent.adapters.local.backend import LocalBackend
from muster_cluster_agent.adapters.local.nodes import DISK_PRESSURE
from muster_cluster_agent.adapters.local.state import StateFolder
from muster_cluster_agent.domain import status
from muster_cluster_agent.domain.actions import Create, Outcome
from muster_cluster_agent.domain.model import Failure, Observed
from muster_cluster_agent.domain.plan import ReplicaPlan, replica_plans
from muster_cluster_agent.end import end
from tests.support.agent_loops import assignment
from tests.support.waiting import eventually

FILE = "cluster: c\nbudgets: {budgets}\nnodes: [{{name: n-0}}]\n"
WRITES = 'import time; open("big", "wb").write(bytes(4 << 20)); time.sleep(60)'


@asynccontextmanager
async def opened(root: Path, budgets: str) -> AsyncIterator[LocalBackend]:
    """A back end with these budgets."""
    (root / "c.yaml").write_text(FILE.format(budgets=budgets))
    state = StateFolder(root / "state")
    async with LocalBackend(root / "c.yaml", state) as local:
        yield local
    state.close()
    assert end(state.root) == 0


def plan_of(program: str) -> ReplicaPlan:
    wanted = assignment(1, f"{sys.executable} -c '{program}'")
    return replica_plans(wanted, wanted.newest)[0]


async def tainted(backend: LocalBackend) -> bool:
    return all(DISK_PRESSURE in node.taints for node in (await backend.fleet()).nodes)


async def test_below_the_reserve_nodes_take_nothing_and_say_so(tmp_path: Path) -> None:
    async with opened(tmp_path, "{disk_reserve: 1Ei}") as backend:
        await eventually(lambda: tainted(backend), bool, within=20)
        answer = await backend.act(Create(plan_of("pass")))
        assert answer.outcome is Outcome.REFUSED
        assert "less than its reserve of 1Ei; nothing is started" in answer.message
        (tmp_path / "c.yaml").write_text(FILE.format(budgets="{disk_reserve: 1Mi}"))
        await eventually(lambda: tainted(backend), lambda short: not short, within=20)
        assert (await backend.act(Create(plan_of("pass")))).outcome is Outcome.DONE


async def test_a_folder_above_its_budget_ends_its_workload(tmp_path: Path) -> None:
    # A file of 4 MiB, and twice as much in its folder by a second one.
    two = WRITES.replace('open("big"', 'open("other", "wb").write(bytes(4 << 20)); open("big"')
    async with opened(tmp_path, "{disk: 6Mi}") as backend:
        plan = plan_of(two)
        assert (await backend.act(Create(plan))).outcome is Outcome.DONE

        async def look() -> Observed:
            return next(one for one in await backend.list() if one.name == plan.name)

        judged = status.judge(await eventually(look, lambda one: one.gone, within=40), None)
        assert judged.failure is Failure.EXIT
        assert "used more disk than its limit of 6Mi (budgets.disk of the cluster)" in judged.message

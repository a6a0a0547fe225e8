"""An agent that dies at any of its calls of the API server: the next one neither doubles nor loses anything.

Each test goes through the calls of one life. At a call the agent ends, before the server has done what was asked or
after it, without an answer; another agent goes on from what stands on the topic and in the cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import pytest

from muster_cluster_agent.domain.model import Assignment, Failure, Release, State, Status
from muster_cluster_agent.ports import StatusReport
from tests.support.agent_loops import Told
from tests.support.fake_api_server import Fault
from tests.support.kubernetes_backends import Scene, scene
from tests.support.kubernetes_loops import assignment, gang, loop, release

LIVES: Final[dict[str, tuple[Callable[[], Assignment], int, State, Failure]]] = {
    "ends by itself": (lambda: assignment("sh -c 'exit 3'"), 1, State.GONE, Failure.EXIT),
    "is stopped": (lambda: assignment("sleep 1000"), 1, State.READY, Failure.OURS),
    "is a gang that is stopped": (lambda: gang("torchrun t.py", workers=2), 2, State.READY, Failure.OURS),
}
"""What is assigned, its replicas, the state in which it is released, and the class of its end."""


@dataclass
class Life:
    """A workload from its assignment until nothing of it is left, over any number of agents.

    written: what stands on the topic. told: what each agent has told.
    """

    made: Scene
    assigned: Assignment
    replicas: int
    until: State
    written: Assignment | Release | None = None
    told: list[Told] = field(default_factory=list)

    async def go_on(self) -> None:
        """One agent, from where the one before it died."""
        self.told.append(Told())
        async with loop(self.made, self.told[-1]) as here:
            if not isinstance(self.written, Release):
                self.written = self.assigned
                here.agent.take(self.written)
                await here.until(lambda: len(self.names(self.until)) == self.replicas)
                self.written = release()
            here.agent.take(self.written)
            await here.nothing_left()

    def names(self, state: State) -> set[str]:
        """The replicas of which an agent has told that state."""
        return {each.name for each in self.statuses() if each.state is state and each.name}

    def statuses(self) -> list[Status]:
        """What was told of replicas."""
        return [each.status for told in self.told for each in told.of(StatusReport) if isinstance(each, StatusReport)]


async def dies_at(life: Life, point: int, *, after: bool) -> str:
    """Lets an agent live until its call with that number; the call, or empty where it had fewer."""
    reached, calls, met = asyncio.Event(), 0, ""

    def fault(verb: str, path: str) -> Fault | None:
        nonlocal calls, met
        if verb == "WATCH" or life.written is None or reached.is_set():
            return None
        calls += 1
        if calls < point:
            return None
        met = f"{verb} {path}"
        reached.set()
        return Fault(silent=True, after=after)

    life.made.server.fault = fault
    agent = asyncio.create_task(life.go_on())
    death = asyncio.create_task(reached.wait())
    await asyncio.wait({agent, death}, return_when=asyncio.FIRST_COMPLETED)
    for task in (agent, death):
        task.cancel()
    ended, _ = await asyncio.gather(agent, death, return_exceptions=True)
    if isinstance(ended, Exception):
        raise ended
    return met


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("name", LIVES)
async def test_an_agent_may_die_at_any_call(name: str, *, after: bool) -> None:
    make, replicas, until, failure = LIVES[name]
    point = 0
    while True:
        point += 1
        async with scene() as made:
            life = Life(made, make(), replicas, until)
            met = await dies_at(life, point, after=after)
            if not met:
                break
            print(f"{'after' if after else 'before'} call {point}: {met}")
            await life.go_on()
            assert len(made.kubelets.starts) <= replicas
            assert set(made.kubelets.starts.values()) <= {1}, f"a pod was started twice: {made.kubelets.starts}"
            assert len(life.names(State.GONE)) == replicas
            ends = {each.failure for each in life.statuses() if each.state is State.FAILED}
            assert ends == {failure}, f"an end was told as {ends}"
    assert point > replicas * 6

"""Back ends for tests: one in memory that plays processes, and one that works but whose answers get lost.

Used by the contract suite and by the agent's unit tests. A command is played by what it says: `true` ends with 0,
`exit N` with N, `sleep` runs until it is stopped, a program that does not exist ends with 127.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from muster_cluster_agent.domain.actions import (
    ALREADY,
    DONE,
    Abandon,
    Answer,
    BackendAction,
    Bury,
    Create,
    Outcome,
    Remove,
    Route,
    Stop,
)
from muster_cluster_agent.domain.findings import Finding
from muster_cluster_agent.domain.fleet import Device, Fleet, Node, NodeState, Profile
from muster_cluster_agent.domain.holdings import Holding, device_conflict
from muster_cluster_agent.domain.layouts import LayoutAnswer
from muster_cluster_agent.domain.model import Ended, NodeHealth, NodeView, Observed, RunKey, Share
from muster_cluster_agent.domain.plan import MpiLauncher, Plain, ReplicaPlan, Torchrun
from muster_cluster_agent.domain.retirement import Retirement
from muster_cluster_agent.ports import Backend, Changed
from muster_kernel.reasons import RefusalCode

DEVICES = tuple(Device(f"GPU-{slot}", "A100-40GB", 40 << 30, slot) for slot in range(2))
_PORTION = 2_000


@dataclass
class FakeBackend:
    """Replicas in memory. `starts` counts process starts by name; `clock` gives seconds since 1970."""

    clock: Callable[[], float] = lambda: 1_000_000.0
    views: dict[str, NodeView] = field(default_factory=lambda: {"n-0": view("n-0"), "n-1": view("n-1")})
    replicas: dict[str, Observed] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)
    shares: dict[str, tuple[Share, ...]] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    routes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    renewed: list[tuple[float, float | None]] = field(default_factory=list)
    logs: dict[str, list[bytes]] = field(default_factory=dict)
    closed: dict[str, RunKey] = field(default_factory=dict)
    deadline: float | None = None
    findings: list[Finding] = field(default_factory=list)
    layouts: dict[tuple[str, str], LayoutAnswer] = field(default_factory=dict)
    asked_layouts: list[tuple[str, str]] = field(default_factory=list)
    _changed: set[str] = field(default_factory=set)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    async def list(self, workload_id: str | None = None) -> Sequence[Observed]:
        return [r for r in self.replicas.values() if workload_id in {None, r.workload_id}]

    async def portions(self) -> AsyncIterator[Sequence[Observed]]:
        replicas = [*self.replicas.values()]
        for first in range(0, len(replicas), _PORTION):
            yield replicas[first : first + _PORTION]
            await asyncio.sleep(0)

    def observed_at(self) -> float:
        return self.clock()

    async def watch(self) -> AsyncIterator[Changed]:
        while True:
            await self._wake.wait()
            self._wake.clear()
            changed, self._changed = frozenset(self._changed), set()
            yield Changed(changed)

    async def act(self, action: BackendAction) -> Answer:
        match action:
            case Create(plan=plan):
                return self._create(plan)
            case Abandon(plan=plan, message=message):
                self._put(
                    replace(_made(plan, self), fault=message, fault_is_start=True, gone=True, evidence="no-process")
                )
            case Stop(name=name, reason=reason, grace=grace):
                return self._stop(name, grace, reason)
            case Bury(name=name):
                return self._bury(action, self.replicas.get(name))
            case Remove(name=name):
                return self._remove(self.replicas.get(name))
            case Route(workload_id=workload_id, replicas=replicas):
                self.routes[workload_id] = replicas
        return DONE

    async def close_runs(self, workload_id: str, run: RunKey) -> None:
        self.closed[workload_id] = run

    async def lay_out(self, node: str, config: str) -> LayoutAnswer | None:
        self.asked_layouts.append((node, config))
        return self.layouts.get((node, config))

    async def fleet(self) -> Fleet:
        nodes = tuple(
            Node(name, f"uid-{name}", one.boot, NodeState.READY, 8000, 32 << 30, devices=DEVICES)
            for name, one in self.views.items()
        )
        return Fleet(Profile(backend="fake"), nodes)

    async def nodes(self) -> Mapping[str, NodeView]:
        return self.views

    async def replicas_with_logs(self, workload_id: str) -> Sequence[str]:
        return [r.name for r in self.replicas.values() if r.workload_id == workload_id]

    async def read_log(
        self, name: str, *, since: float | None = None, tail: int = 0, follow: bool = False
    ) -> AsyncIterator[bytes]:
        for line in self.logs.get(name, [])[-tail:]:
            yield line

    async def log_tail(self, name: str, limit: int) -> bytes:
        return b"".join(self.logs.get(name, []))[-limit:]

    async def check(self) -> Sequence[Finding]:
        return self.findings

    async def retire(self, *, force: bool, dry_run: bool) -> Retirement:
        return Retirement()

    async def dead_man(self) -> float | None:
        return self.deadline

    async def renew(self, sent_at: float, dead_man: float | None) -> None:
        self.renewed.append((sent_at, dead_man))

    # what tests do to it

    def finish(self, name: str, code: int) -> None:
        """The command ends by itself, and nothing of it is left."""
        self._put(replace(self.replicas[name], ended=Ended(code, self.clock()), gone=True, evidence="no-process"))

    def lose_supervisor(self, name: str) -> None:
        """Nobody watches over the replica any more."""
        self._put(replace(self.replicas[name], supervised=False))

    def set_ready(self, name: str, *, ready: bool) -> None:
        """Its readiness changes."""
        self._put(replace(self.replicas[name], ready=ready))

    def set_node(self, name: str, health: NodeHealth, boot: str = "boot") -> None:
        """A node's fate."""
        self.views[name] = replace(self.views[name], health=health, boot=boot)
        self._wake.set()

    # inside

    def _create(self, plan: ReplicaPlan) -> Answer:
        if plan.name in self.replicas:
            return ALREADY
        if plan.name in self.removed:
            return Answer(Outcome.CONFLICT, "a name is used once")
        node = self.views.get(plan.node)
        if node is None or node.health is not NodeHealth.UP:
            return Answer(Outcome.REFUSED, f"node {plan.node} takes nothing")
        conflict = self._conflict(plan)
        if conflict:
            return Answer(Outcome.REFUSED, conflict, RefusalCode.DEVICE_IN_USE)
        self.shares[plan.name] = plan.shares
        self.starts[plan.name] = self.starts.get(plan.name, 0) + 1
        made = replace(_made(plan, self), started_at=self.clock(), ready=True)
        code = _plays(plan)
        self.logs[plan.name] = [f"{word}\n".encode() for word in re.findall(r"echo (\w+)", _text_of(plan))]
        if code is not None:
            made = replace(made, ended=Ended(code, self.clock()), gone=True, evidence="no-process")
        self._put(made)
        return DONE

    def _conflict(self, plan: ReplicaPlan) -> str:
        here = (replica.name for replica in self.replicas.values() if not replica.gone)
        held = [Holding(name, share) for name in here for share in self.shares.get(name, ())]
        return device_conflict(plan.shares, held, {device.uuid: device for device in DEVICES})

    def _stop(self, name: str, grace: float, reason: str) -> Answer:
        found = self.replicas.get(name)
        if found is None or found.gone:
            return ALREADY
        ended = Ended(143, self.clock())
        self._put(replace(found, stop_reason=reason, stop_grace=grace, ended=ended, gone=True, evidence="no-process"))
        return DONE

    def _bury(self, action: Bury, found: Observed | None) -> Answer:
        if found is None or found.gone:
            return ALREADY
        if found.supervised and action.evidence == "no-process":
            return Answer(Outcome.CONFLICT, f"{found.name} still has a supervisor")
        fault = "" if found.ended is not None else action.fault
        self._put(replace(found, fault=fault, gone=True, evidence=action.evidence, supervised=False))
        return DONE

    def _remove(self, found: Observed | None) -> Answer:
        if found is None:
            return ALREADY
        if not found.gone:
            return Answer(Outcome.REFUSED, f"{found.name} still has processes")
        del self.replicas[found.name]
        self.removed.add(found.name)
        self._changed.add(found.workload_id)
        self._wake.set()
        return DONE

    def _put(self, replica: Observed) -> None:
        self.replicas[replica.name] = replica
        self._changed.add(replica.workload_id)
        self._wake.set()


def view(name: str) -> NodeView:
    """A healthy node with two devices."""
    return NodeView(name, NodeHealth.UP, "boot", frozenset({"GPU-0", "GPU-1"}))


def _made(plan: ReplicaPlan, backend: FakeBackend) -> Observed:
    return Observed(
        name=plan.name,
        workload_id=plan.workload_id,
        generation=plan.generation,
        attempt=plan.attempt,
        role=plan.role,
        index=plan.index,
        k=plan.k,
        node=plan.node,
        boot=backend.views[plan.node].boot,
        pattern=plan.pattern,
        created_at=backend.clock(),
        devices=tuple(share.device for share in plan.shares),
        service=("http://127.0.0.1:1",) if plan.ports else (),
        project=plan.project,
        workload=plan.workload,
    )


def _plays(plan: ReplicaPlan) -> int | None:
    text = _text_of(plan)
    if text.split()[0] == "true":
        return 0
    if text == "/no/such/program":
        return 127
    _, found, code = text.partition("exit ")
    return int(code) if found else None


def _text_of(plan: ReplicaPlan) -> str:
    launch = plan.launch
    return " ".join(launch.argv if isinstance(launch, Plain | Torchrun | MpiLauncher) else ("sleep",))


class Forgetful:
    """Every action works, and every second answer is lost: the caller hears UNKNOWN and has to ask again."""

    def __init__(self, inner: Backend) -> None:
        self.inner = inner
        self._turn: Iterator[bool] = itertools.cycle((True, False))

    async def act(self, action: BackendAction) -> Answer:
        answer = await self.inner.act(action)
        return Answer(Outcome.UNKNOWN, "the answer was lost") if next(self._turn) else answer

    async def list(self, workload_id: str | None = None) -> Sequence[Observed]:
        return await self.inner.list(workload_id)

    def portions(self) -> AsyncIterator[Sequence[Observed]]:
        return self.inner.portions()

    def observed_at(self) -> float:
        return self.inner.observed_at()

    async def watch(self) -> AsyncIterator[Changed]:
        """Ends after every word, and says it twice: both are allowed."""
        async for changed in self.inner.watch():
            yield changed
            yield changed
            return

    async def close_runs(self, workload_id: str, run: RunKey) -> None:
        await self.inner.close_runs(workload_id, run)

    async def lay_out(self, node: str, config: str) -> LayoutAnswer | None:
        return await self.inner.lay_out(node, config)

    async def fleet(self) -> Fleet:
        return await self.inner.fleet()

    async def nodes(self) -> Mapping[str, NodeView]:
        return await self.inner.nodes()

    async def replicas_with_logs(self, workload_id: str) -> Sequence[str]:
        return await self.inner.replicas_with_logs(workload_id)

    def read_log(
        self, name: str, *, since: float | None = None, tail: int = 0, follow: bool = False
    ) -> AsyncIterator[bytes]:
        return self.inner.read_log(name, since=since, tail=tail, follow=follow)

    async def log_tail(self, name: str, limit: int) -> bytes:
        return await self.inner.log_tail(name, limit)

    async def check(self) -> Sequence[Finding]:
        return await self.inner.check()

    async def retire(self, *, force: bool, dry_run: bool) -> Retirement:
        return await self.inner.retire(force=force, dry_run=dry_run)

    async def dead_man(self) -> float | None:
        return await self.inner.dead_man()

    async def renew(self, sent_at: float, dead_man: float | None) -> None:
        await self.inner.renew(sent_at, dead_man)

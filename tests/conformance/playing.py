"""Plays all cases of one back end: those that share an agent at the same time, the others with agents of their own."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from muster_stack.embedded import EmbeddedKafka
from tests.conformance.bus import bus
from tests.conformance.drivers import REAL as REAL_SCHEDULER
from tests.conformance.gate import gate
from tests.conformance.kubelets import Kubelets, playing
from tests.conformance.platforms import NODES, Capability, Platform
from tests.conformance.platforms.local import Local
from tests.conformance.platforms.played import Fake, Played, Server
from tests.conformance.platforms.real import GPUS, REAL, Real
from tests.conformance.registry import Case
from tests.conformance.stage import IMAGE, Stage
from tests.conformance.webhooks import Webhooks, webhooks
from tests.nodes import configs
from tests.nodes.machine import Node
from tests.nodes.site import site
from tests.support.agents import AgentProcess
from tests.support.fake_api_server import FakeApiServer, api_server
from tests.support.kubernetes import SCHEDULER, TOKEN, cluster, scheduler

AT_ONCE: Final = {"local": (24, 10), "fake": (32, 24), "apiserver": (24, 10), "node": (8, 5)}
"""By the back end: how many cases share an agent at the same time, and how many have one of their own. On the fake one
most of the time is spent on waits, such as for the Lease of a killed agent; elsewhere a server or a kubelet is busy."""
CASE_SECONDS: Final = 150.0
FORKED: Final = ("fake", "apiserver")


@dataclass(frozen=True)
class Outcome:
    """How a case went. missing: the capabilities for which it was skipped. seconds: of its first try.

    problems: why each try failed, in their order; an empty text: it held.
    """

    case: str
    seconds: float = 0.0
    missing: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class Stages:
    """Makes stages of one back end. kafka: the bootstrap address."""

    def __init__(self, backend: str, kafka: str, folder: Path) -> None:
        self._backend = backend
        self._kafka = kafka
        self._folder = folder
        self._run = os.urandom(4).hex()  # so that no topic of an earlier run is read
        self._count = 0
        self._stack = AsyncExitStack()
        self._server: tuple[Kubelets, str, Webhooks] | None = None
        self._nodes: Mapping[str, Node] = {}
        self._scheduled = False
        self._spare: list[str] = []  # nodes of the one server that no stage has taken

    @property
    def capabilities(self) -> frozenset[str]:
        """What the back end's platform can play."""
        kinds: tuple[type[Platform], ...] = (Local, Fake, Server, Real)
        return next(each.capabilities for each in kinds if each.name == self._backend)

    async def __aenter__(self) -> Self:
        """Starts the API server that all stages share, where it is a real one."""
        if self._backend == "apiserver":
            folder = self._folder / "server"
            folder.mkdir()
            found = await asyncio.to_thread(self._stack.enter_context, cluster(folder))
            kubelets = await self._stack.enter_async_context(playing(found.url, TOKEN))
            await _add_nodes(kubelets)
            asked = await self._stack.enter_async_context(webhooks(folder))
            self._server, self._spare = (kubelets, found.url, asked), _spare_nodes()
        if self._backend == "node":
            await self._real_nodes()
        return self

    async def _real_nodes(self) -> None:
        """Starts an API server with two real nodes."""
        folder = Path(
            await asyncio.to_thread(self._stack.enter_context, tempfile.TemporaryDirectory(prefix="muster-nodes-"))
        )
        found = await self._stack.enter_async_context(site(folder, REAL, gpus=GPUS, slices=0, controllers=False))
        for node in found.nodes.values():
            await asyncio.to_thread(node.tag, configs.IMAGE, f"docker.io/{IMAGE}")
        await asyncio.to_thread(found.until_ready)
        kubelets = await self._stack.enter_async_context(playing(found.cluster.url, TOKEN, REAL))
        await _add_nodes(kubelets, len(REAL))
        # The third node is played, and several cases speak for its kubelet.
        self._nodes = found.nodes
        asked = await self._stack.enter_async_context(webhooks(folder))
        self._server, self._spare = (kubelets, found.cluster.url, asked), _spare_nodes(len(REAL) + 1)

    async def __aexit__(self, *_: object) -> None:
        """Ends it."""
        await self._stack.aclose()

    def _schedule(self) -> str:
        """The name of the real scheduler, which runs from the first question on; empty: pods are bound as is played.

        `.ci/run` builds the API server alone; there it is played, too.
        """
        if self._server is None or self._nodes or not SCHEDULER.exists():
            return ""
        if not self._scheduled:
            self._scheduled = True
            self._stack.enter_context(scheduler(self._folder, self._server[1], REAL_SCHEDULER))
        return REAL_SCHEDULER

    @asynccontextmanager
    async def stage(self, needs: frozenset[Capability] = frozenset(), *, own_bus: bool = False) -> AsyncIterator[Stage]:
        """An agent that is up, until the block ends. Raises AssertionError where its platform complains.

        needs: of its case. Device claims are allocated by a real scheduler where there is a real API server, and
        KAI-Scheduler gives the devices of its cluster where the case needs that.
        """
        self._count += 1
        number = self._count
        root = self._folder / f"agent-{number}"
        root.mkdir()
        async with AsyncExitStack() as stack:
            platform = await self._platform(stack, root, number)
            if isinstance(platform, Played):
                await _equip(stack, platform, needs, self._schedule)
            name = f"{self._backend}-{self._run}-{number}"
            (root / "cluster.yaml").write_text(platform.cluster_file(name))
            kafka = await asyncio.to_thread(stack.enter_context, EmbeddedKafka()) if own_bus else None
            bootstrap = kafka.bootstrap if kafka else self._kafka
            sides = await stack.enter_async_context(AsyncExitStack())
            side = await sides.enter_async_context(bus(bootstrap, name))

            def agent_in(folder: Path) -> AgentProcess:
                # Containers and processes of replicas are real on the other two: there the agent is started as it is.
                agent = AgentProcess(folder, bootstrap, forked=self._backend in FORKED)
                stack.push_async_callback(asyncio.to_thread, agent.stop)
                return agent

            def beside() -> AgentProcess:
                folder = root.with_name(f"{root.name}-beside")
                folder.mkdir()
                shutil.copy(root / "cluster.yaml", folder)
                if isinstance(platform, Played):
                    (folder / "kubeconfig").write_text(platform.kubeconfig())
                return agent_in(folder)

            async def empty_bus() -> None:
                assert kafka is not None, "the case has no Kafka of its own"
                await sides.aclose()
                await asyncio.to_thread(kafka.wipe)
                made.bus = await sides.enter_async_context(bus(bootstrap, name))

            namespace = platform.namespace if isinstance(platform, Played) else ""
            spare = self._spare if self._server else _spare_nodes()
            made = Stage(platform, agent_in(root), side, namespace, spare, beside, empty_bus)
            await made.up()
            yield made
            mine = [each for each in platform.complaints if not namespace or f"/{namespace}/" in each]
            assert mine == []

    async def _platform(self, stack: AsyncExitStack, root: Path, number: int) -> Platform:
        if self._backend == "local":
            return Local(root)
        if self._server is not None:
            kubelets, url, asked = self._server
            if self._nodes:
                return Real(kubelets, root, url, TOKEN, number, asked, self._nodes)
            return Server(kubelets, root, url, TOKEN, number, asked)
        server: FakeApiServer = await stack.enter_async_context(api_server())
        server.put("namespaces", {"metadata": {"name": "kube-system", "uid": f"cluster-{number}"}})
        kubelets = await stack.enter_async_context(playing(server.url, "none"))
        await _add_nodes(kubelets)
        return Fake(kubelets, root, server.url, "none", number, server)


async def play(backend: str, kafka: str, chosen: Mapping[str, Case]) -> dict[str, Outcome]:
    """The outcome of each case, by its name. One that fails is played once more."""
    outcomes: dict[str, Outcome] = {}

    async def one(each: Case, limit: asyncio.Semaphore, go: Callable[[Case], Awaitable[None]]) -> None:
        async with limit:
            outcomes[each.name] = await _timed(each, go)

    with tempfile.TemporaryDirectory(prefix="muster-conformance-") as made:
        Path(made).chmod(0o755)  # noqa: ASYNC240
        async with Stages(backend, kafka, Path(made)) as stages:
            playable = {name: each for name, each in chosen.items() if each.needs <= stages.capabilities}
            for name, each in chosen.items():
                if name not in playable:
                    lacking = sorted(str(needed) for needed in each.needs - stages.capabilities)
                    outcomes[name] = Outcome(name, missing=tuple(lacking))
            quiet, alone = (asyncio.Semaphore(number) for number in AT_ONCE[backend])
            longest_first = sorted(playable.values(), key=lambda each: not each.long)

            async def on_its_own(each: Case) -> None:
                async with stages.stage(each.needs, own_bus=each.own_bus) as stage:
                    await each.play(stage)

            async with stages.stage() as shared:
                await asyncio.gather(
                    *(one(each, alone, on_its_own) for each in longest_first if each.alone),
                    *(one(each, quiet, lambda it: it.play(shared)) for each in playable.values() if not each.alone),
                )
            for name, first in outcomes.items():
                if any(first.problems):
                    second = await _timed(playable[name], on_its_own)
                    outcomes[name] = replace(first, problems=(*first.problems, *second.problems))
    return outcomes


async def _timed(each: Case, go: Callable[[Case], Awaitable[None]]) -> Outcome:
    began, problem = time.monotonic(), ""
    try:
        async with asyncio.timeout(CASE_SECONDS):
            await go(each)
    except Exception:  # noqa: BLE001  whatever goes wrong in a case is its own outcome
        problem = traceback.format_exc(limit=-6)
    return Outcome(each.name, round(time.monotonic() - began, 2), problems=(problem,))


async def _equip(
    stack: AsyncExitStack, platform: Played, needs: frozenset[Capability], schedule: Callable[[], str]
) -> None:
    """Gives a platform what its case needs before the agent is started. schedule: runs a real scheduler, if any."""
    if Capability.DEVICE_CLAIMS in needs:
        platform.scheduler = schedule()
    platform.kai = Capability.KAI in needs
    if Capability.PARTITIONS in needs:
        platform.gate = await stack.enter_async_context(gate(platform.url))


async def _add_nodes(kubelets: Kubelets, first: int = 0) -> None:
    for number in range(first, NODES):
        await kubelets.add_node(f"n-{number}")


def _spare_nodes(first: int = 2) -> list[str]:
    return [f"n-{number}" for number in range(first, NODES)]

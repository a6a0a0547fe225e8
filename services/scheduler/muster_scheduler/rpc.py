"""What comes in over gRPC: FleetService and ExplainService.

A `Desk` is open while this process leads; a standby answers UNAVAILABLE, and the caller tries again. Commands go
through the same handlers as records do; questions read the committed state.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from muster.api.v1 import explain_pb2, explain_pb2_grpc, fleet_pb2, fleet_pb2_grpc
from muster.events.v1 import policy_pb2
from muster.fleet.v1 import fleet_pb2 as fleet_messages
from muster_chassis import identity
from muster_chassis.database import Database
from muster_chassis.errors import InvalidArgument, Violation
from muster_chassis.key_files import Purpose, TrustFile
from muster_chassis.lease import Term
from muster_chassis.rpc.idempotency import once
from muster_chassis.rpc.server import Service, service
from muster_chassis.text import clean
from muster_chassis.unit import Unit
from muster_kernel.ids import check_name, is_uuid
from muster_scheduler.adapters import explaining, retired, views
from muster_scheduler.adapters.accounts import accounts
from muster_scheduler.commands import adoptable, forceable, known_cluster, known_node, layable, leavable, releasable
from muster_scheduler.domain import events
from muster_scheduler.domain.answers.explain import explain
from muster_scheduler.domain.answers.prospects import what_if
from muster_scheduler.domain.asked.workloads import SECOND, Workload
from muster_scheduler.domain.fleet.nodes import NodeState
from muster_scheduler.domain.fleet.orders import Order
from muster_scheduler.domain.state import State
from muster_scheduler.errors import (
    NotLeading,
    UnknownWorkload,
)
from muster_scheduler.handlers import Handlers, micros

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Read = Callable[[policy_pb2.WorkloadAdmitted], events.Admitted]
_PAGE: Final = 50
_MOST_QUARANTINED: Final = 1000
_MOST_TRIED: Final = 100
_LARGEST_PAGE: Final = 500
_CLUSTER_LIMIT: Final = 40
_LONGEST_DRAIN: Final = 30 * 24 * 3600


class Desk:
    """Where calls find the leader's handlers."""

    def __init__(
        self, database: Database, register: Callable[[str], Awaitable[None]], read: Read, trust: TrustFile
    ) -> None:
        """`register`: makes a cluster's topics. `read`: an admission as the domain takes it; raises InvalidArgument.

        trust: has the keys by which agents know assignments.
        """
        self.trust = trust
        self.database = database
        self.register = register
        self.read = read
        self._open: tuple[Handlers, Term] | None = None

    def open(self, handlers: Handlers, term: Term) -> None:
        """This process leads."""
        self._open = handlers, term

    def close(self) -> None:
        """It no longer does."""
        self._open = None

    def leader(self) -> tuple[Handlers, Term]:
        """The handlers of the term. Raises NotLeading."""
        if self._open is None:
            raise NotLeading("this scheduler does not lead at the moment; repeat the call", retry_after=0.5)
        return self._open

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[State]:
        """The committed state, at the present time."""
        handlers, _ = self.leader()
        async with handlers.reading() as state:
            yield state

    async def command(self, unit: Unit, *incoming: events.Event, judge: Callable[[State], None] | None = None) -> State:
        """Applies commands within a unit of the leader.

        judge: raises where they may not be applied. It sees the state to which they are applied, under the lock of the
        transaction: a report that was taken in since the call came counts.
        """
        handlers, term = self.leader()
        await term.fence(unit)
        await handlers.transact(unit, incoming, before=None if judge is None else lambda _: judge(handlers.state))
        return handlers.state


class Fleet(fleet_pb2_grpc.FleetServiceServicer):
    """Clusters and nodes."""

    def __init__(self, desk: Desk) -> None:
        """Serves from `desk`."""
        self._desk = desk

    async def RegisterCluster(
        self, request: fleet_pb2.RegisterClusterRequest, context: Any
    ) -> fleet_pb2.RegisterClusterResponse:
        """Makes a cluster known and creates its topics."""
        cluster, lost_timeout = _cluster_id(request.cluster), request.lost_timeout_seconds
        handlers, _ = self._desk.leader()

        def judge(state: State) -> None:
            releasable(state, cluster, lost_timeout)

        judge(handlers.state)  # before its topics are made; what is said under the lock counts
        await self._desk.register(cluster)

        async def work(unit: Unit) -> fleet_pb2.RegisterClusterResponse:
            state = await self._desk.command(unit, events.ClusterRegistered(cluster, lost_timeout), judge=judge)
            return fleet_pb2.RegisterClusterResponse(cluster=views.cluster(state.world, cluster), keys=self._keys())

        return await once(self._desk.database, "RegisterCluster", request, fleet_pb2.RegisterClusterResponse, work)

    def _keys(self) -> list[fleet_pb2.AssignmentKey]:
        """The keys that the agent of a cluster has to trust."""
        known = self._desk.trust.of("scheduler", Purpose.ASSIGNMENTS)
        return [fleet_pb2.AssignmentKey(id=kid, public=key.public_bytes_raw()) for kid, key in known.items()]

    async def ListClusters(
        self, request: fleet_pb2.ListClustersRequest, context: Any
    ) -> fleet_pb2.ListClustersResponse:
        """The clusters, by id."""
        async with self._desk.reading() as state:
            state.world.now = max(state.world.now, micros(identity.now()))
            known = state.world.clusters
            ids = [name for name in sorted(known) if name > request.page_token and not known[name].left]
            size = _size(request.page_size)
            page = [views.cluster(state.world, cluster) for cluster in ids[:size]]
        return fleet_pb2.ListClustersResponse(clusters=page, next_page_token=page[-1].id if len(ids) > size else "")

    async def AdoptCluster(
        self, request: fleet_pb2.AdoptClusterRequest, context: Any
    ) -> fleet_pb2.AdoptClusterResponse:
        """Binds a cluster to another agent instance."""
        if not request.instance:
            raise InvalidArgument(
                "no agent instance is named; `muster clusters` shows the bound one, and an agent's log its own",
                violations=[Violation("instance", "the id of the agent instance that is to speak for the cluster")],
            )

        async def work(unit: Unit) -> fleet_pb2.AdoptClusterResponse:
            instance, held = clean(request.instance, 200), 0

            def judge(state: State) -> None:
                nonlocal held
                adoptable(state, request.cluster, instance, now=micros(identity.now()), force=request.force)
                held = views.held(state.world, request.cluster)

            state = await self._desk.command(unit, events.ClusterAdopted(request.cluster, instance), judge=judge)
            view = views.cluster(state.world, request.cluster)
            return fleet_pb2.AdoptClusterResponse(cluster=view, declared_gone=held)

        return await once(self._desk.database, "AdoptCluster", request, fleet_pb2.AdoptClusterResponse, work)

    async def LeaveCluster(
        self, request: fleet_pb2.LeaveClusterRequest, context: Any
    ) -> fleet_pb2.LeaveClusterResponse:
        """Takes a cluster out of the fleet."""

        async def work(unit: Unit) -> fleet_pb2.LeaveClusterResponse:
            held = 0

            def judge(state: State) -> None:
                nonlocal held
                held = leavable(state, request.cluster, force=request.force)

            await self._desk.command(unit, events.ClusterLeft(request.cluster), judge=judge)
            return fleet_pb2.LeaveClusterResponse(declared_gone=held)

        return await once(self._desk.database, "LeaveCluster", request, fleet_pb2.LeaveClusterResponse, work)

    async def ListNodes(self, request: fleet_pb2.ListNodesRequest, context: Any) -> fleet_pb2.ListNodesResponse:
        """The nodes with their devices and who holds them."""
        after = tuple(request.page_token.split("/", 1)) if request.page_token else ("", "")
        async with self._desk.reading() as state:
            if request.cluster:
                known_cluster(state, request.cluster)
            nodes = state.world.inventory.nodes
            keys = [k for k in sorted(nodes) if k > after and request.cluster in {"", k[0]}]
            size = _size(request.page_size)
            page = [views.node(state.world, nodes[key]) for key in keys[:size]]
        token = "/".join(keys[size - 1]) if len(keys) > size else ""
        return fleet_pb2.ListNodesResponse(nodes=page, next_page_token=token)

    async def ListAccounts(
        self, request: fleet_pb2.ListAccountsRequest, context: Any
    ) -> fleet_pb2.ListAccountsResponse:
        """What projects hold and ask for in each node pool."""
        if len(request.projects) > _LARGEST_PAGE:
            said = f"{len(request.projects)} projects are named: at most {_LARGEST_PAGE}, or none for all"
            raise InvalidArgument(said, violations=[Violation("projects", said)])
        async with self._desk.reading() as state:
            found = accounts(
                state.world,
                frozenset(request.projects) or None,
                explaining.viewer(request.readable),
                shares=request.with_shares,
            )
        return fleet_pb2.ListAccountsResponse(accounts=found)

    async def ForceGoneNode(
        self, request: fleet_pb2.ForceGoneNodeRequest, context: Any
    ) -> fleet_pb2.ForceGoneNodeResponse:
        """Declares everything on a node GONE."""

        async def work(unit: Unit) -> fleet_pb2.ForceGoneNodeResponse:
            held = 0

            def judge(state: State) -> None:
                nonlocal held
                held = forceable(state, request.cluster, request.node)

            await self._desk.command(unit, events.NodeForcedGone(request.cluster, request.node), judge=judge)
            return fleet_pb2.ForceGoneNodeResponse(declared_gone=held)

        return await once(self._desk.database, "ForceGoneNode", request, fleet_pb2.ForceGoneNodeResponse, work)

    async def ListQuarantine(
        self, request: fleet_pb2.ListQuarantineRequest, context: Any
    ) -> fleet_pb2.ListQuarantineResponse:
        """The node pools and clusters that are set aside, then the workloads, the oldest first."""
        async with self._desk.reading() as state:
            world = state.world
            found = sorted(world.quarantined.values(), key=lambda one: (one.at, one.workload))
            places = [views.quarantined_place(one) for one in world.places_aside.values()]
            shown = [views.quarantined(world.workloads[one.workload], one) for one in found[:_MOST_QUARANTINED]]
        return fleet_pb2.ListQuarantineResponse(workloads=[*places, *shown])

    async def ReleaseQuarantine(
        self, request: fleet_pb2.ReleaseQuarantineRequest, context: Any
    ) -> fleet_pb2.ReleaseQuarantineResponse:
        """Lets workloads in again."""

        async def work(unit: Unit) -> fleet_pb2.ReleaseQuarantineResponse:
            handlers, term = self._desk.leader()
            aside = {**handlers.state.world.places_aside, **handlers.state.world.quarantined}
            missing = [clean(name, 80) for name in request.workload_ids if name not in aside]
            if missing:
                raise UnknownWorkload(f"{missing[0]!r} is not set aside; `muster quarantine list` shows those")
            wanted = list(request.workload_ids) or list(aside)
            await term.fence(unit)
            await handlers.release(unit, wanted)
            return fleet_pb2.ReleaseQuarantineResponse(released=len(wanted))

        return await once(self._desk.database, "ReleaseQuarantine", request, fleet_pb2.ReleaseQuarantineResponse, work)

    async def OrderNode(self, request: fleet_pb2.OrderNodeRequest, context: Any) -> fleet_pb2.OrderNodeResponse:
        """Cordons or drains a node, or takes that back."""

        async def work(unit: Unit) -> fleet_pb2.OrderNodeResponse:
            handlers, _ = self._desk.leader()
            node = known_node(handlers.state, request.cluster, request.node)
            order = _order(request, now=micros(unit.now))
            view = views.node(handlers.state.world, node)
            state = await self._desk.command(unit, events.NodeOrdered(request.cluster, request.node, order))
            now = state.world.inventory.nodes.get(node.key)
            return fleet_pb2.OrderNodeResponse(node=views.node(state.world, now) if now else view)

        return await once(self._desk.database, "OrderNode", request, fleet_pb2.OrderNodeResponse, work)

    async def SetNodeLayout(
        self, request: fleet_pb2.SetNodeLayoutRequest, context: Any
    ) -> fleet_pb2.SetNodeLayoutResponse:
        """Changes the MIG layout of a node, or takes that back."""

        async def work(unit: Unit) -> fleet_pb2.SetNodeLayoutResponse:
            def judge(state: State) -> None:
                layable(state, request.cluster, request.node, request.config)

            by = clean(request.by, 200)
            ordered = events.NodeLayoutOrdered(request.cluster, request.node, request.config, by)
            state = await self._desk.command(unit, ordered, judge=judge)
            node = known_node(state, request.cluster, request.node)
            return fleet_pb2.SetNodeLayoutResponse(node=views.node(state.world, node))

        return await once(self._desk.database, "SetNodeLayout", request, fleet_pb2.SetNodeLayoutResponse, work)


def _order(request: fleet_pb2.OrderNodeRequest, *, now: int) -> Order:
    """What is asked for; `now` in microseconds. Raises InvalidArgument."""
    by = clean(request.by, 200)
    match request.state:
        case fleet_messages.NODE_STATE_READY:
            return Order()
        case fleet_messages.NODE_STATE_CORDONED if not request.within_seconds:
            return Order(NodeState.CORDONED, by)
        case fleet_messages.NODE_STATE_DRAINING if request.within_seconds <= _LONGEST_DRAIN:
            return Order(NodeState.DRAINING, by, now + request.within_seconds * SECOND)
    said = (
        "a node is ordered CORDONED, DRAINING (within 0 to "
        f"{_LONGEST_DRAIN} seconds) or READY, which takes the order back"
    )
    raise InvalidArgument(said, violations=[Violation("state", said)])


class Explain(explain_pb2_grpc.ExplainServiceServicer):
    """Why a workload waits, and what would become of one."""

    def __init__(self, desk: Desk) -> None:
        """Serves from `desk`."""
        self._desk = desk

    async def Why(self, request: explain_pb2.WhyRequest, context: Any) -> explain_pb2.WhyResponse:
        """The explanation, from the state of this moment."""
        async with self._desk.reading() as state:
            known = _find(state, request) is not None
        left = None if known else await self._retired(request)
        async with self._desk.reading() as state:
            state.world.now = max(state.world.now, micros(identity.now()))
            workload = _find(state, request) or left
            if workload is None:
                raise _unknown(request)  # it has left since
            told = explain(state.world, workload, explaining.viewer(request.readable))
            return explain_pb2.WhyResponse(explanation=explaining.explanation(workload, told))

    async def WhatIf(self, request: explain_pb2.WhatIfRequest, context: Any) -> explain_pb2.WhatIfResponse:
        """What would become of admitted workloads, tried on the state of this moment and taken back."""
        if not 1 <= len(request.admitted) <= _MOST_TRIED:
            said = f"{len(request.admitted)} admitted workloads are asked about; 1 to {_MOST_TRIED} are allowed"
            raise InvalidArgument(said, violations=[Violation("admitted", said)])
        asked = [self._desk.read(each) for each in request.admitted]
        async with self._desk.reading() as state:
            _all_new(state, [one.workload for one in asked])
            viewer = explaining.viewer(request.readable)
            return explaining.answer(what_if(state, asked, micros(identity.now()), viewer=viewer))

    async def _retired(self, request: explain_pb2.WhyRequest) -> Workload:
        """A workload that is over and has left the memory. Raises UnknownWorkload."""
        known = is_uuid(request.workload_id) if request.workload_id else "\x00" not in request.project + request.name
        async with self._desk.database.pool.acquire() as connection:
            asked = request.workload_id, request.project, request.name
            found = await retired.find(connection, *asked) if known else None
        if found is None:
            raise _unknown(request)
        return found


def _unknown(request: explain_pb2.WhyRequest) -> UnknownWorkload:
    asked = request.workload_id or f"{request.project}/{request.name}"
    return UnknownWorkload(f"the scheduler has not heard of workload {clean(asked, 120)!r} (yet)")


def _all_new(state: State, asked: Sequence[str]) -> None:
    known = [one for one in asked if one in state.world.workloads or asked.count(one) > 1]
    if known:
        said = f"workload {known[0]} is there already: what if is asked of new ones, each once"
        raise InvalidArgument(said, violations=[Violation("admitted", said)])


def _find(state: State, request: explain_pb2.WhyRequest) -> Workload | None:
    world = state.world
    found = world.workloads.get(request.workload_id)
    if found is None and not request.workload_id and request.name:
        named = [w for w in world.workloads.values() if (w.project, w.name) == (request.project, request.name)]
        found = max(named, key=lambda w: (w.phase.value != "Deleted", w.submitted, w.id), default=None)
    return found


def _cluster_id(text: str) -> str:
    try:
        return check_name(text, limit=_CLUSTER_LIMIT)
    except ValueError as error:
        raise InvalidArgument(str(error), violations=[Violation("cluster", str(error))]) from error


def _size(asked: int) -> int:
    return min(asked or _PAGE, _LARGEST_PAGE)


def services(desk: Desk) -> tuple[Service, Service]:
    """What the composition root mounts."""
    return (
        service(
            fleet_pb2.DESCRIPTOR.services_by_name["FleetService"],
            fleet_pb2_grpc.add_FleetServiceServicer_to_server,
            Fleet(desk),
        ),
        service(
            explain_pb2.DESCRIPTOR.services_by_name["ExplainService"],
            explain_pb2_grpc.add_ExplainServiceServicer_to_server,
            Explain(desk),
        ),
    )

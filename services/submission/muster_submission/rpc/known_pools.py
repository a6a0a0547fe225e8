"""Whether the node pools of quotas exist: a quota for a misspelt pool would be kept, shown, and never mean anything.

Called by the tenancy's verbs before they change something. Holds: a pool that was declared, or that a node reports, is
known; where a name is not among those that were noted, the nodes are asked for first, so that nobody has to list them
before the first quota.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from muster.api.v1 import fleet_pb2 as api
from muster.api.v1 import fleet_pb2_grpc
from muster.tenancy.v1.tenancy_pb2 import PoolQuota
from muster_chassis.database import Database
from muster_kernel.ids import check_name
from muster_submission.adapters.fleet import PostgresFleet
from muster_submission.adapters.owners import Owner
from muster_submission.domain.fleet import DEFAULT_POOL
from muster_submission.domain.problems import Problem
from muster_submission.errors import DraftRefused
from muster_submission.handlers.node_pools import NodePools

_PAGE: Final = 500
_MOST_PAGES: Final = 200
_NAMED: Final = 10


class KnownPools:
    """The names of all node pools of the fleet."""

    def __init__(self, database: Database, books: PostgresFleet, pools: NodePools, scheduler: Owner) -> None:
        self._database = database
        self._books = books
        self._pools = pools
        self._scheduler = scheduler

    async def require(
        self, what: str, quotas: Sequence[tuple[str, PoolQuota]], context: Any, held: Iterable[PoolQuota] = ()
    ) -> None:
        """Raises DraftRefused for quotas, each with its path, whose node pool nobody knows; OwnerSilent: unanswered.

        held: the quotas that are there already, which stay when their pool goes.
        """
        asked = {path: quota.node_pool for path, quota in quotas if _is_name(quota.node_pool)}
        wanted = set(asked.values()) - {quota.node_pool for quota in held}
        known = await self._names()
        if not wanted <= known:
            await self._look(context)
            known = await self._names()
        problems = [
            Problem(f"{path}.node_pool", _unknown(name, known))
            for path, name in asked.items()
            if name in wanted and name not in known
        ]
        if problems:
            raise DraftRefused(what, problems)

    async def _names(self) -> set[str]:
        return {DEFAULT_POOL, *(pool.name for pool in await self._books.pools())}

    async def _look(self, context: Any) -> None:
        """Notes the clusters and the pools that nodes report now."""
        clusters, pools, token = set[str](), set[tuple[str, str]](), ""
        for _ in range(_MOST_PAGES):
            question = api.ListNodesRequest(page_size=_PAGE, page_token=token)
            answer = await self._scheduler.ask(
                fleet_pb2_grpc.FleetServiceStub, "ListNodes", question, api.ListNodesResponse, context
            )
            clusters |= {node.cluster for node in answer.nodes}
            pools |= {(node.cluster, node.pool) for node in answer.nodes if node.pool}
            token = answer.next_page_token
            if not token:
                break
        await self._pools.note(self._database, clusters, pools)


def at_all(quotas: Sequence[PoolQuota]) -> list[tuple[str, PoolQuota]]:
    """Quotas of a project or department with their paths."""
    return [(f"quotas.{at}", quota) for at, quota in enumerate(quotas)]


def _is_name(text: str) -> bool:
    """What is no name at all is refused in its own words, with whatever else is wrong."""
    try:
        check_name(text, limit=63)
    except ValueError:
        return False
    return True


def _unknown(name: str, known: set[str]) -> str:
    names = sorted(known)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    there = f"there {'is' if len(names) == 1 else 'are'} {', '.join(names[:_NAMED])}{more}"
    return f"no cluster has a node pool {name!r}: {there}; `muster node-pools create` makes one"

"""Verbs about clusters and nodes."""

from __future__ import annotations

from datetime import UTC, datetime

from muster_client.cli.exits import Exit
from muster_client.cli.options import Common
from muster_client.cli.output import emit, say
from muster_client.cli.render import tables, wide
from muster_client.errors import InvalidInput, NotFound
from muster_client.words import cluster_state_word

_NO_OPTIONS = Common()


async def list_clusters(*, common: Common = _NO_OPTIONS) -> int:
    """Lists clusters."""
    async with common.muster() as muster:
        found = [each async for each in muster.clusters.list()]
    if common.json:
        emit(found)
    else:
        nothing = "no clusters; `muster clusters register ID` makes one known"
        say(tables.clusters(found, datetime.now(UTC)) if found else nothing)
    return Exit.OK


async def register_cluster(cluster: str, *, lost_timeout: int = 0, common: Common = _NO_OPTIONS) -> int:
    """Makes a cluster known, so that its agent may report. A second call changes nothing.

    Args:
        cluster: Its id: lower-case letters, digits and dashes.
        lost_timeout: Seconds of silence after which its replicas count as gone; 0: never.
        common: Connection.
    """
    async with common.muster() as muster:
        made = await muster.clusters.register(cluster, lost_timeout=lost_timeout)
    if common.json:
        emit(made)
    else:
        say(f"cluster {made.id}: {cluster_state_word(made.state)}")
    return Exit.OK


async def adopt_cluster(cluster: str, *, instance: str, force: bool = False, common: Common = _NO_OPTIONS) -> int:
    """Binds a cluster to another agent instance, after declaring what the old one held gone.

    Args:
        cluster: Its id.
        instance: The instance id of the agent that takes over; it has reported for the cluster.
        force: Also while the old agent is alive. What it runs goes on, and its devices are given out again.
        common: Connection.
    """
    async with common.muster() as muster:
        answer = await muster.clusters.adopt(cluster, instance, force=force)
    if common.json:
        emit(answer)
    else:
        say(f"cluster {cluster} is bound to {instance}; {answer.declared_gone} replicas were declared gone")
    return Exit.OK


async def list_nodes(*, cluster: str = "", common: Common = _NO_OPTIONS) -> int:
    """Lists nodes, what is free on them and who holds their devices.

    Args:
        cluster: Only this cluster's.
        common: Connection.
    """
    async with common.muster() as muster:
        found = [each async for each in muster.nodes.list(cluster=cluster)]
    if common.json:
        emit(found)
    else:
        say(tables.nodes(found) if found else "no nodes: no agent has reported yet")
    return Exit.OK


async def describe_node(node: str, *, cluster: str = "", common: Common = _NO_OPTIONS) -> int:
    """Tells everything about one node: its state, what is free on it, and who holds its devices.

    Args:
        node: Its name.
        cluster: Its cluster, where several have a node of this name.
        common: Connection.
    """
    async with common.muster() as muster:
        found = [each async for each in muster.nodes.list(cluster=cluster) if each.name == node]
    if not found:
        raise NotFound(f"{node}: no cluster has a node of this name; `muster nodes` lists them")
    if len(found) > 1:
        clusters = ", ".join(sorted(each.cluster for each in found))
        raise InvalidInput(f"{node}: several clusters have one ({clusters}); say which with --cluster")
    if common.json:
        emit(found[0])
    else:
        say(wide.node(found[0]))
    return Exit.OK


async def force_gone(cluster: str, node: str, *, common: Common = _NO_OPTIONS) -> int:
    """Declares that nothing on a node runs any more. Be sure of it: its devices are given out again.

    Args:
        cluster: The cluster.
        node: The node.
        common: Connection.
    """
    async with common.muster() as muster:
        count = await muster.nodes.force_gone(cluster, node)
    if common.json:
        emit({"cluster": cluster, "node": node, "declaredGone": count})
    else:
        say(f"node {node} of {cluster}: {count} replicas were declared gone")
    return Exit.OK

"""Verbs about clusters and nodes."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from muster.api.v1 import fleet_pb2
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


async def register_cluster(
    cluster: str, *, lost_timeout: int = 0, trust_file: Path | None = None, common: Common = _NO_OPTIONS
) -> int:
    """Makes a cluster known, so that its agent may report. A second call changes nothing but the trust file.

    Args:
        cluster: Its id: lower-case letters, digits and dashes.
        lost_timeout: Seconds of silence after which its replicas count as gone; 0: never.
        trust_file: Where to write the keys that its agent has to trust (MUSTER_TRUST_FILE); - prints them.
        common: Connection.
    """
    async with common.muster() as muster:
        answer = await muster.clusters.register(cluster, lost_timeout=lost_timeout)
    if common.json:
        emit(answer)
        return Exit.OK
    say(f"cluster {answer.cluster.id}: {cluster_state_word(answer.cluster.state)}")
    if trust_file is not None:
        _write_trust(trust_file, trust_document(answer.keys))
    return Exit.OK


def trust_document(keys: Sequence[fleet_pb2.AssignmentKey]) -> str:
    """The trust file of an agent: a JWKS with the keys that sign assignments."""
    members = [
        {
            "kty": "OKP",
            "crv": "Ed25519",
            "kid": key.id,
            "x": base64.urlsafe_b64encode(key.public).rstrip(b"=").decode(),
            "service": "scheduler",
            "for": "assignments",
        }
        for key in keys
    ]
    return json.dumps({"keys": members}, indent=2) + "\n"


def _write_trust(path: Path, text: str) -> None:
    """Writes the file whole or not at all. Raises InvalidInput."""
    if path.name == "-":
        say(text.rstrip())
        return
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fresh.write_text(text)
        fresh.chmod(0o644)
        fresh.replace(path)
    except OSError as problem:
        raise InvalidInput(f"{path} cannot be written: {problem.strerror or problem}") from None
    say(f"the keys that its agent has to trust are in {path}: give it to the agent as MUSTER_TRUST_FILE")


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

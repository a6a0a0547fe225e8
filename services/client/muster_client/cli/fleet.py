"""Verbs about clusters and nodes."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from muster.api.v1 import fleet_pb2
from muster.fleet.v1 import fleet_pb2 as fleet_messages
from muster_client.cli.exits import Exit
from muster_client.cli.options import Common
from muster_client.cli.output import emit, note, say
from muster_client.cli.printable import one_line
from muster_client.cli.render import tables, wide
from muster_client.errors import InvalidInput, NotFound
from muster_client.muster import Muster
from muster_client.words import cluster_state_word, finding_word, node_state_word

_NO_OPTIONS = Common()
_SPAN: Final = re.compile(r"([0-9]{1,7})([smhd])")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST_DRAIN: Final = 30 * 86400


async def list_clusters(*, common: Common = _NO_OPTIONS) -> int:
    """Lists clusters."""
    async with common.muster() as muster:
        found = [each async for each in muster.clusters.list()]
    if common.json:
        emit(found)
    else:
        nothing = "no clusters; `muster clusters register ID` makes one known"
        say(tables.clusters(found, datetime.now(UTC)) if found else nothing)
        for each in found:
            if each.issue:
                note(f"cluster {each.id}: {each.issue}")
    return Exit.OK


async def register_cluster(
    cluster: str, *, lost_timeout: int = 0, trust_file: Path | None = None, common: Common = _NO_OPTIONS
) -> int:
    """Makes a cluster known, so that its agent may report. A second call changes lost-timeout and the trust file alone.

    Args:
        cluster: Its id: lower-case letters, digits and dashes.
        lost_timeout: Seconds of silence after which its replicas count as gone; 0: never. Its agent needs a deadline of
            its own (dead_man in the cluster file); the larger of the two counts, and 60 s more.
        trust_file: Where to write the keys that its agent has to trust (MUSTER_TRUST_FILE); - prints them.
        common: Connection.
    """
    async with common.muster() as muster:
        answer = await muster.clusters.register(cluster, lost_timeout=lost_timeout)
    if common.json:
        emit(answer)
        return Exit.OK
    released = answer.cluster.released_after_seconds
    lost = f"; after {released} s of silence its replicas count as gone" if released else ""
    say(f"cluster {answer.cluster.id}: {cluster_state_word(answer.cluster.state)}{lost}")
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


async def check_cluster(cluster: str, *, common: Common = _NO_OPTIONS) -> int:
    """Checks whether a cluster meets the requirements of Muster. The exit code is 1 if an error is found.

    Args:
        cluster: Its id.
        common: Connection.
    """
    async with common.muster() as muster:
        found = await muster.clusters.check(cluster)
    if common.json:
        findings = [{"level": finding_word(one.level), "subject": one.subject, "text": one.text} for one in found]
        emit({"cluster": cluster, "findings": findings})
    else:
        say(tables.findings(found))
    failed = any(one.level == fleet_messages.FINDING_LEVEL_ERROR for one in found)
    return Exit.FAILED if failed else Exit.OK


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
        say(f"cluster {cluster} is bound to {instance}; {declared_gone(answer.declared_gone)}")
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
        found = await _node(muster, node, cluster)
    if common.json:
        emit(found)
    else:
        say(wide.node(found))
    return Exit.OK


async def cordon(node: str, *, cluster: str = "", common: Common = _NO_OPTIONS) -> int:
    """Keeps new work off a node; what runs there goes on. It holds until `muster nodes uncordon`.

    Args:
        node: The node.
        cluster: Its cluster, where several have a node of this name.
        common: Connection.
    """
    return await _order(node, cluster, fleet_messages.NODE_STATE_CORDONED, common)


async def drain(node: str, *, cluster: str = "", within: str = "0s", common: Common = _NO_OPTIONS) -> int:
    """Keeps new work off a node and moves away what runs there. It holds until `muster nodes uncordon`.

    What can be placed elsewhere starts again there; what would end by the deadline may stay until then.

    Args:
        node: The node.
        cluster: Its cluster, where several have a node of this name.
        within: How long what runs there may stay: 0s, 30m, 2h, at most 30d.
        common: Connection.
    """
    return await _order(node, cluster, fleet_messages.NODE_STATE_DRAINING, common, within=_seconds(within))


async def drain_cluster(cluster: str, *, within: str = "0s", common: Common = _NO_OPTIONS) -> int:
    """Drains every node that a cluster has now, as `muster nodes drain` does.

    Args:
        cluster: Its id.
        within: How long what runs there may stay: 0s, 30m, 2h, at most 30d.
        common: Connection.
    """
    seconds = _seconds(within)
    async with common.muster() as muster:
        found = [each async for each in muster.nodes.list(cluster=cluster)]
        for node in found:
            await muster.nodes.order(cluster, node.name, fleet_messages.NODE_STATE_DRAINING, within=seconds)
    if common.json:
        emit({"cluster": cluster, "nodes": [node.name for node in found]})
    else:
        say(f"cluster {cluster}: {'1 node is draining' if len(found) == 1 else f'{len(found)} nodes are draining'}")
    return Exit.OK


async def uncordon(node: str, *, cluster: str = "", common: Common = _NO_OPTIONS) -> int:
    """Takes a cordon or a drain back: the node is what its agent says again.

    Args:
        node: The node.
        cluster: Its cluster, where several have a node of this name.
        common: Connection.
    """
    return await _order(node, cluster, fleet_messages.NODE_STATE_READY, common)


async def set_layout(
    cluster: str, node: str, config: str = "", *, cancel: bool = False, common: Common = _NO_OPTIONS
) -> int:
    """Changes the MIG layout of a node of a Kubernetes cluster that has a mig-manager.

    The node takes nothing new. Once nothing of Muster is left on it, the mig-manager lays its devices out, and the node
    takes new work again. What runs on it is not moved: `muster nodes drain` does that.

    Args:
        cluster: Its cluster.
        node: The node.
        config: The name of a configuration of the mig-manager, such as all-1g.10gb or all-disabled.
        cancel: Take the change back that is under way; what the mig-manager has begun it finishes.
        common: Connection.
    """
    if cancel == bool(config):
        raise InvalidInput("give either the name of a configuration, or --cancel to take the change back")
    async with common.muster() as muster:
        found = await muster.nodes.set_layout(cluster, node, config)
    if common.json:
        emit(found)
    elif cancel:
        say(f"node {node} of {cluster}: the change of its MIG layout is taken back")
    else:
        say(f"node {node} of {cluster}: {wide.layout_words(found.layout)}; `muster nodes describe {node}` follows it")
    return Exit.OK


def _seconds(within: str) -> int:
    """The seconds of a span. Raises InvalidInput."""
    found = _SPAN.fullmatch(within)
    if found is None or (seconds := int(found[1]) * _UNITS[found[2]]) > _LONGEST_DRAIN:
        raise InvalidInput(f"--within {within}: expected 0s to 30d, such as 30m or 2h")
    return seconds


async def _order(
    node: str, cluster: str, state: fleet_messages.NodeState.ValueType, common: Common, *, within: int = 0
) -> int:
    async with common.muster() as muster:
        found = await _node(muster, node, cluster)
        ordered = await muster.nodes.order(found.cluster, node, state, within=within)
    if common.json:
        emit(ordered)
    else:
        say(one_line(f"node {ordered.name} of {ordered.cluster}: {node_state_word(ordered.state)}"))
    return Exit.OK


async def _node(muster: Muster, name: str, cluster: str) -> fleet_messages.NodeView:
    """The node of that name. Raises NotFound, and InvalidInput where several clusters have one."""
    found = [each async for each in muster.nodes.list(cluster=cluster) if each.name == name]
    if not found:
        raise NotFound(f"{name}: no cluster has a node of this name; `muster nodes` lists them")
    if len(found) > 1:
        clusters = ", ".join(sorted(each.cluster for each in found))
        raise InvalidInput(f"{name}: several clusters have one ({clusters}); say which with --cluster")
    return found[0]


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
        say(f"node {node} of {cluster}: {declared_gone(count)}")
    return Exit.OK


def declared_gone(count: int) -> str:
    """How many replicas were declared gone, as a sentence."""
    return f"{count} replica was declared gone" if count == 1 else f"{count} replicas were declared gone"

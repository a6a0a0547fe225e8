"""What a scenario file says of clusters, their nodes and node pools.

Called by reading.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from muster_scheduler.domain.books.pools import NodePool, Strategy
from muster_scheduler.simulation.members import Members
from muster_scheduler.simulation.scenario import GIB, LARGEST_NODE, MOST_GPUS, NodeGroup, gpus_of

_MOST_NODES: Final = 200_000


class Places(NamedTuple):
    """The node pools and clusters that a job may name, by name."""

    pools: list[str]
    clusters: list[str]


def places_of(fleet: tuple[NodeGroup, ...]) -> Places:
    """Those of a fleet."""
    return Places(sorted({group.pool for group in fleet}), sorted({group.cluster for group in fleet}))


def fleet_in(root: Members) -> Iterator[NodeGroup]:
    """The groups of nodes of all clusters."""
    found: list[NodeGroup] = []
    for cluster in root.list("clusters", 1000):
        name = cluster.text("name")
        found += [_group(nodes, name) for nodes in cluster.list("nodes", 10_000)]
        cluster.done()
    names = {(group.cluster, group.name) for group in found}
    if not found:
        root.wrong("clusters", "there is no node: give clusters with nodes")
    if len(names) < len(found):
        root.wrong("clusters", "two groups of nodes of a cluster have one name: give each a name of its own")
    if gpus_of(tuple(found)) > MOST_GPUS or sum(group.nodes for group in found) > _MOST_NODES:
        root.wrong("clusters", f"the fleet is too large: at most {MOST_GPUS:,} GPUs on {_MOST_NODES:,} nodes")
        return
    yield from found


def _group(nodes: Members, cluster: str) -> NodeGroup:
    group = NodeGroup(
        cluster,
        nodes.text("pool", "default"),
        nodes.text("name", "node"),
        nodes.whole("count", 1, 1, _MOST_NODES),
        nodes.whole("gpus", 8, 0, LARGEST_NODE),
        nodes.text("model", "A100-80GB"),
        nodes.memory("gpuMemory", 80 * GIB),
        nodes.cpu("cpu", 128_000),
        nodes.memory("memory", 1024 * GIB),
        tuple(_labels(nodes)),
    )
    nodes.done()
    return group


def _labels(nodes: Members) -> Iterator[tuple[str, str]]:
    for text in nodes.words("labels", ()):
        key, equals, value = text.partition("=")
        if key and equals:
            yield key, value
        else:
            nodes.wrong("labels", f"{text[:60]!r} is no label: write key=value")


def pools_in(root: Members, fleet: tuple[NodeGroup, ...]) -> Iterator[NodePool]:
    """The node pools of which something is said, in each cluster that has nodes of that name."""
    places = sorted({(group.pool, group.cluster) for group in fleet})
    number = 0
    for each in root.list("pools", 1000):
        name, gpu, cpu = each.text("name"), _strategy(each, "gpu"), _strategy(each, "cpu")
        clusters = [cluster for pool, cluster in places if pool == name]
        if not clusters:
            each.wrong("name", f"there is no node pool {name!r}: there are {', '.join(sorted({p for p, _ in places}))}")
        for cluster in clusters:
            number += 1
            yield NodePool(number, cluster, name, 1, gpu, cpu)
        each.done()


def _strategy(each: Members, name: str) -> Strategy:
    text = each.text(name, Strategy.BINPACK.value)
    if text not in set(Strategy):
        each.wrong(name, f"{text!r} is no strategy: allowed are {', '.join(Strategy)}")
        return Strategy.BINPACK
    return Strategy(text)

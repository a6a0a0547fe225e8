"""What a cluster can do with devices, by the nodes that it has now (kubernetes.md 7.1).

Called with each inventory. Pure. The scheduler asks a cluster for its abilities, and not a node.
Holds: parts of devices are offered only where the scheduler cannot place one on a node that refuses it. To the
scheduler a node has devices if a driver lists them, or if whole ones and MIG slices are both counted; any other node
that counts has none that can be split.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from muster_cluster_agent.domain.fleet import Identity, Mig, Node, Profile

GPU_MEMORY: Final = "gpuMemory"
"""The word for a request for GPU memory among the refused fields."""


def abilities(profile: Profile, nodes: Iterable[Node], *, claims: bool, shared: bool, isolated: bool = True) -> Profile:
    """Return the profile with the abilities of the nodes.

    claims: whether drivers list devices. shared: whether HAMi or KAI gives some. isolated: whether a part of a device
    is held to its memory, as HAMi does and KAI does not.
    """
    found = replace(profile, identity=Identity.UUID if claims or shared else Identity.ANONYMOUS)
    kinds = [{bool(group.profile) for group in node.slots} for node in nodes]
    if claims or not shared or {True, False} in kinds:
        return found
    sliced = {True} in kinds
    return replace(
        found,
        portions=True,
        memory_requests=True,
        memory_isolation=isolated,
        mig=Mig.STATIC if sliced else Mig.NONE,
        refused_fields=tuple(word for word in profile.refused_fields if word != GPU_MEMORY),
    )

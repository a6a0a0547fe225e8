"""What of a local cluster is in order: nodes, devices, and how far replicas are kept apart on this machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from muster_cluster_agent.domain.confinement import Ability
from muster_cluster_agent.domain.findings import Finding, error, ok, warning
from muster_cluster_agent.domain.fleet import Fleet


def findings(fleet: Fleet, ability: Ability, unlimited: Sequence[str], disk: str) -> Iterable[Finding]:
    """The findings of one check.

    ability: how far replicas can be confined. unlimited: controllers of control groups that cannot be used here. disk:
    why nothing is started for want of space; empty: there is enough.
    """
    devices = sum(len(node.devices) for node in fleet.nodes)
    nodes = "1 node" if len(fleet.nodes) == 1 else f"{len(fleet.nodes)} nodes"
    yield ok("nodes", f"{nodes} with {devices} {'device' if devices == 1 else 'devices'}")
    if ability.reason:
        yield warning("confinement", f"replicas are not confined from each other ({ability.reason})")
    else:
        yield ok("confinement", ability.text)
    if unlimited:
        names = ", ".join(unlimited)
        yield warning("limits", f"control groups cannot limit {names} here: a replica may take what others need")
    else:
        yield ok("limits", "control groups limit what replicas take")
    if disk:
        yield error("disk", f"{disk}: nothing is started until there is more")
    else:
        yield ok("disk", "there is enough space")

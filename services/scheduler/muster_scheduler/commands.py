"""Whether a command about a cluster or a node may be applied to the state: what an operator asks for may cost devices.

Called by rpc.py under the lock of the transaction that applies the command. Pure but for what it raises: each refusal
says what is wrong, what was given, and what to do.
"""

from __future__ import annotations

from typing import Final

from muster_chassis.errors import InvalidArgument, Violation
from muster_chassis.text import clean
from muster_scheduler.adapters import views
from muster_scheduler.domain.asked.workloads import SECOND
from muster_scheduler.domain.fleet.layouts import (
    LONGEST_CONFIG,
    MIG_CAPABLE,
    MIG_CONFIG,
    has_mig,
    is_config,
    is_held_by_others,
)
from muster_scheduler.domain.fleet.nodes import Mig, Node, NodeState
from muster_scheduler.domain.state import State
from muster_scheduler.errors import (
    AgentAlive,
    ClusterInUse,
    LayoutRefused,
    NoDeadMan,
    NodeAnswers,
    UnknownCluster,
    UnknownInstance,
    UnknownNode,
)

_LONGEST_LOST_TIMEOUT: Final = 30 * 24 * 3600


def releasable(state: State, cluster: str, lost_timeout: int) -> None:
    """Whether silence may give back what a cluster holds after `lost_timeout` seconds; 0 asks for nothing.

    Raises InvalidArgument and NoDeadMan: where replicas do not end by themselves, their devices would be given twice.
    """
    if lost_timeout > _LONGEST_LOST_TIMEOUT:
        said = f"{lost_timeout} s are given: 1 to {_LONGEST_LOST_TIMEOUT} s are allowed, and 0 for never"
        raise InvalidArgument(f"lost_timeout_seconds: {said}", violations=[Violation("lost_timeout_seconds", said)])
    known = state.world.clusters.get(cluster)
    if not lost_timeout or (known is not None and known.dead_man):
        return
    first = f"cluster {cluster} cannot be given up after {lost_timeout} s of silence: "
    if known is None or not known.instance:
        raise NoDeadMan(
            f"{first}no agent has reported for it, so nothing is known of a dead-man's deadline; register it without "
            "lost_timeout, start its agent with `dead_man` in its cluster file, then register it again"
        )
    raise NoDeadMan(
        f"{first}its agent {known.instance} reports no dead-man's deadline, so that replicas would run on; set "
        "`dead_man` (seconds) in its cluster file; replicas that were started without it have to end first"
    )


def adoptable(state: State, cluster: str, instance: str, *, now: int, force: bool) -> None:
    """Whether an instance may come to speak for a cluster; `now` in microseconds.

    Raises UnknownCluster, UnknownInstance (also with `force`), and AgentAlive without it.
    """
    known_cluster(state, cluster)
    world, known = state.world, state.world.clusters[cluster]
    if instance == known.instance:
        return
    if instance not in known.strangers:
        heard = ", ".join(sorted(clean(one, 200) for one in known.strangers)) or "none"
        raise UnknownInstance(
            f"no agent {instance!r} has reported for cluster {cluster}; others that have: {heard}; bound to it is "
            f"{known.instance or 'none'} (`muster clusters`); an agent that runs reports every 10 s: start it first"
        )
    # What is not read yet may be a sign of life.
    if known.alive(min(now, world.read_until.get(cluster, now)), world.limits.silent_after) and not force:
        quiet, patience = max(0, now - known.fresh) // SECOND, world.limits.silent_after // SECOND
        raise AgentAlive(
            f"agent {known.instance} of cluster {cluster} is alive: it was heard {quiet} s ago (`muster clusters`); "
            f"adopting {instance} would declare {_replicas(views.held(world, cluster))} GONE though they run, and give "
            f"their devices out again; stop that agent and wait {patience} s, or say --force"
        )


def leavable(state: State, cluster: str, *, force: bool) -> int:
    """How many replicas a cluster holds that is to leave the fleet; 0 for one that has left already.

    Raises UnknownCluster, and ClusterInUse where it holds any and `force` is not said.
    """
    world = state.world
    if cluster in world.clusters and world.clusters[cluster].left:
        return 0
    known_cluster(state, cluster)
    count = views.held(world, cluster)
    if count and not force:
        raise ClusterInUse(
            f"cluster {cluster} holds {_replicas(count)}: drain it first (`muster clusters drain {cluster}`), or use "
            "--force: it declares them GONE, and their workloads start elsewhere, even if the replicas still run here"
        )
    return count


def known_node(state: State, cluster: str, name: str) -> Node:
    """Raises UnknownCluster and UnknownNode."""
    known_cluster(state, cluster)
    node = state.world.inventory.nodes.get((cluster, name))
    if node is None:
        raise UnknownNode(f"cluster {cluster} has no node {clean(name, 80)!r}; `muster nodes` lists them")
    return node


def layable(state: State, cluster: str, name: str, config: str) -> None:
    """Whether a node's MIG layout may be changed to `config`; empty: whether a change of it may be taken back.

    Raises UnknownCluster, UnknownNode, InvalidArgument and LayoutRefused.
    """
    node = known_node(state, cluster, name)
    where = f"node {name} of cluster {cluster}"
    if not config:
        if node.layout is None:
            raise LayoutRefused(f"the MIG layout of {where} is not being changed: there is nothing to take back")
        return
    if not is_config(config):
        said = (
            f"{clean(config, 80)!r} cannot be the name of a configuration: letters, digits, '-', '_' and '.', at most "
            f"{LONGEST_CONFIG} characters, with a letter or digit at both ends"
        )
        raise InvalidArgument(f"config: {said}", violations=[Violation("config", said)])
    profile = state.world.clusters[cluster].profile
    if not node.present:
        raise LayoutRefused(f"{where} is not reported any more; `muster nodes` lists the nodes")
    if profile is None or profile.mig is not Mig.STATIC:
        raise LayoutRefused(
            f"{where} has no layout that an operator sets: its cluster makes MIG slices as workloads need them, or "
            "none; only nodes of Kubernetes clusters with a mig-manager have one"
        )
    if not has_mig(node):
        raise LayoutRefused(
            f"{where} has no MIG: it has neither the label {MIG_CAPABLE}=true nor the label {MIG_CONFIG}; choose a "
            "node that the cluster's mig-manager looks after"
        )
    if node.layout is not None:
        raise LayoutRefused(
            f"the MIG layout of {where} is being changed to {node.layout.config} already, ordered by "
            f"{node.layout.by or 'an operator'}; wait, or take it back: `muster nodes set-layout {cluster} {name} "
            "--cancel`"
        )
    if is_held_by_others(node):
        raise LayoutRefused(
            f"another tenant of cluster {cluster} holds a device of node {name}, and would lose it; end its pods first "
            "(`kubectl get pods -A --field-selector spec.nodeName=" + name + "`)"
        )


def _replicas(count: int) -> str:
    return f"{count} replica{'' if count == 1 else 's'}"


def forceable(state: State, cluster: str, name: str) -> int:
    """How many replicas a node holds, where an operator may vouch for it. Raises UnknownNode, NodeAnswers."""
    node = known_node(state, cluster, name)
    if node.present and node.state is NodeState.READY and not state.world.clusters[cluster].silent:
        raise NodeAnswers(
            f"node {name} of {cluster} is ready and its agent answers: what runs there is running; "
            "switch the node off first, or delete the workloads"
        )
    return len(node.entries)


def known_cluster(state: State, cluster: str) -> None:
    """Raises UnknownCluster."""
    known = state.world.clusters.get(cluster)
    if known is None or known.left:
        raise UnknownCluster(f"no cluster {clean(cluster, 80)!r} is registered; `muster clusters` lists them")

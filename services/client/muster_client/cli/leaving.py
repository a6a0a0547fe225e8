"""The verb with which a cluster leaves the fleet.

Its agent deletes what it has made, and an administrator deletes what is printed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, Final

from cyclopts import Parameter

from muster.fleet.v1 import fleet_pb2
from muster_client.cli.exits import Exit
from muster_client.cli.fleet import declared_gone
from muster_client.cli.manifests import show_manifests
from muster_client.cli.options import Common
from muster_client.cli.output import emit, note
from muster_client.errors import NotFound, NotNow, Unavailable
from muster_client.joining import bus
from muster_client.joining.removing import removed
from muster_client.joining.values import application_name
from muster_client.muster import Muster

_NO_OPTIONS: Final = Common()
_NOT_CONNECTED: Final = "NO_AGENT"
_SHOWN: Final = 5


async def leave_cluster(
    cluster: str,
    *,
    force: Annotated[bool, Parameter(negative="")] = False,
    namespace: str = "muster",
    common: Common = _NO_OPTIONS,
) -> int:
    """Takes a cluster out of the fleet, and prints what remains: `muster clusters leave ID | kubectl delete -f -`.

    Refused while replicas or claims with data of workloads are there. It may be repeated until nothing is left.

    Args:
        cluster: Its id.
        force: Also then. What runs there is stopped and counts as gone, and the data of workloads is erased.
        namespace: The agent's own namespace, in case the agent is not connected and cannot say it.
        common: Connection.
    """
    async with common.muster() as muster:
        connected = await _may_leave(muster, cluster, force=force)
        gone = await muster.clusters.leave(cluster, force=force)
        left = fleet_pb2.Retirement(managed=True, in_cluster=True, own_namespace=namespace)
        if connected:
            left = await muster.clusters.retire(cluster, force=force)
            if left.obstacles or left.failures:
                raise NotNow(
                    f"cluster {cluster} is out of the fleet, but {_some([*left.obstacles, *left.failures])}; "
                    f"repeat `muster clusters leave {cluster}` once that is mended"
                )
        # Printed before the agent's identities end: without them it cannot be asked a second time.
        _print(cluster, left, gone, common)
        with suppress(NotFound):
            await muster.applications.revoke(application_name(cluster))
    remarks = [_told(cluster, left, gone, connected=connected), bus.revoke(cluster)]
    for text in filter(None, remarks):
        note(text)
    return Exit.OK


async def _may_leave(muster: Muster, cluster: str, *, force: bool) -> bool:
    """Whether the cluster's agent is connected, and nothing stands in the way. Raises NotNow where it may not leave."""
    try:
        asked = await muster.clusters.retire(cluster, dry_run=True)
    except Unavailable as problem:
        if force and problem.detail.reason == _NOT_CONNECTED:
            return False
        raise NotNow(
            f"{problem.message}. Start the agent, which deletes what it has made; or use --force, then "
            f"`muster clusters cleanup {cluster} --kubeconfig FILE`"
        ) from None
    if asked.obstacles and not force:
        why = "; ".join(asked.obstacles)
        raise NotNow(f"cluster {cluster} cannot leave the fleet: {why}. --force stops the replicas and erases the data")
    return True


def _some(texts: Sequence[str]) -> str:
    more = len(texts) - _SHOWN
    named = "; ".join([*texts[:_SHOWN], *([f"and {more} more"] if more > 0 else [])])
    return f"its agent has not deleted everything: {named}"


def _print(cluster: str, left: fleet_pb2.Retirement, gone: int, common: Common) -> None:
    """What an administrator has to delete; a local cluster has nothing of that kind."""
    objects: list[dict[str, Any]] = []
    if left.own_namespace:
        projects = tuple(left.namespaces)
        objects = removed(cluster, left.own_namespace, projects, managed=left.managed, in_cluster=left.in_cluster)
    if common.json:
        emit({"cluster": cluster, "declaredGone": gone, "delete": objects})
    elif objects:
        show_manifests(objects)


def _told(cluster: str, left: fleet_pb2.Retirement, gone: int, *, connected: bool) -> str:
    text = f"cluster {cluster} has left the fleet" + (f"; {declared_gone(gone)}" if gone else "")
    if not connected:
        return (
            f"{text}. Its agent was not connected: delete what it made with `muster clusters cleanup {cluster} "
            "--kubeconfig FILE --yes`, and what is printed with `kubectl delete --ignore-not-found`"
        )
    if not (left.own_namespace and left.managed and left.namespaces):
        return text
    return f"{text}. The printed objects include namespaces of projects: deleting them deletes everything in them"

"""An agent that retires from its cluster: the obstacles, and what it leaves to an administrator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

RETIRED: Final = "Retired"
"""Why a replica is stopped whose cluster leaves the fleet by force."""
RETIRED_AGENT: Final = (
    "this cluster has left the fleet and its agent has deleted what it made: run `muster clusters join`, then restart "
    "the agent"
)


@dataclass(frozen=True, slots=True)
class Retirement:
    """What came of it.

    obstacles: why nothing was deleted, a sentence each. namespaces: of projects, in which the agent works; managed:
    whether it has made them. own_namespace: the agent's, empty where it has none. in_cluster: whether it runs as a pod
    there. failures: what could not be deleted and why, an object each.
    """

    obstacles: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    managed: bool = False
    own_namespace: str = ""
    in_cluster: bool = False
    failures: tuple[str, ...] = ()


def may_delete(obstacles: Sequence[str], *, force: bool, dry_run: bool) -> bool:
    """Return whether an agent deletes what it has made."""
    return not dry_run and (force or not obstacles)


def running(count: int) -> str:
    """The obstacle of replicas that are not GONE."""
    replicas = "1 replica is" if count == 1 else f"{count} replicas are"
    return f"{replicas} not GONE: drain the cluster first"


def data(claims: int, workloads: int) -> str:
    """The obstacle of claims with data of workloads that are not deleted."""
    held = "1 claim holds" if claims == 1 else f"{claims} claims hold"
    owners = "1 workload that is" if workloads == 1 else f"{workloads} workloads that are"
    return f"{held} the data of {owners} not deleted: save it and delete them first"

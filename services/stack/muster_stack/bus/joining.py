"""A cluster's agent gets its user of the stack's Kafka; the client finds it by the entry-point group `muster.bus`."""

from __future__ import annotations

from muster_chassis import acls
from muster_stack.clusters import declared
from muster_stack.errors import StackError
from muster_stack.keeper.control import Stack
from muster_stack.layout import Layout


def agent(cluster: str, *, rotate: bool) -> dict[str, str]:
    """Return how the agent of a cluster logs in: bootstrap, security, user and password.

    rotate: revoke the current password. Raises ValueError if the stack does not run, if there can be no such cluster,
    and for a new password of a cluster that the stack itself declares.
    """
    stack = Stack(Layout.of(None))
    try:
        user = acls.agent(cluster)
        if rotate and _is_declared(cluster, stack.layout):
            raise ValueError(
                f"the stack on this machine declares cluster {cluster}: `muster keys rotate kafka` changes its password"
            )
        if rotate and (stack.layout.bus_identities / user).exists():
            stack.revoke(user)
        user = stack.grant_agent(cluster)
        bootstrap = str(stack.status()["services"]["kafka"]["bootstrap"])
    except StackError as problem:
        raise ValueError(f"{problem}; or say how the agent reaches Kafka with --kafka HOST:PORT") from problem
    password = (stack.layout.bus_identities / user).read_text(encoding="utf-8").strip()
    return {"bootstrap": bootstrap, "security": "sasl_plaintext", "user": user, "password": password}


def revoke(cluster: str) -> str:
    """Revoke the Kafka user of a cluster's agent. Return a remark for people; empty if there is none.

    The user of a cluster that the stack itself declares stays. Raises ValueError if the stack does not run.
    """
    stack, user = Stack(Layout.of(None)), acls.agent(cluster)
    if not (stack.layout.bus_identities / user).exists():
        return ""
    if _is_declared(cluster, stack.layout):
        return f"the stack on this machine declares cluster {cluster}: delete its file in {stack.layout.clusters}"
    try:
        stack.revoke(user)
    except StackError as problem:
        raise ValueError(str(problem)) from problem
    return ""


def _is_declared(cluster: str, layout: Layout) -> bool:
    """Return whether a file of the stack declares the cluster."""
    return any(one.name == cluster for one in declared(layout))

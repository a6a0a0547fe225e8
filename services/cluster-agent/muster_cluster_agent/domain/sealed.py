"""Credentials in a plan: sealed until its replica is made, and then in its environment alone.

Called by the agent's loop before it asks the back end for a replica. Pure. Holds: a plan in which a reference has no
value is not started, since the text of the reference would be taken for the credential.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from muster_cluster_agent.domain.plan import ReplicaPlan
from muster_kernel.sealed import SEALED


def is_sealed(plan: ReplicaPlan) -> bool:
    """Whether the plan names credentials that submission keeps."""
    return any(value.startswith(SEALED) for _, value in plan.env)


def opened(plan: ReplicaPlan, values: Mapping[str, str]) -> ReplicaPlan | None:
    """The plan with the credentials in place of their references; None where one of them is missing."""
    if any(value.startswith(SEALED) and value not in values for _, value in plan.env):
        return None
    return replace(plan, env=tuple((name, values.get(value, value)) for name, value in plan.env))

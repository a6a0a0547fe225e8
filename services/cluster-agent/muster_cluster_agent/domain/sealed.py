"""Credentials in a plan: sealed until its replica is made, and then apart from its other variables.

Called by the agent's loop before it asks the back end for a replica. Pure. Holds: a plan in which a reference has no
value is not started, since the text of the reference would be taken for the credential.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from muster_cluster_agent.domain.plan import ReplicaPlan
from muster_kernel.sealed import SEALED


def is_sealed(plan: ReplicaPlan) -> bool:
    """Whether the plan names credentials that submission keeps."""
    return any(value.startswith(SEALED) for _, value in plan.env) or any(True for _ in _of_checkouts(plan))


def opened(plan: ReplicaPlan, values: Mapping[str, str]) -> ReplicaPlan | None:
    """The plan with its credentials beside its other variables; None where the value of one is missing."""
    said = dict(plan.env)
    sealed = {name: value for name, value in said.items() if value.startswith(SEALED)}
    checkouts = [*_of_checkouts(plan)]
    if not values.keys() >= {*sealed.values(), *(reference for _, _, reference in checkouts)}:
        return None
    return replace(
        plan,
        env=tuple((name, value) for name, value in said.items() if name not in sealed),
        credentials=tuple((name, values[reference]) for name, reference in sealed.items()),
        checkout_credentials=tuple((number, name, values[reference]) for number, name, reference in checkouts),
    )


def _of_checkouts(plan: ReplicaPlan) -> Iterator[tuple[int, str, str]]:
    """Number, variable and reference of each credential of a checkout."""
    for number, checkout in enumerate(plan.container_or_empty.checkouts):
        for name, reference in checkout.credentials:
            yield number, name, reference

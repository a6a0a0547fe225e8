"""Policies from short texts, and verdicts about specs under them, for the tests of the engine."""

from __future__ import annotations

from typing import Any

from muster_language import Kind, WorkloadSpec
from muster_policy_engine.composing import Composed, compose
from muster_policy_engine.documents.document import Frame, read_policies
from muster_policy_engine.judging.judge import Admitted, Context, Rejected, judge
from muster_policy_engine.judging.rules import Objection
from muster_policy_engine.policy import Level, Policy, Scope

TENANT = Scope()
HOME = Scope(Level.CLUSTER, "home")
RESEARCH = Scope(Level.DEPARTMENT, "research")
VISION = Scope(Level.PROJECT, "vision")
PLAIN = Context()
KINDS = {1: Kind.WORKSPACE, 2: Kind.TRAINING, 3: Kind.DISTRIBUTED, 4: Kind.INFERENCE}


def policy(body: str, scope: Scope = TENANT, kind: Kind = Kind.TRAINING, name: str = "") -> Policy:
    """The policy of a body without its frame."""
    (found,) = read_policies(body or "{}", Frame(kind, scope, name))
    assert found.policy is not None, found.violations
    return found.policy


def together(*bodies: str | tuple[Scope, str], kind: Kind = Kind.TRAINING) -> Composed:
    """Policies of one branch laid together; a body without a scope is the tenant's."""
    given = [(TENANT, each) if isinstance(each, str) else each for each in bodies]
    return compose(kind, [policy(body, scope, kind) for scope, body in given])


def spec(kind: int = 2, **fields: Any) -> WorkloadSpec:
    """A workload that runs `true`; a service has a port, a gang runs PyTorch on two workers."""
    if kind == 3:
        fields = {"framework": 2, "workers": 2, **fields}
    made = WorkloadSpec(kind=kind, **{"command": "true", **fields})  # type: ignore[arg-type]
    if kind == 4:
        made.ports.add(label="http", container=80)
    return made


def composed_for(own: WorkloadSpec, *bodies: str | tuple[Scope, str]) -> Composed:
    """The same for the kind of a spec."""
    return together(*bodies, kind=KINDS.get(int(own.kind), Kind.TRAINING))


def admitted(
    own: WorkloadSpec,
    *bodies: str | tuple[Scope, str],
    base: WorkloadSpec | None = None,
    context: Context = PLAIN,
) -> Admitted:
    """The admission of a spec under policies; none: no policy holds."""
    verdict = judge(own, base, composed_for(own, *bodies) if bodies else None, context)
    assert isinstance(verdict, Admitted), [(each.path, each.rule, each.details) for each in verdict.issues]
    return verdict


def issues(
    own: WorkloadSpec,
    *bodies: str | tuple[Scope, str],
    base: WorkloadSpec | None = None,
    context: Context = PLAIN,
) -> tuple[Objection, ...]:
    """Why a spec is refused under policies."""
    verdict = judge(own, base, composed_for(own, *bodies) if bodies else None, context)
    assert isinstance(verdict, Rejected), verdict
    return verdict.issues


def refused(
    own: WorkloadSpec, *bodies: str | tuple[Scope, str], base: WorkloadSpec | None = None
) -> dict[tuple[str, str, str], tuple[str, str, str]]:
    """The same as a table: path, rule and item -> given, allowed and details."""
    found = issues(own, *bodies, base=base)
    return {(each.path, each.rule, each.item): (each.given, each.allowed, each.details) for each in found}

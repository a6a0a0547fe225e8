"""The verdict about one submission: a pure function of its layers, the policies of its branch and its project's terms.

Called by the service for every generation once, and by the command for tests of policies. Steps: lay the layers over
each other with the defaults that follow from other fields, derive what the language derives, check the result against
the language and against the policies, then say what it needs or why it may not run.
Holds: equal arguments give equal verdicts; nothing of the arguments is changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from muster_language import (
    LayerName,
    Merged,
    WorkloadSpec,
    check_clusters,
    check_effective,
    is_preemptible,
    priority_of,
    resource_requests,
    warnings_of,
)
from muster_language.merging.roles import complete_master
from muster_language.rules.issues import Issue
from muster_language.spec import kind_of
from muster_policy_engine.composing import Composed
from muster_policy_engine.judging.layering import Submission, layered, settle
from muster_policy_engine.judging.leaving_out import LeftOut
from muster_policy_engine.judging.rules import Objection, objections

DEFAULT_POOL: Final = "default"
MOST_ISSUES: Final = 200


@dataclass(frozen=True, slots=True)
class Context:
    """What the verdict depends on beside the layers: the project's node pools, in order, and what came with the call.

    rest: the workload came by REST, whose services have another smallest scale. cluster: the one that was asked for;
    empty stands for none.
    """

    node_pools: tuple[str, ...] = ()
    rest: bool = False
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class Admitted:
    """It may run. `requests` are the language's ResourceRequest, one per role; `sources`: path -> layer, by path.

    clusters: those in which it may run; none stands for every one. excluded: those whose own policy objects.
    """

    effective: WorkloadSpec
    requests: tuple[Any, ...]
    sources: tuple[tuple[str, LayerName], ...]
    warnings: tuple[str, ...]
    node_pools: tuple[str, ...]
    clusters: tuple[str, ...]
    preemptible: bool
    priority: int
    excluded: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Rejected:
    """It may not run as it is."""

    issues: tuple[Objection, ...]
    warnings: tuple[str, ...]


Verdict = Admitted | Rejected


def judge(own: WorkloadSpec, base: WorkloadSpec | None, composed: Composed | None, context: Context) -> Verdict:
    """The verdict about a workload whose layers are `own` and, where it names a template, `base`.

    composed: what holds for its kind on its branch; None: no policy does.
    """
    kind = kind_of(own)
    if kind is None:
        return Rejected((Objection("kind", "language", "", "", "the kind of workload is not said"),), ())
    submission = Submission(kind, own, base, composed, context.rest)
    merged = layered(submission)
    warnings = tuple(warnings_of(merged.spec))
    settle(merged, submission)
    effective = _complete(merged.spec)
    found = [
        Objection(each.path, each.rule, each.given, each.allowed, each.details)
        for each in (*_checked(merged.spec, effective), *check_clusters(merged.spec, context.cluster))
    ]
    if composed is not None:
        found += objections(merged, composed, LeftOut(submission))
    if found:
        return Rejected(_sorted(found), warnings)
    return _admit(effective, merged, context, warnings)


def _complete(spec: WorkloadSpec) -> WorkloadSpec:
    """The effective spec. Agents speak no merge: what the master is given is in it in full."""
    master = complete_master(spec)
    if master is None:
        return spec
    effective = WorkloadSpec()
    effective.CopyFrom(spec)
    effective.master_spec.CopyFrom(master)
    return effective


def _checked(spec: WorkloadSpec, effective: WorkloadSpec) -> list[Issue]:
    """What the language has against the spec, else against its complete master.

    A volume of the workers may be mounted where the master has one of its own.
    """
    return check_effective(spec) or (check_effective(effective) if effective is not spec else [])


def _sorted(found: list[Objection]) -> tuple[Objection, ...]:
    """All issues in a fixed order; of very many the first ones, and how many there are."""
    found.sort(key=_order)
    if len(found) <= MOST_ISSUES:
        return tuple(found)
    more = f"and {len(found) - MOST_ISSUES} more issues"
    return (*found[:MOST_ISSUES], Objection("spec", "language", "", f"at most {MOST_ISSUES} are listed", more))


def _order(issue: Objection) -> tuple[str, ...]:
    """By path, rule and policy, and by all else that tells two issues apart: documents come in any order."""
    by = (issue.policy.id, str(issue.policy.scope)) if issue.policy is not None else ("", "")
    return (issue.path, issue.rule, issue.item, *by, issue.allowed, issue.given, issue.details)


def _admit(spec: WorkloadSpec, merged: Merged, context: Context, warnings: tuple[str, ...]) -> Admitted:
    return Admitted(
        effective=spec,
        requests=tuple(resource_requests(merged.spec)),
        sources=tuple(sorted(merged.provenance.items())),
        warnings=warnings,
        node_pools=tuple(spec.node_pools.values) or context.node_pools or (DEFAULT_POOL,),
        clusters=(context.cluster,) if context.cluster else tuple(sorted(spec.clusters.values)),
        preemptible=is_preemptible(spec),
        priority=priority_of(spec),
    )

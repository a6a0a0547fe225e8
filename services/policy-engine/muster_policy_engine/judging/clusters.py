"""The policies of clusters that a workload did not ask for: which clusters it may not run in, or why it may not run.

Called by the service once the workload is judged on its own branch, and by the command.
A cluster whose policy objects is excluded, and so is one under whose defaults the spec would be another one: a spec is
settled before its place is. A workload that names clusters and is left with none is refused, with the issues of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from muster_language import WorkloadSpec
from muster_policy_engine.composing import Composed
from muster_policy_engine.judging.judge import Admitted, Context, Rejected, Verdict, judge
from muster_policy_engine.judging.rules import Objection

_OTHER_SPEC: Final = "the defaults of this cluster would make another spec; ask for the cluster to have them"


@dataclass(frozen=True, slots=True)
class Excluded:
    """A cluster in which a workload may not run, and what its policy has against it."""

    cluster: str
    issues: tuple[Objection, ...]


def judge_everywhere(
    own: WorkloadSpec,
    base: WorkloadSpec | None,
    composed: Composed | None,
    others: Mapping[str, Composed],
    context: Context,
) -> Verdict:
    """The verdict of `judge`, with the clusters that the workload may not run in.

    others: what holds on the branch of each cluster that has a policy of the kind; nothing, where one was asked for.
    """
    verdict = judge(own, base, composed, context)
    if isinstance(verdict, Rejected) or not others:
        return verdict
    named = verdict.clusters
    excluded = tuple(
        found
        for cluster, there in sorted(others.items())
        if (not named or cluster in named) and (found := _against(cluster, own, base, there, verdict, context))
    )
    if named and {each.cluster for each in excluded} >= {*named}:
        issues = tuple(issue for each in excluded for issue in each.issues)
        return Rejected(issues, verdict.warnings)
    warnings = (*verdict.warnings, *(_warning(each) for each in excluded))
    return replace(verdict, excluded=excluded, warnings=warnings)


def _against(
    cluster: str,
    own: WorkloadSpec,
    base: WorkloadSpec | None,
    there: Composed,
    verdict: Admitted,
    context: Context,
) -> Excluded | None:
    found = judge(own, base, there, context)
    if isinstance(found, Rejected):
        return Excluded(cluster, found.issues)
    if found.effective == verdict.effective:
        return None
    policy = next((each for each in there.policies if each.scope.unit == cluster), None)
    return Excluded(cluster, (Objection("clusters", "cluster", cluster, "", _OTHER_SPEC, policy=policy),))


def _warning(excluded: Excluded) -> str:
    first = excluded.issues[0]
    more = f" (and {len(excluded.issues) - 1} more)" if len(excluded.issues) > 1 else ""
    return f"it will not run in cluster {excluded.cluster}, whose policy objects: {first.path}: {first.details}{more}"

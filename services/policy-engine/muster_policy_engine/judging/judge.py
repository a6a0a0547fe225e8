"""The verdict about one submission: a pure function of its layers, the policy and what the project says.

Called by the handlers for every generation once. Steps, readable aloud: lay the layers over each other, see what the
language has against the result, see what the policy has against it, then say what it needs or why it may not run.
Holds: equal arguments give equal verdicts; nothing of the arguments is changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from muster_language import (
    Kind,
    Layer,
    LayerName,
    Merged,
    WorkloadSpec,
    check_clusters,
    check_effective,
    derive,
    is_preemptible,
    language_layer,
    merge,
    priority_of,
    resource_requests,
    warnings_of,
)
from muster_language.merging.roles import complete_master
from muster_language.spec import kind_of
from muster_policy_engine.policy import Policy
from muster_policy_engine.judging.rules import Objection, objections

DEFAULT_POOL: Final = "default"


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
    """It may run. `requests` are the language's ResourceRequest, one per role; `sources`: path -> layer.

    clusters: those in which it may run; none stands for every one.
    """

    effective: WorkloadSpec
    requests: tuple[Any, ...]
    sources: tuple[tuple[str, LayerName], ...]
    warnings: tuple[str, ...]
    node_pools: tuple[str, ...]
    clusters: tuple[str, ...]
    preemptible: bool
    priority: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """It may not run as it is."""

    issues: tuple[Objection, ...]
    warnings: tuple[str, ...]


Verdict = Admitted | Rejected


def judge(own: WorkloadSpec, base: WorkloadSpec | None, policy: Policy, context: Context) -> Verdict:
    """The verdict about a workload whose layers are `own` and, where it names a template, `base`."""
    kind = kind_of(own)
    if kind is None:
        return Rejected((Objection("kind", "language", "", "", "the kind of workload is not said"),), ())
    merged = merge(_layers(kind, own, base, policy))
    warnings = tuple(warnings_of(merged.spec))
    derive(merged, rest=context.rest)
    found = [
        Objection(each.path, each.rule, each.given, each.allowed, each.details) for each in _language(merged, context)
    ]
    found += objections(merged, policy.section(kind), policy)
    if found:
        return Rejected(tuple(found), warnings)
    return _admit(merged, context, warnings)


def _layers(kind: Kind, own: WorkloadSpec, base: WorkloadSpec | None, policy: Policy) -> list[Layer]:
    section = policy.section(kind)
    given = [own] if base is None else [base, own]
    defaults = _for_masters(section.defaults, given)
    template = [Layer(LayerName.TEMPLATE, base)] if base is not None else []
    below = [language_layer(kind), Layer(LayerName.TENANT, defaults, section.attributes)]
    return [*below, *template, Layer(LayerName.WORKLOAD, own)]


def _for_masters(defaults: WorkloadSpec, given: list[WorkloadSpec]) -> WorkloadSpec:
    """The defaults; those of a master only where somebody gives one, since they alone would make one."""
    if not defaults.HasField("master_spec") or any(each.HasField("master_spec") for each in given):
        return defaults
    without = WorkloadSpec()
    without.CopyFrom(defaults)
    without.ClearField("master_spec")
    return without


def _language(merged: Merged, context: Context) -> list[Any]:
    return [*check_effective(merged.spec), *check_clusters(merged.spec, context.cluster)]


def _admit(merged: Merged, context: Context, warnings: tuple[str, ...]) -> Admitted:
    spec = merged.spec
    requests = tuple(resource_requests(spec))
    master = complete_master(spec)
    if master is not None:
        # Agents speak no merge: what the master is given stands in the effective spec in full.
        spec.master_spec.CopyFrom(master)
    return Admitted(
        effective=spec,
        requests=requests,
        sources=tuple(merged.provenance.items()),
        warnings=warnings,
        node_pools=tuple(spec.node_pools.values) or context.node_pools or (DEFAULT_POOL,),
        clusters=(context.cluster,) if context.cluster else tuple(sorted(spec.clusters.values)),
        preemptible=is_preemptible(spec),
        priority=priority_of(spec),
    )

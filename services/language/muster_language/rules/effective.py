"""What an effective spec lacks or contradicts, once all layers are in: the EFFECTIVE stage.

Called by policy before it admits; its issues go out as compliance issues with the rule `language`. Two lists of rules,
each a function from a spec to what it has against it: those about the workload, and those about what one role is given.
Holds: every issue at once, under the REST path of the field; nothing is written into the spec.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from muster_language.checks.validation import check_whole
from muster_language.merging.roles import complete_master
from muster_language.naming import REST
from muster_language.rules import compute, gang, placement, serving
from muster_language.rules.issues import LANGUAGE, Found, Issue, missing
from muster_language.spec import Kind, WorkloadSpec

Rule = Callable[[WorkloadSpec], Found]


def check_effective(spec: WorkloadSpec) -> list[Issue]:
    """What the spec lacks or contradicts: mandatory and cross-field rules, then LAYER's on the merged values."""
    found: list[Issue] = []
    for rule in (*_OF_KIND.get(int(spec.kind), ()), placement.anti_affinity, *_OF_ROLES):
        found.extend(rule(spec))
    master = complete_master(spec)
    if master is not None:
        of_master = [issue for rule in _OF_ROLES for issue in rule(master)]
        # What the workers' fields do wrong in the master as well is said once, of the workers.
        found += [replace(each, path=f"masterSpec.{each.path}") for each in of_master if each not in found]
    # A template or a policy default may hold what no edge has seen in this combination.
    for each in check_whole(spec, REST):
        found.append(Issue(each.path, LANGUAGE, "", each.allowed, each.text))
    return found


def _runnable(spec: WorkloadSpec) -> Found:
    runs = (spec, spec.master_spec) if spec.HasField("master_spec") else (spec,)
    if not any(each.command or each.image or each.jupyter for each in runs):
        said = "nothing says what to run: neither command nor image is given"
        yield missing("command", said, "a command or an image")


_OF_ALL: Final[tuple[Rule, ...]] = (_runnable, gang.by_kind)
_OF_KIND: Final[dict[int, tuple[Rule, ...]]] = {
    Kind.WORKSPACE: _OF_ALL,
    Kind.TRAINING: (*_OF_ALL, gang.trials),
    Kind.DISTRIBUTED: (_runnable, gang.gang),
    Kind.INFERENCE: (*_OF_ALL, serving.service, serving.scaling),
}
_OF_ROLES: Final[tuple[Rule, ...]] = (compute.gpu, compute.plain_limits, placement.affinity)

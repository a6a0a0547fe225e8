"""The cross-field rules of the CRDs, in CEL: what a document contradicts by itself, whatever its project adds to it.

Called by `crds`. What needs a policy, a template or two lists at once is left to Muster, which judges all documents.
Holds: a rule is only given to a node that has all the fields it speaks of; every text and map it looks at is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from muster_language.catalogue import catalogue, either
from muster_language.schemas.shape import MASTER, Node

Validation = dict[str, str]


@dataclass(frozen=True, slots=True)
class Rule:
    """An expression over `self` and what it says where it is false; `needs` are the fields that it names."""

    needs: tuple[str, ...]
    expression: str
    message: str

    def written(self) -> Validation:
        """The rule as x-kubernetes-validations wants it."""
        return {"rule": self.expression, "message": self.message}


def _order(low: str, high: str) -> Rule:
    expression = f"!has(self.{low}) || !has(self.{high}) || int(self.{low}.value) <= int(self.{high}.value)"
    return Rule((low, high), expression, f"{low} is above {high}")


def _only_with(field: str, other: str) -> Rule:
    """Where nothing is inherited: a template may leave the one to the workload, and the workload to the template."""
    alone = "!has(self.baseWorkload) && !(has(self.usage) && self.usage.matches('(?i)^template$'))"
    expression = f"!has(self.{field}) || has(self.{other}) || !({alone})"
    return Rule((field, other, "baseWorkload", "usage"), expression, f"{field} is used only with {other}")


_SPEC: Final = (
    _order("minScale", "maxScale"),
    _order("minReplicas", "maxReplicas"),
    _order("parallelism", "completions"),
    _only_with("podAffinitySchedulingRule", "podAffinity"),
    _only_with("podAffinityTopology", "podAffinity"),
    _only_with("podAntiAffinitySchedulingRule", "podAntiAffinity"),
    _only_with("podAntiAffinityTopology", "podAntiAffinity"),
    Rule(
        ("usage", "baseWorkload"),
        "!(has(self.baseWorkload) && has(self.usage) && self.usage.matches('(?i)^template$'))",
        "a template does not inherit: it has no baseWorkload",
    ),
    Rule(
        ("metric", "minScale"),
        "!(has(self.metric) && self.metric.value.matches('(?i)^latency$') && has(self.minScale) && "
        "int(self.minScale.value) == 0)",
        "a service scaled by latency cannot go down to no replica",
    ),
    Rule(
        ("workers", "slotsPerWorker", "processes"),
        "!has(self.processes) || !has(self.workers) || int(self.processes.value) <= int(self.workers.value) * "
        "(has(self.slotsPerWorker) ? int(self.slotsPerWorker.value) : 1)",
        "processes do not fit into workers times slotsPerWorker",
    ),
)


def _said(name: str) -> str:
    """Whether a text is there; the empty one says as little as none."""
    return f"(has(self.{name}) && self.{name} != '')"


_ITEMS: Final = (
    Rule(
        ("operator", "key", "value", "effect"),
        f"!(has(self.operator) && self.operator.matches('(?i)^exists$') && {_said('value')})",
        "a toleration with Exists has no value",
    ),
    Rule(("bucket", "key", "secret"), f"{_said('key')} == {_said('secret')}", "an access key has two halves"),
    Rule(
        ("claimName", "existingPvc"),
        f"!(has(self.existingPvc) && self.existingPvc) || {_said('claimName')}",
        "an existing claim has a name",
    ),
)
_COLOSSAL: Final = (
    Rule(
        ("procPerWorker", "script"),
        "self.script[0] == '-m' || self.script[0].endsWith('.py')",
        "the first word of the script ends in .py, or it is -m",
    ),
    Rule(
        ("procPerWorker", "extraArgs"),
        "!has(self.extraArgs) || !self.extraArgs.exists(arg, arg.matches("
        "'^--?(nnodes|node[-_]rank|nproc[-_]per[-_]node|master[-_]addr|master[-_]port)(=|$)'))",
        "extraArgs does not say who is in the gang: Muster does",
    ),
    Rule(
        ("torchConfig", "replicaSpecs"),
        "self.replicaSpecs.exists(each, each.type.matches('(?i)^worker$'))",
        "there is at least one worker",
    ),
    Rule(
        ("torchConfig", "replicaSpecs"),
        "self.replicaSpecs.filter(each, each.type.matches('(?i)^launcher$')).size() <= 1",
        "there is at most one launcher",
    ),
)


def rules_of(node: Node) -> list[Validation]:
    """The rules of an object with these children, those of the exclusive groups and of other names included."""
    names = {each.name for each in node.children}
    # A master inherits what the workers' spec says: only the spec by itself contradicts itself.
    spec = () if node.name == MASTER else _SPEC
    fixed = [rule for rule in (*spec, *_ITEMS, *_COLOSSAL) if names.issuperset(rule.needs)]
    return [rule.written() for rule in (*_exclusive(names), *_twice(node), *fixed)]


def _exclusive(names: set[str]) -> Iterable[Rule]:
    groups: dict[str, list[str]] = {}
    for row in catalogue().rows:
        if row.exclusive and row.yaml in names:
            groups.setdefault(row.exclusive, []).append(row.yaml)
    for members in groups.values():
        if len(members) > 1:
            said = ", ".join(f"has(self.{name})" for name in members)
            message = f"only one of {either(members)} may be given"
            yield Rule(tuple(members), f"[{said}].filter(given, given).size() <= 1", message)


def _twice(node: Node) -> Iterable[Rule]:
    """A field under two of its names would mean whichever is read last."""
    for each in node.children:
        for other in aliases_of(each):
            expression = f"!(has(self.{each.name}) && has(self.{other}))"
            yield Rule((each.name, other), expression, f"{each.name} and {other} are the same field")


def aliases_of(node: Node) -> tuple[str, ...]:
    """The other names of a key that stand in the same place."""
    if node.row is None or node.name != node.row.yaml:
        return ()
    return tuple(alias for alias in node.row.aliases if "." not in alias)

"""The laws of the policy engine, over documents of every kind and level that are drawn by chance.

They have the numbers of the reference: an admitted spec keeps every rule (1), it is admitted again unchanged (2), a
default in another unit is no edit (3), orders do not matter (4), less rules refuse no more (5), equal arguments give
equal bytes (7), and composing compiled policies is compiling the composed one (9).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from muster_kernel.quantities import parse_bytes, parse_milli_cpu
from muster_language import Kind, WorkloadSpec
from muster_language.labels import label_of
from muster_language.merging.overlay import groups
from muster_language.merging.roles import complete_master
from muster_policy_engine.composing import Composed
from muster_policy_engine.judging.judge import Admitted, Context, Rejected, Verdict, judge
from muster_policy_engine.judging.values import value_of
from muster_policy_engine.places import Place, Side
from muster_policy_engine.policy import Level, Scope
from tests.support.policy_drawings import Drawn, branches, in_one_order, known, submissions, templates, together
from tests.support.policy_samples import typed, workload

PLAIN = Context()
Case = tuple[list[Drawn], WorkloadSpec, WorkloadSpec | None]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    kind = draw(st.sampled_from(Kind))
    return draw(branches(kind)), draw(submissions(kind)), draw(st.none() | templates(kind))


def verdict_of(case: Case) -> Verdict:
    drawn, own, base = case
    found = judge(own, base, together(drawn), PLAIN)
    event(type(found).__name__)
    return found


def said_of(verdict: Verdict) -> Any:
    """A verdict without the policies that it names and without the order of items."""
    if isinstance(verdict, Admitted):
        return in_one_order(verdict.effective), sorted(verdict.warnings), verdict.node_pools, verdict.clusters
    # Of two items that contradict each other the language names the second one.
    ruled = [each for each in verdict.issues if each.policy is not None]
    named = [(each.path, each.rule, each.given, each.allowed, each.details, each.item) for each in ruled]
    return named, len(verdict.issues) - len(ruled)


# ------------------------------------------------------------------------------------------------------------- law 1


@settings(max_examples=400)
@given(cases())
def test_law_1_an_admitted_spec_keeps_every_rule(case: Case) -> None:
    verdict = verdict_of(case)
    if isinstance(verdict, Rejected):
        return
    drawn, own, base = case
    composed = together(drawn)
    for policy in drawn:
        for path, rules in policy.rules.items():
            _Kept(known(policy.kind)[path], rules, composed, verdict.effective, (own, base)).check()


class _Kept:
    """One rule against an admitted spec, in words of its own: nothing of the judge is asked."""

    def __init__(
        self,
        place: Place,
        rules: dict[str, Any],
        composed: Composed,
        effective: WorkloadSpec,
        users: tuple[WorkloadSpec | None, ...],
    ) -> None:
        self.place, self.rules, self.effective = place, rules, effective
        self.users = [each for each in users if each is not None]
        self.baseline = composed.baseline

    def check(self) -> None:
        role = self._role(self.effective)
        if role is None:
            return
        if self.place.instances:
            self._instances(role)
        elif self.place.itemized:
            for item in getattr(role, self.place.row.name):
                self._value(value_of(self.place.value, item), item.label)
        else:
            self._value(self._of(role), "")

    def _role(self, spec: WorkloadSpec) -> Any:
        if self.place.side is not Side.MASTER:
            return spec
        return complete_master(spec)

    def _of(self, role: Any) -> Any:
        place = self.place
        if place.member is None:
            return value_of(place.row, role)
        return value_of(place.member, getattr(role, place.row.name))

    def _amount(self, value: Any) -> Fraction:
        if isinstance(value, str):
            return Fraction(parse_milli_cpu(value) if self.place.value.quantity == "CPU" else parse_bytes(value))
        return Fraction(str(value))

    def _bound(self, text: str) -> Fraction:
        return self._amount(typed(self.place.value, text))

    def _value(self, value: Any, label: str) -> None:
        rules = self.rules
        if rules.get("required"):
            assert value not in (None, "", [])
        if value is None:
            return
        if "min" in rules:
            assert self._amount(value) >= self._bound(rules["min"])
        if "max" in rules:
            assert self._amount(value) <= self._bound(rules["max"])
        if "step" in rules:
            start = self._bound(rules["min"]) if "min" in rules else Fraction(0)
            assert (self._amount(value) - start) % self._bound(rules["step"]) == 0
        if "options" in rules:
            assert value in [typed(self.place.value, text) for text in rules["options"]]
        if rules.get("canEdit") is False and not self.place.itemized:
            default = self._of(self._role(self._with_master(self.baseline)))
            assert default is None or value == default or self._amount(value) == self._amount(default)

    def _with_master(self, spec: WorkloadSpec) -> WorkloadSpec:
        copy = WorkloadSpec()
        copy.CopyFrom(spec)
        copy.framework = self.effective.framework
        copy.master_spec.SetInParent()
        return copy

    def _instances(self, role: Any) -> None:
        row = self.place.row
        items = {each.label: each for each in getattr(role, row.name)}
        defaults = {each.label for each in getattr(self._role(self._with_master(self.baseline)), row.name)}
        if self.rules.get("canAdd") is False:
            assert set(items) <= defaults
        if self.rules.get("blocked"):
            assert set(items) <= defaults
        given = {label_of(each) for spec in self.users for each in getattr(spec, row.name)}
        for label in self.rules.get("locked", ()):
            if label in items and self.place.side is Side.ALL:
                assert label in defaults or label not in given


# ------------------------------------------------------------------------------------------------------------- law 2


@settings(max_examples=400)
@given(cases())
def test_law_2_an_effective_spec_is_admitted_again_unchanged(case: Case) -> None:
    first = verdict_of(case)
    if isinstance(first, Rejected):
        return
    again = judge(first.effective, None, together(case[0]), PLAIN)
    assert isinstance(again, Admitted), [(each.path, each.rule, each.details) for each in again.issues]
    assert in_one_order(again.effective) == in_one_order(first.effective)
    assert (again.requests, again.clusters, again.node_pools) == (first.requests, first.clusters, first.node_pools)


# ------------------------------------------------------------------------------------------------------------- law 3

AMOUNTS = {
    "compute.cpuCoreRequest": ("cpu", [("2", "2000m"), ("0.5", "500m"), ("1500m", "1.5")]),
    "compute.cpuMemoryRequest": ("memory", [("1Gi", "1024Mi"), ("2G", "2000M"), ("1536Mi", "1.5Gi")]),
    "compute.gpuMemoryRequest": ("gpu_memory_request", [("4Gi", "4096Mi"), ("1000", "1K")]),
}


@given(st.sampled_from(sorted(AMOUNTS)), st.integers(0, 2), st.booleans(), st.booleans())
def test_law_3_the_default_in_any_unit_is_no_edit(path: str, index: int, swapped: bool, by_template: bool) -> None:
    name, pairs = AMOUNTS[path]
    default, given_as = pairs[index % len(pairs)][:: -1 if swapped else 1]
    drawn = [Drawn(Kind.TRAINING, Scope(), {path: default}, {path: {"canEdit": False}})]
    said = workload(Kind.TRAINING)
    setattr(said, name, given_as)
    own, base = (workload(Kind.TRAINING), said) if by_template else (said, None)
    assert isinstance(judge(own, base, together(drawn), PLAIN), Admitted)
    setattr(said, name, "3")
    verdict = judge(own, base, together(drawn), PLAIN)
    assert isinstance(verdict, Rejected)
    assert [(each.path, each.rule) for each in verdict.issues] == [(path, "canEdit")]


# ------------------------------------------------------------------------------------------------------------- law 4


@settings(max_examples=200)
@given(cases(), st.randoms(use_true_random=False))
def test_law_4_no_order_matters(case: Case, chance: Any) -> None:
    drawn, own, base = case
    shuffled = [
        Drawn(each.kind, each.scope, _shuffled(each.defaults, chance), _shuffled(each.rules, chance)) for each in drawn
    ]
    chance.shuffle(shuffled)
    assert all(each.policy is not None for each in shuffled)
    turned = WorkloadSpec()
    turned.CopyFrom(own)
    for items in (turned.labels, turned.ports, turned.pvcs):
        last = list(items)[::-1]
        del items[:]
        items.extend(last)  # type: ignore[arg-type]
    assert said_of(judge(turned, base, together(shuffled), PLAIN)) == said_of(verdict_of(case))


def _shuffled(tree: dict[str, Any], chance: Any) -> dict[str, Any]:
    entries = [
        (key, value[::-1] if key.endswith(".instances") and isinstance(value, list) else value)
        for key, value in tree.items()
    ]
    chance.shuffle(entries)
    return dict(entries)


# ------------------------------------------------------------------------------------------------------------- law 5


@settings(max_examples=300)
@given(cases(), st.data())
def test_law_5_fewer_rules_refuse_no_more(case: Case, data: st.DataObject) -> None:
    drawn, own, base = case
    every = [
        (index, path, word)
        for index, policy in enumerate(drawn)
        for path, rules in policy.rules.items()
        for word in rules
        if word != "defaultFrom"
    ]
    assume(every)
    index, path, word = data.draw(st.sampled_from(every))
    rules = {**drawn[index].rules, path: {w: v for w, v in drawn[index].rules[path].items() if w != word}}
    fewer = [
        *drawn[:index],
        Drawn(drawn[index].kind, drawn[index].scope, drawn[index].defaults, rules),
        *drawn[index + 1 :],
    ]
    # A step counts from min, and what kept a lower default out gave way to another value.
    assume(word != "min" or "step" not in rules[path])
    assume(len(together(fewer).ignored) == len(together(drawn).ignored))
    before, after = (judge(own, base, together(each), PLAIN) for each in (drawn, fewer))
    assert _issues(after) <= _issues(before)


def _issues(verdict: Verdict) -> set[tuple[str, ...]]:
    if isinstance(verdict, Admitted):
        return set()
    scopes = [str(each.policy.scope) if each.policy is not None else "" for each in verdict.issues]
    return {(each.path, each.rule, each.item, scope) for each, scope in zip(verdict.issues, scopes, strict=True)}


# ------------------------------------------------------------------------------------------------------------- law 7


@given(cases())
def test_law_7_equal_arguments_give_equal_bytes(case: Case) -> None:
    drawn, own, base = case
    before = [each.SerializeToString(deterministic=True) for each in (own, base or WorkloadSpec())]
    first, again = verdict_of(case), judge(own, base, together(drawn), PLAIN)
    assert first == again
    assert [each.SerializeToString(deterministic=True) for each in (own, base or WorkloadSpec())] == before
    if isinstance(first, Admitted) and isinstance(again, Admitted):
        assert first.effective.SerializeToString() == again.effective.SerializeToString()


# ------------------------------------------------------------------------------------------------------------- law 9


@settings(max_examples=300)
@given(cases())
def test_law_9_composing_compiled_policies_is_compiling_the_composed_one(case: Case) -> None:
    drawn, own, base = case
    ruled = [path for policy in drawn for path in policy.rules]
    assume(len(ruled) == len(set(ruled)))  # one document has one set of rules a path, and levels may not share one
    one = _as_one(drawn)
    assume(one.policy is not None)
    alone = judge(own, base, together([one]), PLAIN)
    assert said_of(alone) == said_of(verdict_of(case))


def _as_one(drawn: list[Drawn]) -> Drawn:
    """What the levels say together as one document of the tenant, by the words of the reference."""
    every = known(drawn[0].kind)
    ignored = {(each.path, each.label, each.policy.scope) for each in together(drawn).ignored}
    defaults: dict[str, Any] = {}
    for policy in drawn:
        for path, value in policy.defaults.items():
            place = every[path]
            if place.instances:
                there = {each.get("name", each.get("resource")): each for each in defaults.get(path, [])}
                there |= {
                    label: each
                    for each in value
                    if (path, label := each.get("name", each.get("resource")), policy.scope) not in ignored
                }
                defaults[path] = list(there.values())
            elif (path, "", policy.scope) not in ignored:
                for other in _excluded(place, defaults, every, policy):
                    del defaults[other]
                defaults[path] = value
    rules = {path: each for policy in drawn for path, each in policy.rules.items()}
    return Drawn(
        drawn[0].kind, Scope(Level.TENANT), {path: each for path, each in defaults.items() if each != []}, rules
    )


def _excluded(place: Place, defaults: dict[str, Any], every: dict[str, Place], policy: Drawn) -> list[str]:
    """The defaults of higher levels that the place's exclusive group clears."""
    names = {name for group in groups() if place.row.name in group.members for name in group.all}
    return [
        path
        for path in defaults
        if path not in policy.defaults and every[path].side is place.side and every[path].row.name in names
    ]

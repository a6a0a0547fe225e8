"""How fast policies are composed and judged: `uv run python tests/benchmarks/policy.py --json`.

On one core, without the memory of equal questions: 2,000 policies (500 projects, four kinds) of 40 rules each, below
policies of the tenant and of 20 departments that give defaults. Specs of 25 fields and 20 items, no two alike, drawn by
chance; every tenth breaks a rule. The seed is printed.

rules_per_s: merged specs judged by all rules of their policy. whole_per_s, p99_us: layers to verdict with the source of
each value. compose_us: one branch, from compiled policies. ready_s: every document read, as a service does when it
starts. rss_mib: of this process at the end. refused: the share of refused specs.

Expressions are not built yet, so the 4 of 40 rules that will be expressions are plain rules here. Progress goes to
standard error; the last line of standard output is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from muster_language import Kind, WorkloadSpec, derive
from muster_policy_engine.composing import Composed, compose
from muster_policy_engine.documents.document import Frame, framed, read_policies
from muster_policy_engine.judging.judge import Admitted, Context, Rejected, judge
from muster_policy_engine.judging.layering import Submission, layered
from muster_policy_engine.judging.leaving_out import LeftOut
from muster_policy_engine.judging.rules import objections
from muster_policy_engine.places import Place, Side, places
from muster_policy_engine.policy import Level, Policy, Scope
from tests.support.figures import spread
from tests.support.policy_samples import sample, say, workload

PROJECTS: Final = 500
DEPARTMENTS: Final = 20
RULES: Final = 40
FIELDS: Final = 25
ITEMS: Final = 20


def main() -> int:
    """Measures and prints the object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="as everywhere: the last line is the object in any case")
    parser.add_argument("--specs", type=int, default=4_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    given = parser.parse_args()
    print(f"seed {given.seed}", file=sys.stderr)
    chance = random.Random(given.seed)
    texts = [text for number in range(PROJECTS) for text in _documents(chance, number)]
    texts += [
        text for number in range(DEPARTMENTS) for text in _defaults(chance, Scope(Level.DEPARTMENT, f"d{number}"))
    ]
    texts += _defaults(chance, Scope())
    began = time.perf_counter()
    policies = {policy.key: policy for text in texts for policy in _read(text)}
    ready = time.perf_counter() - began
    print(f"{len(policies)} policies read in {ready:.1f} s", file=sys.stderr)
    result = _judged(chance, policies, given.specs)
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({**result, "ready_s": round(ready, 2), "rss_mib": round(rss, 1), "seed": given.seed}))
    return 0


def _read(text: str) -> list[Policy]:
    found = read_policies(text)
    wrong = [each for document in found for each in document.violations]
    if wrong:
        raise ValueError(f"{wrong[0].path}: {wrong[0].text}")
    return [document.policy for document in found if document.policy is not None]


def _documents(chance: random.Random, number: int) -> list[str]:
    scope = Scope(Level.PROJECT, f"p{number}")
    return [framed(json.dumps({"rules": _rules(chance, kind)}), Frame(kind, scope)) for kind in Kind]


def _defaults(chance: random.Random, scope: Scope) -> list[str]:
    found = []
    for kind in Kind:
        plain = [each for each in _plain(kind) if each.defaultable and not each.itemized]
        chosen = chance.sample(plain, min(8, len(plain)))
        found.append(
            framed(json.dumps({"defaults": {each.path: sample(each).low for each in chosen}}), Frame(kind, scope))
        )
    return found


@cache
def _plain(kind: Kind) -> tuple[Place, ...]:
    """Places whose rule and value the plainest workload of the kind can have, each by itself."""
    found = [
        each
        for each in places(kind).values()
        if each.side is not Side.MASTER and not each.first_only and not each.instances and "gpu" not in each.row.name
    ]
    return tuple(each for each in found if _is_fitting(kind, each))


def _is_fitting(kind: Kind, place: Place) -> bool:
    (policy,) = _read(framed(json.dumps({"rules": {place.path: _rule(place)}}), Frame(kind, Scope())))
    composed = compose(kind, [policy])
    try:
        specs = [workload(kind), say(workload(kind), place, sample(place).low)]
    except (TypeError, ValueError):
        return False
    return all(isinstance(judge(each, None, composed, Context()), Admitted) for each in specs)


def _rules(chance: random.Random, kind: Kind) -> dict[str, Any]:
    return {place.path: _rule(place) for place in chance.sample(_plain(kind), min(RULES, len(_plain(kind))))}


def _rule(place: Place) -> dict[str, Any]:
    values = sample(place)
    if "max" in place.rules:
        return {"min": values.low, "max": values.high}
    return {"options": [values.low, values.high]} if "options" in place.rules else {"canEdit": True}


def _spec(chance: random.Random, kind: Kind, number: int, composed: Composed) -> WorkloadSpec:
    """A spec of many fields and items; the number makes it unlike all others, and every tenth breaks a rule."""
    spec = workload(kind)
    scalars = [each for each in _plain(kind) if not each.itemized]
    said = 0
    for place in chance.sample(scalars, len(scalars)):
        before = spec.SerializeToString()
        say(spec, place, sample(place).low)
        if isinstance(judge(spec, None, composed, Context()), Admitted):
            said += 1
        else:  # it does not go with what was drawn before
            spec = WorkloadSpec.FromString(before)
        if said == FIELDS:
            break
    for item in range(ITEMS):
        spec.environment.add(label=f"V{item}", value=f"{number}-{item}")
    if number % 10 == 0:
        rules = [each.ruled for each in composed.rules if each.ruled.rules.maximum is not None]
        bounded = [each.place for each in rules if not each.place.itemized and each.place.value.maximum is None]
        for place in chance.sample(bounded, min(1, len(bounded))):
            say(spec, place, _above(sample(place).high))
    return spec


def _above(text: str) -> str:
    digits = text.rstrip("GMKi")
    return f"{int(float(digits)) * 2}{text[len(digits) :]}"


def _judged(chance: random.Random, policies: dict[Any, Policy], count: int) -> dict[str, Any]:
    composing: list[float] = []
    branches: list[tuple[Kind, Composed]] = []
    for number in range(PROJECTS):
        for kind in Kind:
            scopes = (Scope(), Scope(Level.DEPARTMENT, f"d{number % DEPARTMENTS}"), Scope(Level.PROJECT, f"p{number}"))
            began = time.perf_counter()
            composed = compose(kind, [policies[kind, scope] for scope in scopes])
            composing.append((time.perf_counter() - began) * 1e6)
            branches.append((kind, composed))
    chosen = [branches[chance.randrange(len(branches))] for _ in range(count)]
    specs = [_spec(chance, kind, number, composed) for number, (kind, composed) in enumerate(chosen)]
    took, refused = [], 0
    for (_, composed), spec in zip(chosen, specs, strict=True):
        began = time.perf_counter()
        verdict = judge(spec, None, composed, Context())
        took.append((time.perf_counter() - began) * 1e6)
        refused += isinstance(verdict, Rejected)
    merged = []
    for (kind, composed), spec in zip(chosen, specs, strict=True):
        submission = Submission(kind, spec, None, composed)
        each = layered(submission)
        derive(each)
        merged.append((each, composed, LeftOut(submission)))
    began = time.perf_counter()
    for laid in merged:
        objections(*laid)
    rules = count / (time.perf_counter() - began)
    return {
        "rules_per_s": round(rules),
        "whole_per_s": round(count / (sum(took) / 1e6)),
        "p99_us": round(spread(took)["p99"]),
        "compose_us": round(spread(composing)["p50"]),
        "refused": round(refused / count, 3),
    }


if __name__ == "__main__":
    sys.exit(main())

"""Law 8 of policies: a v1 document and its conversion give the same verdicts where nothing is lost."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from muster_language import Kind, WorkloadSpec, read
from muster_policy_engine.composing import compose
from muster_policy_engine.documents.converting import convert
from muster_policy_engine.documents.document import read_policies
from muster_policy_engine.documents.writing import write_policy
from muster_policy_engine.judging.judge import Admitted, Context, judge
from muster_policy_engine.policy import Dialect, Policy
from tests.support.policy_document_drawings import v1_document, v1_specs, v1_values, v1_workload, v1_workloads

KINDS = st.sampled_from(Kind)
FLAGS = st.booleans()


def _policy(text: str) -> Policy | None:
    (found,) = read_policies(text)
    return found.policy


def _workload(text: str) -> WorkloadSpec | None:
    (found,) = read(text)
    return found.spec if not found.violations else None


@st.composite
def _masters(draw: st.DrawFn, kind: Kind, words: list[str]) -> dict[str, Any] | None:
    if kind is not Kind.DISTRIBUTED or draw(st.booleans()):
        return None
    of_roles = [each for each in v1_values(kind) if each[0] in (*words, "image", "gpu", "tty")]
    return dict(draw(st.lists(st.sampled_from(of_roles), max_size=3))) if of_roles else None


@settings(max_examples=300)
@given(KINDS, st.data())
def test_a_conversion_without_losses_gives_the_same_verdicts(kind: Kind, data: st.DataObject) -> None:
    spec = data.draw(v1_specs(kind))
    before = _policy(v1_document(kind, spec))
    assume(before is not None)
    assert before is not None
    converted = convert(before)
    assume(not converted.lost)
    event(f"rules: {len(before.body.rules)}")
    for _ in range(4):
        own = data.draw(v1_workloads(kind, list(spec)))
        workload = _workload(v1_workload(kind, own, data.draw(_masters(kind, list(spec)))))
        if workload is None:
            continue
        template = _workload(v1_workload(kind, data.draw(v1_workloads(kind, list(spec))))) if data.draw(FLAGS) else None
        context = Context(rest=data.draw(FLAGS))
        old = judge(workload, template, compose(kind, [before]), context)
        new = judge(workload, template, compose(kind, [converted.policy]), context)
        event(type(old).__name__)
        assert type(old) is type(new), (old, new)
        if isinstance(old, Admitted) and isinstance(new, Admitted):
            assert old.effective == new.effective
            assert old.requests == new.requests


@settings(max_examples=200)
@given(KINDS, st.data())
def test_whatever_is_lost_a_conversion_can_be_written_and_read(kind: Kind, data: st.DataObject) -> None:
    master = data.draw(v1_specs(kind)) if kind is Kind.DISTRIBUTED and data.draw(st.booleans()) else None
    before = _policy(v1_document(kind, data.draw(v1_specs(kind)), master))
    assume(before is not None)
    assert before is not None
    converted = convert(before)
    assert converted.policy.dialect is Dialect.V2
    (found,) = read_policies(write_policy(converted.policy))
    assert found.violations == []
    assert found.policy == converted.policy
    assert all(str(each) for each in (*converted.lost, *converted.notes))
    assert convert(converted.policy).policy == converted.policy

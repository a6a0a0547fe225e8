"""Whatever a spec holds, policy has a verdict about it, the same each time, and changes nothing of what it is given."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from muster_language import WorkloadSpec, check_effective, check_layer, warnings_of
from muster_language.naming import REST
from muster_policy_engine.documents.document import parse
from muster_policy_engine.judging.judge import Admitted, Context, Rejected, judge
from tests.support.layers import specs

POLICY = parse("""
defaults:
  compute: {cpuCoreRequest: 100m}
  probes.readiness.periodSeconds: 5
  ports: {instances: [{name: a, container: 9000}], attributes: {serviceType: ClusterIP}}
  environmentVariables.instances: [{name: b, value: x}]
  master.image: y
rules:
  image: {required: true, options: [x]}
  compute: {gpuPortionRequest: {max: 0.5, step: 0.25, canEdit: false}, cpuMemoryRequest: {min: 1Gi}}
  ports: {instances: {canAdd: false, locked: [a]}, attributes: {container: {min: 1024, canEdit: false}}}
  storage.pvc.attributes.path: {required: true, options: [/x]}
  probes.readiness.periodSeconds: {canEdit: false, max: 3}
  servingPort.container: {max: 2}
  worker.nodePools: {canEdit: false}
  master.args: {required: true}
""")


@settings(max_examples=200)
@given(specs(), st.none() | specs(), st.booleans())
def test_every_spec_has_a_verdict(own: WorkloadSpec, base: WorkloadSpec | None, rest: bool) -> None:
    given = [each.SerializeToString(deterministic=True) for each in (own, base or WorkloadSpec())]
    verdict = judge(own, base, POLICY, Context(rest=rest))
    assert [each.SerializeToString(deterministic=True) for each in (own, base or WorkloadSpec())] == given
    assert verdict == judge(own, base, POLICY, Context(rest=rest))
    match verdict:
        case Rejected(issues=issues):
            assert issues
            assert all(each.path and each.details for each in issues)
        case Admitted(effective=effective, requests=requests):
            assert check_effective(effective) == []
            assert requests


@given(specs())
def test_the_checks_never_raise_and_name_every_place(spec: WorkloadSpec) -> None:
    yaml, rest = check_layer(spec), check_layer(spec, REST)
    assert len(yaml) == len(rest)
    assert all(each.path and each.message for each in (*yaml, *rest))
    assert all(each.path and each.details for each in check_effective(spec))
    assert all(warnings_of(spec))

"""Whatever a spec holds, policy has a verdict about it, the same each time, and changes nothing of what it is given."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from muster_language import Kind, WorkloadSpec, check_effective, check_layer, warnings_of
from muster_language.naming import REST
from muster_language.spec import kind_of
from muster_policy_engine.composing import Composed
from muster_policy_engine.judging.judge import Admitted, Context, Rejected, judge
from tests.support.layers import specs
from tests.support.policy_engine import TENANT, VISION, together

_BOTH = """
defaults:
  compute: {cpuCoreRequest: 100m}
  probes.readiness.periodSeconds: 5
  ports: {instances: [{name: a, container: 9000}], attributes: {serviceType: ClusterIP}}
  environmentVariables.instances: [{name: b, value: x}]
rules:
  image: {required: true, options: [x]}
  compute:
    gpuPortionRequest: {max: 0.5, step: 0.25, canEdit: false}
    cpuMemoryRequest: {min: 1Gi, defaultFrom: {field: compute.cpuMemoryLimit, factor: 0.5}}
  ports:
    instances: {canAdd: false, locked: [a]}
    attributes: {container: {min: 1024, canEdit: false}, external: {defaultFrom: {field: container, factor: 2}}}
  storage.pvc.attributes.path: {required: true, options: [/x]}
  storage.nfs.instances: {blocked: true}
  storage.hostPath.attributes.mountPropagation: {canEdit: false}
  probes.readiness.periodSeconds: {canEdit: false, max: 3}
  createHomeDir: {canEdit: false}
  security.uidGidSource: {blocked: true}
"""
_BELOW = "defaults: {image: x, ports.instances: [{name: c, container: 9001}]}\nrules: {nodePools: {canEdit: false}}"
_SERVICE = "rules: {servingPort.container: {max: 2}, autoscaling.minReplicas: {required: true, canEdit: false}}"


def _sided(body: str, side: str) -> str:
    """The same under a side of a gang."""
    lines = [f"  {line}" if line.startswith(" ") else f"{line}\n  {side}:" for line in body.strip().splitlines()]
    return "\n".join(lines)


def _policies(kind: Kind) -> Composed:
    if kind is Kind.DISTRIBUTED:
        workers, masters = (_sided(_BOTH, side) for side in ("worker", "master"))
        return together((TENANT, workers), (VISION, masters), kind=kind)
    both = _BOTH.replace("  storage.nfs.instances: {blocked: true}\n", "").replace(
        "  storage.hostPath.attributes.mountPropagation: {canEdit: false}\n", ""
    )
    if kind is Kind.INFERENCE:
        return together((TENANT, both), (VISION, _SERVICE), kind=kind)
    return together((TENANT, _BOTH), (VISION, _BELOW), kind=kind)


POLICIES = {kind: _policies(kind) for kind in Kind}


@settings(max_examples=200)
@given(specs(), st.none() | specs(), st.booleans())
def test_every_spec_has_a_verdict(own: WorkloadSpec, base: WorkloadSpec | None, rest: bool) -> None:
    given = [each.SerializeToString(deterministic=True) for each in (own, base or WorkloadSpec())]
    composed = POLICIES[kind_of(own) or Kind.TRAINING]
    verdict = judge(own, base, composed, Context(rest=rest))
    assert [each.SerializeToString(deterministic=True) for each in (own, base or WorkloadSpec())] == given
    assert verdict == judge(own, base, composed, Context(rest=rest))
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

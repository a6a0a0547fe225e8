"""What holds on a branch as people look at it: each rule and default with the policy that it is from."""

from __future__ import annotations

from muster_language import Kind
from muster_policy_engine.effective import effective_defaults, effective_rules
from tests.support.policy_engine import RESEARCH, TENANT, VISION, together

COMPOSED = together(
    """
defaults:
  backoffLimit: 1
  image: x
  compute.gpuPortionRequest: 0.5
  nodePools: [a, b]
  imagePullPolicy: always
  labels.instances: [{name: a, value: b}, {name: c, value: d}]
  ports.attributes.serviceType: ClusterIP
rules:
  compute.cpuCoreRequest: {min: 1, max: 4}
  compute.cpuMemoryRequest: {defaultFrom: {field: compute.cpuCoreRequest, factor: 2Gi}}
  imagePullPolicy: {options: [Always, Never]}
  image: {canEdit: false}
  storage.hostPath.instances: {blocked: true}
  labels.instances: {locked: [a, c]}
""",
    (RESEARCH, "defaults: {backoffLimit: 2, image: y, labels.instances: [{name: z, value: y}, {name: e, value: f}]}"),
    (
        VISION,
        """
defaults: {compute.gpuMemoryRequest: 4Gi, labels.instances: [{name: e, exclude: true}]}
rules: {backoffLimit: {required: true}}
""",
    ),
)


def test_the_rules() -> None:
    assert [(each.path, each.rule, each.value, each.policy.scope) for each in effective_rules(COMPOSED)] == [
        ("backoffLimit", "required", "true", VISION),
        ("compute.cpuCoreRequest", "max", "4", TENANT),
        ("compute.cpuCoreRequest", "min", "1", TENANT),
        ("compute.cpuMemoryRequest", "defaultFrom", "compute.cpuCoreRequest x 2Gi", TENANT),
        ("image", "canEdit", "false", TENANT),
        ("imagePullPolicy", "options", "Always, Never", TENANT),
        ("labels.instances", "locked", "a, c", TENANT),
        ("storage.hostPath.instances", "blocked", "true", TENANT),
    ]


def test_the_defaults() -> None:
    assert [(each.path, each.item, each.value, each.policy.scope) for each in effective_defaults(COMPOSED)] == [
        ("backoffLimit", "", "2", RESEARCH),
        ("compute.gpuMemoryRequest", "", "4Gi", VISION),
        ("image", "", "x", TENANT),
        ("imagePullPolicy", "", "Always", TENANT),
        ("labels.instances", "a", "value: b", TENANT),
        ("labels.instances", "c", "value: d", TENANT),
        ("labels.instances", "z", "value: y", RESEARCH),
        ("nodePools", "", "a, b", TENANT),
        ("ports.attributes.serviceType", "", "ClusterIP", TENANT),
    ]


def test_what_is_ignored_is_named() -> None:
    assert [(each.path, each.policy.scope, each.by.scope) for each in COMPOSED.ignored] == [("image", RESEARCH, TENANT)]


def test_the_sides_of_a_gang() -> None:
    composed = together(
        "defaults: {worker.image: w, master: {image: m, probes.readiness.periodSeconds: 5}}", kind=Kind.DISTRIBUTED
    )
    assert [(each.path, each.value) for each in effective_defaults(composed)] == [
        ("master.image", "m"),
        ("master.probes.readiness.periodSeconds", "5"),
        ("worker.image", "w"),
    ]

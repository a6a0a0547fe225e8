"""The policies of a branch laid together: which defaults count, which rules hold, and what is ignored."""

from __future__ import annotations

from itertools import permutations

import pytest

from muster_language import Kind, LayerName
from muster_policy_engine.composing import compose
from muster_policy_engine.judging.judge import Context, judge
from muster_policy_engine.policy import Branch
from tests.support.policy_engine import HOME, RESEARCH, TENANT, VISION, admitted, policy, spec, together


def test_the_scopes_of_a_branch() -> None:
    assert Branch("home", "research", "vision").scopes() == (TENANT, HOME, RESEARCH, VISION)
    assert Branch(project="vision").scopes() == (TENANT, VISION)
    assert Branch().scopes() == (TENANT,)


def test_the_lowest_default_wins_field_by_field() -> None:
    composed = together(
        "defaults: {backoffLimit: 1, compute: {cpuCoreRequest: 1, cpuMemoryRequest: 1Gi}}",
        (HOME, "defaults: {backoffLimit: 2, compute: {cpuCoreRequest: 2}}"),
        (RESEARCH, "defaults: {backoffLimit: 3}"),
        (VISION, "defaults: {image: x}"),
    )
    baseline = composed.baseline
    assert (baseline.backoff_limit, baseline.cpu, baseline.memory, baseline.image) == (3, "2", "1Gi", "x")
    assert [layer.name for layer in composed.layers] == [
        LayerName.TENANT,
        LayerName.CLUSTER,
        LayerName.DEPARTMENT,
        LayerName.PROJECT,
    ]
    found = composed.of_layer(LayerName.DEPARTMENT)
    assert found is not None
    assert found.scope == RESEARCH
    assert composed.of_layer(LayerName.WORKLOAD) is None


def test_items_are_replaced_by_label_and_whole() -> None:
    composed = together(
        "defaults: {ports.instances: [{name: a, container: 1, external: 30001}, {name: b, container: 2}]}",
        (VISION, "defaults: {ports.instances: [{name: a, container: 3}, {name: c, container: 4}]}"),
    )
    ports = [(port.label, port.container, port.HasField("external")) for port in composed.baseline.ports]
    assert ports == [("a", 3, False), ("b", 2, False), ("c", 4, False)]


def test_a_lower_level_takes_an_item_out() -> None:
    tenant = "defaults: {labels.instances: [{name: a, value: x}, {name: b, value: y}]}"
    composed = together(tenant, (RESEARCH, "defaults: {labels.instances: [{name: a, exclude: true}]}"))
    assert [(each.label, each.value) for each in composed.baseline.labels] == [("b", "y")]
    back = together(
        tenant,
        (RESEARCH, "defaults: {labels.instances: [{name: a, exclude: true}]}"),
        (VISION, "defaults: {labels.instances: [{name: a, value: z}]}"),
    )
    assert [(each.label, each.value) for each in back.baseline.labels] == [("a", "z"), ("b", "y")]


def test_attributes_of_the_project_come_before_those_of_the_tenant() -> None:
    own = spec()
    own.ports.add(label="p", container=80)
    verdict = admitted(
        own,
        "defaults: {ports.attributes: {serviceType: LoadBalancer, toolType: jupyter}}",
        (VISION, "defaults: {ports.attributes: {serviceType: ClusterIP}}"),
    )
    (port,) = verdict.effective.ports
    assert (port.service_type, port.tool_type) == (3, "jupyter")
    sources = dict(verdict.sources)
    assert sources["ports.p.serviceType"] == LayerName.PROJECT
    assert sources["ports.p.toolType"] == LayerName.TENANT


def test_one_of_an_exclusive_group_clears_the_others() -> None:
    composed = together(
        "defaults: {compute: {gpuPortionRequest: 0.5, gpuPortionLimit: 0.75}}",
        (VISION, "defaults: {compute: {gpuMemoryRequest: 4Gi}}"),
    )
    baseline = composed.baseline
    assert (baseline.gpu_memory_request, baseline.HasField("gpu_portion_request")) == ("4Gi", False)
    assert not baseline.HasField("gpu_portion_limit")


@pytest.mark.parametrize(
    ("above", "below"),
    [
        ("defaults: {backoffLimit: 1}\nrules: {backoffLimit: {canEdit: false}}", "defaults: {backoffLimit: 2}"),
        ("rules: {backoffLimit: {canEdit: false}}", "defaults: {backoffLimit: 2}"),
        ("rules: {backoffLimit: {blocked: true}}", "defaults: {backoffLimit: 2}"),
        ("rules: {ports.instances: {blocked: true}}", "defaults: {ports.instances: [{name: a, container: 2}]}"),
        (
            "rules: {ports.attributes.container: {blocked: true}}",
            "defaults: {ports.instances: [{name: a, container: 2}]}",
        ),
        (
            "defaults: {labels.instances: [{name: a, value: b}]}\nrules: {labels.instances: {locked: [a]}}",
            "defaults: {labels.instances: [{name: a, value: c}]}",
        ),
        (
            "defaults: {labels.instances: [{name: a, value: b}]}\nrules: {labels.instances: {locked: [a]}}",
            "defaults: {labels.instances: [{name: a, exclude: true}]}",
        ),
        (
            "defaults: {ports.attributes.toolName: a}\nrules: {ports.attributes.toolName: {canEdit: false}}",
            "defaults: {ports.attributes.toolName: b}",
        ),
        (
            "defaults: {compute.gpuPortionRequest: 0.5}\nrules: {compute.gpuPortionRequest: {canEdit: false}}",
            "defaults: {compute.gpuMemoryRequest: 1Gi}",
        ),
    ],
)
def test_a_closed_field_keeps_lower_defaults_out(above: str, below: str) -> None:
    composed = together(above, (RESEARCH, below))
    (ignored,) = composed.ignored
    assert (ignored.policy.scope, ignored.by.scope) == (RESEARCH, TENANT)
    assert composed.baseline == together(above).baseline
    assert composed.attributes == together(above).attributes
    assert together((TENANT, below), (RESEARCH, above)).ignored == ()


@pytest.mark.parametrize(
    ("above", "below"),
    [
        ("rules: {backoffLimit: {max: 1}}", "defaults: {backoffLimit: 2}"),
        (
            "rules: {labels.instances: {locked: [a], canAdd: false}}",
            "defaults: {labels.instances: [{name: b, value: c}]}",
        ),
        ("rules: {compute.gpuRequestType: {canEdit: false}}", "defaults: {compute.gpuDevicesRequest: 1}"),
        (
            "rules: {ports.attributes.external: {blocked: true}}",
            "defaults: {ports.instances: [{name: a, container: 2}]}",
        ),
    ],
)
def test_other_rules_keep_no_default_out(above: str, below: str) -> None:
    assert together(above, (RESEARCH, below)).ignored == ()


def test_what_is_closed_on_one_side_of_a_gang_is_open_on_the_other() -> None:
    composed = together(
        "rules: {worker.backoffLimit: {canEdit: false}, worker.compute.gpuPortionRequest: {canEdit: false}}",
        (VISION, "defaults: {master: {command: m, compute.gpuDevicesRequest: 1}}"),
        kind=Kind.DISTRIBUTED,
    )
    assert composed.ignored == ()


def test_rules_of_all_levels_hold() -> None:
    composed = together(
        "rules: {backoffLimit: {max: 5}}", (VISION, "rules: {backoffLimit: {max: 3}, image: {required: true}}")
    )
    assert [(each.ruled.place.path, each.policy.scope) for each in composed.rules] == [
        ("backoffLimit", TENANT),
        ("backoffLimit", VISION),
        ("image", VISION),
    ]


def test_the_order_of_policies_does_not_matter() -> None:
    policies = [
        policy("defaults: {backoffLimit: 1, ports.attributes.serviceType: NodePort}\nrules: {image: {required: true}}"),
        policy("defaults: {labels.instances: [{name: a, value: b}]}\nrules: {backoffLimit: {max: 1}}", HOME),
        policy("defaults: {backoffLimit: 2}", RESEARCH),
        policy("defaults: {labels.instances: [{name: a, exclude: true}]}\nrules: {command: {options: [x]}}", VISION),
    ]
    verdicts = [judge(spec(), None, compose(Kind.TRAINING, order), Context()) for order in permutations(policies)]
    assert all(each == verdicts[0] for each in verdicts)

"""Defaults that are worked out from other fields: when they are set, chains, units, rounding, masters and items."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from muster_language import LayerName, WorkloadSpec, catalogue
from muster_policy_engine.amounts import Unit, factor_of, unit_of, value_from
from tests.support.policy_engine import TENANT, VISION, admitted, refused, spec


def rule(target: str, source: str, factor: str = "0.5") -> str:
    return f"{target}: {{defaultFrom: {{field: {source}, factor: {factor}}}}}"


REQUEST = f"rules: {{{rule('compute.cpuCoreRequest', 'compute.cpuCoreLimit')}}}"


def test_a_field_that_is_unset_gets_the_value() -> None:
    verdict = admitted(spec(cpu_limit="3"), REQUEST)
    assert verdict.effective.cpu == "1500m"
    assert dict(verdict.sources)["compute.cpuCoreRequest"] == LayerName.TENANT
    assert admitted(spec(cpu_limit="3", cpu="1"), REQUEST).effective.cpu == "1"
    assert not admitted(spec(), REQUEST).effective.HasField("cpu")
    assert admitted(spec(cpu_limit="3"), (VISION, REQUEST)).sources
    template = admitted(spec(), REQUEST, base=spec(cpu_limit="2", cpu="250m"))
    assert template.effective.cpu == "250m"


def test_a_policy_comes_before_the_language() -> None:
    policy = f"rules: {{{rule('backoffLimit', 'completions', '2')}}}"
    assert admitted(spec(completions=4), policy).effective.backoff_limit == 8
    assert admitted(spec(), policy).effective.backoff_limit == 6
    assert admitted(spec(completions=4), f"defaults: {{backoffLimit: 1}}\n{policy}").effective.backoff_limit == 1


def test_a_source_may_have_its_value_from_any_layer() -> None:
    levels = ((TENANT, REQUEST), (VISION, "defaults: {compute.cpuCoreLimit: 4}"))
    assert admitted(spec(), *levels).effective.cpu == "2000m"


def test_chains_are_followed_in_their_order() -> None:
    first, second = (
        rule("compute.cpuMemoryLimit", "compute.cpuCoreLimit", "2Gi"),
        rule("compute.cpuMemoryRequest", "compute.cpuMemoryLimit"),
    )
    for policy in (f"rules: {{{first}, {second}}}", f"rules: {{{second}, {first}}}"):
        effective = admitted(spec(cpu_limit="3"), policy).effective
        assert (effective.memory_limit, effective.memory) == (str(6 << 30), str(3 << 30))


def test_a_cycle_that_no_write_made_ends() -> None:
    levels = (
        (TENANT, f"rules: {{{rule('compute.cpuCoreRequest', 'compute.cpuCoreLimit')}}}"),
        (VISION, f"rules: {{{rule('compute.cpuCoreLimit', 'compute.cpuCoreRequest', '2')}}}"),
    )
    assert admitted(spec(cpu="1"), *levels).effective.cpu_limit == "2000m"
    assert admitted(spec(cpu_limit="1"), *levels).effective.cpu == "500m"
    assert not admitted(spec(), *levels).effective.HasField("cpu")


def test_units() -> None:
    policy = f"rules: {{{rule('compute.cpuMemoryRequest', 'compute.gpuDevicesRequest', '16Gi')}}}"
    assert admitted(spec(gpu_devices_request=2), policy).effective.memory == str(32 << 30)
    cores = f"rules: {{{rule('compute.cpuCoreRequest', 'compute.gpuPortionRequest', '500m')}}}"
    assert admitted(spec(gpu_portion_request=0.25), cores).effective.cpu == "125m"


@pytest.mark.parametrize(
    ("target", "amount", "value"),
    [
        ("backoff_limit", Fraction(7, 2), 3),
        ("completions", Fraction(1, 3), 1),
        ("completions", Fraction(1 << 80), (1 << 32) - 1),
        ("gpu_portion_request", Fraction(1, 3), 0.33),
        ("gpu_portion_request", Fraction(1, 1000), 0.01),
        ("memory", Fraction(7, 2), "3"),
        ("memory", Fraction(1, 2), "1"),
        ("cpu", Fraction(2501, 2), "1250m"),
        ("cpu", Fraction(1, 2), "1m"),
    ],
)
def test_values_are_rounded_down_and_never_below_the_least(target: str, amount: Fraction, value: Any) -> None:
    assert value_from(catalogue().by_name[target], amount) == value


def test_factors() -> None:
    rows = catalogue().by_name
    assert unit_of(rows["image"]) is None
    assert unit_of(rows["cpu"]) is Unit.CORES
    assert factor_of(rows["cpu"], rows["cpu_limit"], "0.5") == Fraction(1, 2)
    assert factor_of(rows["memory"], rows["cpu"], "2Gi") == Fraction(2 << 30, 1000)
    assert factor_of(rows["cpu"], rows["workers"], "250m") == 250
    with pytest.raises(ValueError, match="CPU cores cannot be worked out from bytes"):
        factor_of(rows["cpu"], rows["memory"], "1")
    with pytest.raises(ValueError, match="number"):
        factor_of(rows["cpu"], rows["cpu_limit"], "1G")


def test_a_request_that_excludes_the_field_leaves_it_unset() -> None:
    policy = f"rules: {{{rule('compute.gpuMemoryRequest', 'compute.cpuMemoryRequest', '1')}}}"
    assert admitted(spec(memory="1Gi"), policy).effective.gpu_memory_request == str(1 << 30)
    effective = admitted(spec(memory="1Gi", gpu_portion_request=0.5), policy).effective
    assert not effective.HasField("gpu_memory_request")
    devices = f"rules: {{{rule('compute.gpuMemoryRequest', 'compute.gpuDevicesRequest', '16Gi')}}}"
    assert admitted(spec(gpu_devices_request=1), devices).effective.gpu_memory_request == str(16 << 30)
    limit = f"rules: {{{rule('compute.gpuPortionLimit', 'compute.gpuPortionRequest', '2')}}}"
    assert admitted(spec(gpu_portion_request=0.25), limit).effective.gpu_portion_limit == 0.5
    other = f"rules: {{{rule('compute.gpuPortionLimit', 'backoffLimit', '0.1')}}}"
    assert not admitted(spec(gpu_memory_request="1Gi"), other).effective.HasField("gpu_portion_limit")


def test_what_is_worked_out_is_judged_and_may_be_repeated() -> None:
    worked_out = "defaultFrom: {field: compute.cpuCoreLimit, factor: 0.5}"
    policy = f"rules: {{compute.cpuCoreRequest: {{max: 1, canEdit: false, {worked_out}}}}}"
    assert set(refused(spec(cpu_limit="4"), policy)) == {("compute.cpuCoreRequest", "max", "")}
    admitted(spec(cpu_limit="2"), policy)
    admitted(spec(cpu_limit="2", cpu="1000m"), policy)
    ((_, allowed, _),) = refused(spec(cpu_limit="2", cpu="500m"), policy).values()
    assert allowed == "1000m"


def test_a_source_that_is_no_amount_gives_nothing() -> None:
    assert {each for _, each, _ in refused(spec(cpu_limit="many"), REQUEST)} == {"language"}


MEMBER = "rules: {ports.attributes.external: {defaultFrom: {field: container, factor: 2}}}"


def test_members_of_items_from_members_of_the_same_item() -> None:
    own = spec()
    own.ports.add(label="a", container=8000)
    own.ports.add(label="b", container=9000, external=5)
    verdict = admitted(own, MEMBER)
    assert [(each.label, each.external) for each in verdict.effective.ports] == [("a", 16_000), ("b", 5)]
    assert dict(verdict.sources)["ports.a.external"] == LayerName.TENANT
    field = "rules: {exposedUrls.attributes.container: {defaultFrom: {field: backoffLimit, factor: 10}}}"
    own.exposed_urls.add(label="u")
    assert admitted(own, field).effective.exposed_urls[0].container == 60


def test_the_first_port_alone() -> None:
    own = spec(4)
    own.ports[0].external = 300
    own.ports.add(label="b", external=301, container=1)
    own.ports[0].ClearField("container")
    rule = "rules: {servingPort.container: {defaultFrom: {field: external, factor: 2}}}"
    assert [each.container for each in admitted(own, rule).effective.ports] == [600, 1]


def test_a_bound_that_the_language_derives_is_a_source_too() -> None:
    policy = "rules: {autoscaling.metricThreshold: {defaultFrom: {field: autoscaling.maxReplicas, factor: 10}}}"
    verdict = admitted(spec(4), policy)
    assert (verdict.effective.max_scale, verdict.effective.target) == (1, 10)
    assert admitted(verdict.effective, policy).effective == verdict.effective


def test_ids_without_effect_stay_out() -> None:
    policy = "rules: {security.runAsUid: {defaultFrom: {field: backoffLimit, factor: 100}}}"
    assert not admitted(spec(), policy).effective.HasField("run_as_uid")
    assert admitted(spec(uid_gid_source=3), policy).effective.run_as_uid == 600


def gang() -> WorkloadSpec:
    own = spec(3, cpu_limit="4")
    own.ports.add(label="shared", container=80)
    own.master_spec.ports.add(label="own", container=81)
    return own


def test_masters_are_worked_out_from_the_completed_master() -> None:
    policy = f"rules: {{master: {{{rule('compute.cpuCoreRequest', 'compute.cpuCoreLimit', '0.25')}}}}}"
    verdict = admitted(gang(), policy)
    assert verdict.effective.master_spec.cpu == "1000m"
    assert not verdict.effective.HasField("cpu")
    own = gang()
    own.cpu = "2"
    assert admitted(own, policy).effective.master_spec.cpu == "2"


def test_items_that_the_master_has_from_the_workers_are_worked_out_too() -> None:
    policy = "rules: {master.ports.attributes.external: {defaultFrom: {field: container, factor: 2}}}"
    verdict = admitted(gang(), policy)
    assert [(each.label, each.external) for each in verdict.effective.master_spec.ports] == [
        ("shared", 160),
        ("own", 162),
    ]
    assert not verdict.effective.ports[0].HasField("external")
    assert admitted(verdict.effective, policy).effective == verdict.effective


def test_no_master_no_default() -> None:
    policy = f"rules: {{master: {{{rule('compute.cpuCoreRequest', 'compute.cpuCoreLimit', '0.25')}}}}}"
    assert not admitted(spec(3, cpu_limit="4"), policy).effective.HasField("master_spec")


def test_an_id_without_effect_is_no_source() -> None:
    policy = f"rules: {{{rule('backoffLimit', 'security.runAsUid', '2')}}}"
    assert admitted(spec(run_as_uid=2), policy).effective.backoff_limit == 6
    assert admitted(spec(run_as_uid=2, run_as_user=True), policy).effective.backoff_limit == 4

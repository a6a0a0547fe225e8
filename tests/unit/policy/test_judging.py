"""The verdict: defaults laid under, every rule at once, and what the scheduler is told."""

from __future__ import annotations

from typing import Any

import pytest

from muster_language import LayerName, WorkloadSpec
from muster_policy.domain.bench import Bench
from muster_policy_engine.documents.document import parse
from muster_policy_engine.judging.judge import Admitted, Context, Rejected, judge
from muster_policy_engine.policy import NO_POLICY, Policy


def spec(kind: int = 2, **fields: Any) -> WorkloadSpec:
    made = WorkloadSpec(kind=kind, **{"command": "true", **fields})  # type: ignore[arg-type]
    if kind == 4:
        made.ports.add(label="http", container=80)
    return made


def admitted(own: WorkloadSpec, policy: Policy = NO_POLICY, base: WorkloadSpec | None = None) -> Admitted:
    verdict = judge(own, base, policy, Context())
    assert isinstance(verdict, Admitted), verdict
    return verdict


def refused(own: WorkloadSpec, text: str, base: WorkloadSpec | None = None) -> dict[tuple[str, str], tuple[str, str]]:
    verdict = judge(own, base, parse(text, name="house"), Context())
    assert isinstance(verdict, Rejected), verdict
    assert all(each.rule == "language" or (each.policy, each.scope) == ("house", "tenant") for each in verdict.issues)
    return {(each.path, each.rule): (each.given, each.allowed) for each in verdict.issues}


def test_without_a_policy_the_language_alone_decides() -> None:
    verdict = admitted(spec(gpu_portion_request=0.5))
    assert verdict.effective.backoff_limit == 6
    assert [(each.role, each.gpu_charge) for each in verdict.requests] == [("worker", 3500)]
    assert (verdict.node_pools, verdict.preemptible, verdict.priority) == (("default",), True, 50)
    assert ("backoffLimit", LayerName.LANGUAGE) in verdict.sources
    assert ("compute.gpuPortionRequest", LayerName.WORKLOAD) in verdict.sources


def test_layers() -> None:
    policy = parse("defaults: {backoffLimit: 1, compute: {cpuCoreRequest: '1', cpuMemoryRequest: 1Gi}}")
    base = spec(command="base", backoff_limit=2, memory="2Gi")
    own = spec(backoff_limit=3)
    effective = admitted(own, policy, base).effective
    assert (effective.command, effective.backoff_limit, effective.memory, effective.cpu) == ("true", 3, "2Gi", "1")


def test_pools_of_the_workload_else_of_the_project() -> None:
    named = spec()
    named.node_pools.values.append("h100")
    for own, pools in ((named, ("h100",)), (spec(), ("a", "b"))):
        verdict = judge(own, None, NO_POLICY, Context(("a", "b")))
        assert isinstance(verdict, Admitted)
        assert verdict.node_pools == pools


def test_clusters_of_the_workload_or_the_one_that_was_asked_for() -> None:
    policy = parse("defaults: {clusters: [south, north]}")
    named = spec()
    named.clusters.values.extend(["west", "east"])

    def told(own: WorkloadSpec, cluster: str = "", house: Policy = NO_POLICY) -> tuple[str, ...]:
        verdict = judge(own, None, house, Context(cluster=cluster))
        assert isinstance(verdict, Admitted), verdict
        return verdict.clusters

    assert told(spec()) == ()
    assert told(named) == ("east", "west")
    assert told(spec(), "east") == told(named, "east") == ("east",)
    assert told(spec(), house=policy) == ("north", "south")
    assert told(named, house=policy) == ("east", "west")
    assert told(spec(), "north", policy) == ("north",)


def test_a_cluster_outside_of_those_that_a_default_allows_is_refused() -> None:
    policy = parse("defaults: {clusters: [south, north]}", name="house")
    verdict = judge(spec(), None, policy, Context(cluster="east"))
    assert isinstance(verdict, Rejected)
    ((issue),) = verdict.issues
    assert (issue.path, issue.rule, issue.given) == ("clusters", "language", "east")
    assert issue.allowed == "south, north"
    assert issue.details == (
        "cluster east was asked for, but the workload may run in south, north only: "
        "ask for one of these or for none, or add east to clusters"
    )


def test_a_preferred_cluster_outside_of_those_that_a_default_allows_is_refused() -> None:
    own = spec()
    own.preferred_clusters.values.extend(["north", "west"])
    told = refused(own, "defaults: {clusters: [south, north]}")
    assert told == {("preferredClusters", "language"): ("west", "south, north")}
    own.clusters.values.extend(["west", "north"])
    assert admitted(own, parse("defaults: {clusters: [south, north]}")).clusters == ("north", "west")


def test_rules_over_the_choice_of_clusters() -> None:
    own = spec(data_label="fluid.io/s-default-other")
    own.clusters.values.append("east")
    rules = (
        "rules: {clusters: {canEdit: false}, preferredClusters: {required: true}, dataLabel: {options: [{value: a}]}}"
    )
    assert set(refused(own, rules)) == {
        ("clusters", "canEdit"),
        ("preferredClusters", "required"),
        ("dataLabel", "options"),
    }


def test_the_master_is_complete_in_the_effective_spec() -> None:
    own = spec(3, framework=1, workers=2, gpu_devices_request=2, image="img")
    own.master_spec.memory = "1Gi"
    verdict = admitted(own)
    master = verdict.effective.master_spec
    assert (master.command, master.image, master.memory) == ("true", "img", "1Gi")
    assert not master.HasField("gpu_devices_request")
    assert [(each.role, each.count, each.gpu_devices) for each in verdict.requests] == [
        ("launcher", 1, 0),
        ("worker", 2, 2),
    ]


def test_what_the_language_has_against_it() -> None:
    assert set(refused(spec(3), "")) == {("distributedFramework", "language"), ("numWorkers", "language")}
    assert set(refused(WorkloadSpec(), "")) == {("kind", "language")}


RULES = """
rules:
  compute: {gpuPortionRequest: {min: 0.25, max: 0.75, step: 0.25}}
  compute.cpuMemoryRequest: {max: 4Gi}
  compute.cpuCoreRequest: {min: 1}
  image: {required: true}
  imagePullPolicy: {options: [Always, Never]}
  nodeType: {options: [a, b]}
"""


def test_every_rule_speaks_at_once() -> None:
    own = spec(gpu_portion_request=0.8, memory="5Gi", cpu="500m", image_pull_policy=2)
    own.node_type = "c"
    assert refused(own, RULES) == {
        ("compute.gpuPortionRequest", "max"): ("0.8", "at most 0.75"),
        ("compute.gpuPortionRequest", "step"): ("0.8", "steps of 0.25 from 0.25"),
        ("compute.cpuMemoryRequest", "max"): ("5Gi", "at most 4Gi"),
        ("compute.cpuCoreRequest", "min"): ("500m", "at least 1"),
        ("image", "required"): ("", "a value"),
        ("imagePullPolicy", "options"): ("IfNotPresent", "Always, Never"),
        ("nodeType", "options"): ("c", "a, b"),
    }
    fine = spec(gpu_portion_request=0.5, memory="4Gi", cpu="1", image="x", image_pull_policy=3)
    admitted(fine, parse(RULES))


def test_rules_hold_for_the_master_too() -> None:
    own = spec(3, framework=1, workers=1, image="x")
    own.master_spec.memory = "8Gi"
    assert refused(own, RULES) == {("masterSpec.compute.cpuMemoryRequest", "max"): ("8Gi", "at most 4Gi")}


def test_items_may_be_required() -> None:
    text = "rules: {image: {required: true}}"
    assert set(refused(spec(), text)) == {("image", "required")}


LOCKED = """
defaults: {backoffLimit: 3, compute: {gpuPortionRequest: 0.5}}
rules: {backoffLimit: {canEdit: false}, compute: {gpuPortionRequest: {canEdit: false}}}
"""


def test_what_nobody_may_edit() -> None:
    admitted(spec(), parse(LOCKED))
    admitted(spec(backoff_limit=3), parse(LOCKED))
    assert refused(spec(backoff_limit=4), LOCKED) == {("backoffLimit", "canEdit"): ("4", "3, as the policy sets it")}
    assert set(refused(spec(), LOCKED, spec(backoff_limit=5))) == {("backoffLimit", "canEdit")}
    assert refused(spec(gpu_memory_request="4G"), LOCKED) == {
        ("compute.gpuPortionRequest", "canEdit"): ("", "0.5, as the policy sets it")
    }
    gang = spec(3, framework=1, workers=1)
    gang.master_spec.gpu_portion_request = 1.0
    assert set(refused(gang, LOCKED)) == {("masterSpec.compute.gpuPortionRequest", "canEdit")}
    assert refused(spec(1, preemptible=True), "rules: {preemptible: {canEdit: false}}") == {
        ("preemptible", "canEdit"): ("true", "nothing")
    }


def test_a_rule_holds_whatever_the_channel_calls_it() -> None:
    text = "rules: {security.uidGidSource: {options: [fromTheImage]}, priorityClass: {canEdit: false}}"
    assert refused(spec(run_as_user=True), text) == {
        ("security.uidGidSource", "options"): ("fromIdpToken", "fromTheImage")
    }
    assert refused(spec(1, preemptible=True), text) == {
        ("priorityClass", "canEdit"): ("interactive-preemptible", "nothing")
    }
    admitted(spec(run_as_user=False), parse(text))


def test_warnings() -> None:
    assert admitted(spec(terminate_after_preemption=True, priority_class="build")).warnings
    assert admitted(spec(4, min_scale=0, max_scale=1)).warnings
    assert not admitted(spec(4, min_scale=2)).warnings


@pytest.mark.parametrize("remembered", [1, 10])
def test_the_bench_remembers_equal_questions_whatever_their_name(remembered: int) -> None:
    bench = Bench(parse("defaults: {backoffLimit: 1}"), remembered=remembered)
    first, digest = bench.judge(spec(name="a"), None, Context())
    again, same = bench.judge(spec(name="b"), None, Context())
    assert again is first
    assert same == digest
    assert isinstance(first, Admitted)
    assert not first.effective.HasField("name")
    there, elsewhere = bench.judge(spec(name="a"), None, Context(cluster="east"))
    assert isinstance(there, Admitted)
    assert there.clusters == ("east",)
    assert elsewhere != digest
    bench.judge(spec(name="a"), None, Context())
    other, another = bench.judge(spec(name="a"), spec(), Context(("p",)))
    assert other is not first
    assert another != digest
    assert (bench.judge(spec(name="a"), None, Context())[0] is first) == (remembered > 1)
    bench.replace(parse("defaults: {backoffLimit: 2}"))
    changed, third = bench.judge(spec(name="a"), None, Context())
    assert isinstance(changed, Admitted)
    assert changed.effective.backoff_limit == 2
    assert third != digest
    assert bench.policy.name == "default"

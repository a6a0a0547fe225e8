"""The verdict: defaults laid under, every rule at once with its sentence, and what the scheduler is told."""

from __future__ import annotations

from typing import Any

import pytest

from muster_language import LayerName, Merged, WorkloadSpec
from muster_policy_engine.judging import leaving_out
from muster_policy_engine.judging.judge import MOST_ISSUES, Admitted, Context, Rejected, judge
from muster_policy_engine.judging.layering import Submission, layered
from tests.support.policy_engine import RESEARCH, TENANT, VISION, admitted, issues, refused, spec, together

CAN_EDIT = "the administrator prohibited changing the value of this field"
REQUIRED = ("", "a value", "a value is required")


def test_without_a_policy_the_language_alone_decides() -> None:
    verdict = admitted(spec(gpu_portion_request=0.5))
    assert verdict.effective.backoff_limit == 6
    assert [(each.role, each.gpu_charge) for each in verdict.requests] == [("worker", 3500)]
    assert (verdict.node_pools, verdict.preemptible, verdict.priority) == (("default",), True, 50)
    assert ("backoffLimit", LayerName.LANGUAGE) in verdict.sources
    assert ("compute.gpuPortionRequest", LayerName.WORKLOAD) in verdict.sources


def test_layers_in_their_order() -> None:
    base, own = spec(command="base", backoff_limit=2, memory="2Gi"), spec(args="own")
    verdict = admitted(
        own,
        "defaults: {backoffLimit: 1, args: a, image: a, compute: {cpuCoreRequest: '1', cpuMemoryRequest: 1Gi}}",
        (RESEARCH, "defaults: {image: department, workingDir: /department}"),
        (VISION, "defaults: {workingDir: /project}"),
        base=base,
    )
    effective = verdict.effective
    assert (effective.command, effective.backoff_limit, effective.memory, effective.cpu) == ("true", 2, "2Gi", "1")
    assert (effective.args, effective.image, effective.working_dir) == ("own", "department", "/project")
    sources = dict(verdict.sources)
    assert sources["image"] == LayerName.DEPARTMENT
    assert sources["workingDir"] == LayerName.PROJECT
    assert sources["backoffLimit"] == LayerName.TEMPLATE


def test_pools_of_the_workload_else_of_the_project() -> None:
    named = spec()
    named.node_pools.values.append("h100")
    context = Context(("a", "b"))
    assert admitted(named, context=context).node_pools == ("h100",)
    assert admitted(spec(), context=context).node_pools == ("a", "b")
    assert admitted(spec(), "defaults: {nodePools: [x]}", context=context).node_pools == ("x",)


CLUSTERS = "defaults: {clusters: [south, north]}"


def test_clusters_of_the_workload_or_the_one_that_was_asked_for() -> None:
    named = spec()
    named.clusters.values.extend(["west", "east"])
    east, north = Context(cluster="east"), Context(cluster="north")
    assert admitted(spec()).clusters == ()
    assert admitted(named).clusters == ("east", "west")
    assert admitted(spec(), context=east).clusters == admitted(named, context=east).clusters == ("east",)
    assert admitted(spec(), CLUSTERS).clusters == ("north", "south")
    assert admitted(named, CLUSTERS).clusters == ("east", "west")
    assert admitted(spec(), CLUSTERS, context=north).clusters == ("north",)


def test_a_cluster_outside_of_those_that_a_default_allows_is_refused() -> None:
    (issue,) = issues(spec(), CLUSTERS, context=Context(cluster="east"))
    assert (issue.path, issue.rule, issue.given, issue.policy) == ("clusters", "language", "east", None)
    assert issue.details == (
        "cluster east was asked for, but the workload may run in south, north only: "
        "ask for one of these or for none, or add east to clusters"
    )
    own = spec()
    own.preferred_clusters.values.extend(["north", "west"])
    assert [each.path for each in issues(own, CLUSTERS)] == ["preferredClusters"]


def test_what_the_language_has_against_it() -> None:
    bare = spec(3)
    bare.ClearField("framework")
    bare.ClearField("workers")
    assert {each.path for each in issues(bare)} == {"distributedFramework", "numWorkers"}
    assert [(each.path, each.rule) for each in issues(WorkloadSpec())] == [("kind", "language")]


RULES = """
rules:
  compute: {gpuPortionRequest: {min: 0.25, max: 0.75, step: 0.25}}
  compute.cpuMemoryRequest: {max: 4Gi}
  compute.cpuCoreRequest: {min: 1}
  image: {required: true}
  imagePullPolicy: {options: [Always, Never]}
  nodeType: {options: [a, b]}
  backoffLimit: {step: 2}
"""


def test_every_rule_speaks_at_once() -> None:
    own = spec(gpu_portion_request=0.8, memory="5Gi", cpu="500m", image_pull_policy=2, node_type="c", backoff_limit=3)
    found = refused(own, RULES)
    step = "0.25 plus a multiple of 0.25"
    assert found == {
        ("compute.gpuPortionRequest", "max", ""): ("0.8", "at most 0.75", "value must be no greater than 0.75"),
        ("compute.gpuPortionRequest", "step", ""): ("0.8", step, f"value must be {step}"),
        ("compute.cpuMemoryRequest", "max", ""): ("5Gi", "at most 4Gi", "value must be no greater than 4Gi"),
        ("compute.cpuCoreRequest", "min", ""): ("500m", "at least 1", "value must be no less than 1"),
        ("image", "required", ""): REQUIRED,
        ("imagePullPolicy", "options", ""): ("IfNotPresent", "Always, Never", "value must be one of: Always, Never"),
        ("nodeType", "options", ""): ("c", "a, b", "value must be one of: a, b"),
        ("backoffLimit", "step", ""): ("3", "a multiple of 2", "value must be a multiple of 2"),
    }
    assert list(found) == sorted(found)
    admitted(spec(gpu_portion_request=0.5, memory="4096Mi", cpu="1", image="x", image_pull_policy=3), RULES)


def test_step_counts_from_min() -> None:
    rule = "rules: {compute: {gpuPortionRequest: {min: 0.2, max: 0.3, step: 0.05}}}"
    for portion in (0.2, 0.25, 0.3):
        admitted(spec(gpu_portion_request=portion), rule)
    for portion in (0.21, 0.29):
        assert [each.rule for each in issues(spec(gpu_portion_request=portion), rule)] == ["step"]
    worked_example = "rules: {backoffLimit: {min: 3, step: 2}}"
    for limit in (3, 5, 7):
        admitted(spec(backoff_limit=limit), worked_example)
    assert (
        refused(spec(backoff_limit=4), worked_example)["backoffLimit", "step", ""][2]
        == "value must be 3 plus a multiple of 2"
    )


def test_options_are_listed_up_to_twenty() -> None:
    rule = f"rules: {{image: {{options: [{', '.join(f'i{number}' for number in range(32))}]}}}}"
    (issue,) = issues(spec(image="x"), rule)
    assert issue.details == f"value must be one of: {', '.join(f'i{n}' for n in range(20))}, and 12 more"


@pytest.mark.parametrize(("given", "passes"), [("/a/b", True), ("/a//b/", True), ("//a/b", True), ("/a", False)])
def test_options_of_folders_compare_normal_paths(given: str, passes: bool) -> None:
    own = spec()
    own.pvcs.add(label="p", size="1Gi", path=given)
    verdict = judge(own, None, together("rules: {storage.pvc.attributes.path: {options: [/a/b/]}}"), Context())
    assert isinstance(verdict, Admitted if passes else Rejected)


@pytest.mark.parametrize("given", [spec(), spec(image="")])
def test_required_asks_for_a_value(given: WorkloadSpec) -> None:
    assert refused(given, "rules: {image: {required: true}}")["image", "required", ""] == REQUIRED
    admitted(spec(image="x"), "rules: {image: {required: true}}")
    admitted(spec(), "defaults: {image: x}\nrules: {image: {required: true}}")
    admitted(spec(), "rules: {image: {required: true}}", base=spec(image="x"))


def test_required_is_not_met_by_what_the_language_gives_to_all() -> None:
    assert set(refused(spec(), "rules: {backoffLimit: {required: true}}")) == {("backoffLimit", "required", "")}
    admitted(spec(backoff_limit=6), "rules: {backoffLimit: {required: true}}")
    admitted(spec(gpu_portion_request=0.5), "rules: {compute.gpuRequestType: {required: true}}")
    scaling = "rules: {autoscaling.minReplicas: {required: true}}"
    assert set(refused(spec(4), scaling)) == {("autoscaling.minReplicas", "required", "")}
    pools = spec()
    pools.node_pools.SetInParent()
    assert set(refused(pools, "rules: {nodePools: {required: true}}")) == {("nodePools", "required", "")}


LOCKED = """
defaults: {backoffLimit: 3, compute: {gpuPortionRequest: 0.5, cpuMemoryRequest: 1Gi}}
rules:
  backoffLimit: {canEdit: false}
  compute: {gpuPortionRequest: {canEdit: false}, cpuMemoryRequest: {canEdit: false}}
"""


def test_what_users_may_not_edit() -> None:
    admitted(spec(), LOCKED)
    admitted(spec(backoff_limit=3, memory="1024Mi", gpu_portion_request=0.5), LOCKED)
    assert refused(spec(backoff_limit=4), LOCKED) == {("backoffLimit", "canEdit", ""): ("4", "3", CAN_EDIT)}
    assert refused(spec(memory="1G"), LOCKED) == {("compute.cpuMemoryRequest", "canEdit", ""): ("1G", "1Gi", CAN_EDIT)}
    assert set(refused(spec(), LOCKED, base=spec(backoff_limit=5))) == {("backoffLimit", "canEdit", "")}
    assert refused(spec(gpu_memory_request="4G"), LOCKED) == {
        ("compute.gpuPortionRequest", "canEdit", ""): ("", "0.5", CAN_EDIT)
    }


def test_the_worked_example_of_can_edit() -> None:
    policy = "defaults: {security: {runAsUid: 500, uidGidSource: custom}}\nrules: {security.runAsUid: {canEdit: false}}"
    assert refused(spec(run_as_uid=501), policy) == {("security.runAsUid", "canEdit", ""): ("501", "500", CAN_EDIT)}
    assert admitted(spec(run_as_uid=500), policy).effective.run_as_uid == 500


def test_without_a_default_what_is_there_anyway_is_no_edit() -> None:
    rule = "rules: {backoffLimit: {canEdit: false}}"
    admitted(spec(backoff_limit=6), rule)
    assert refused(spec(backoff_limit=4), rule) == {("backoffLimit", "canEdit", ""): ("4", "6", CAN_EDIT)}
    types = "rules: {compute.gpuRequestType: {canEdit: false}}"
    admitted(spec(gpu_portion_request=0.5, gpu_request_type=1), types)
    admitted(spec(gpu_portion_request=0.5), types)


def test_a_default_that_a_lower_policy_took_out_is_no_edit() -> None:
    """The project rules a field whose default its department has replaced by another way to ask for GPU."""
    levels = (
        (TENANT, "defaults: {compute.gpuPortionRequest: 0.5}"),
        (RESEARCH, "defaults: {compute.gpuDevicesRequest: 1}"),
        (VISION, "rules: {compute.gpuPortionRequest: {canEdit: false}}"),
    )
    admitted(spec(), *levels)
    assert set(refused(spec(gpu_portion_request=0.5), *levels)) == {("compute.gpuPortionRequest", "canEdit", "")}


def test_a_value_that_was_taken_away_and_given_again_is_no_edit() -> None:
    admitted(spec(gpu_portion_request=0.5), LOCKED, base=spec(gpu_devices_request=2))


def test_a_rule_holds_whatever_the_channel_calls_it() -> None:
    text = "rules: {security.uidGidSource: {options: [fromTheImage]}, priorityClass: {canEdit: false}}"
    assert refused(spec(run_as_user=True), text)["security.uidGidSource", "options", ""][0] == "fromIdpToken"
    assert refused(spec(1, preemptible=True), text) == {
        ("priorityClass", "canEdit", ""): ("interactive-preemptible", "nothing", CAN_EDIT)
    }
    both = spec(1, preemptible=True, priority_class="interactive-preemptible")
    assert set(refused(both, text)) == {("priorityClass", "canEdit", "")}
    admitted(spec(run_as_user=False), text)


BLOCKED = "rules: {image: {blocked: true}, backoffLimit: {blocked: true}, compute.gpuPortionRequest: {blocked: true}}"


def test_what_is_blocked() -> None:
    admitted(spec(), BLOCKED)
    admitted(spec(backoff_limit=6), BLOCKED)
    details = "the administrator prohibited the use of this field"
    assert refused(spec(image="x", gpu_portion_request=0.5, backoff_limit=1), BLOCKED) == {
        ("image", "blocked", ""): ("x", "nothing", details),
        ("backoffLimit", "blocked", ""): ("1", "nothing", details),
        ("compute.gpuPortionRequest", "blocked", ""): ("0.5", "nothing", details),
    }
    assert set(refused(spec(), BLOCKED, base=spec(image="x"))) == {("image", "blocked", "")}


def test_rules_of_all_levels_speak_each_for_its_policy() -> None:
    found = issues(
        spec(backoff_limit=9), "rules: {backoffLimit: {max: 5}}", (VISION, "rules: {backoffLimit: {max: 3}}")
    )
    assert [(each.allowed, each.policy.scope) for each in found if each.policy is not None] == [
        ("at most 3", VISION),
        ("at most 5", TENANT),
    ]


def test_rules_over_the_choice_of_clusters() -> None:
    own = spec(data_label="fluid.io/s-default-other")
    own.clusters.values.append("east")
    rules = "rules: {clusters: {canEdit: false}, preferredClusters: {required: true}, dataLabel: {options: [a]}}"
    assert set(refused(own, rules)) == {
        ("clusters", "canEdit", ""),
        ("preferredClusters", "required", ""),
        ("dataLabel", "options", ""),
    }


def test_a_value_that_is_no_amount_is_refused_by_the_language_alone() -> None:
    found = issues(
        spec(cpu="many", gpu_portion_request=1.5),
        "rules: {compute: {cpuCoreRequest: {max: 1}, gpuPortionRequest: {max: 1}}}",
    )
    assert {each.rule for each in found} == {"language"}


def test_very_many_issues_are_counted() -> None:
    own = spec()
    for number in range(250):
        own.ports.add(label=f"p{number}", container=number + 1)
    found = issues(own, "rules: {ports.instances: {canAdd: false}}")
    assert len(found) == MOST_ISSUES + 1
    assert (found[-1].path, found[-1].details) == ("spec", "and 50 more issues")


def test_a_thousand_items_are_laid_together_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    own = spec()
    for number in range(1_000):
        own.ports.add(label=f"p{number}", container=number + 1, external=number + 1)
    policy = """
rules:
  ports:
    instances: {canAdd: false, locked: [p1, p2]}
    attributes: {container: {canEdit: false}, external: {blocked: true}}
"""
    counted: list[Submission] = []

    def counting(submission: Submission) -> Merged:
        counted.append(submission)
        return layered(submission)

    monkeypatch.setattr(leaving_out, "layered", counting)
    assert issues(own, policy)[-1].details == "and 2802 more issues"
    assert len(counted) == 5  # whatever the number of items is


def test_no_argument_is_changed() -> None:
    own, base, composed = spec(backoff_limit=4), spec(image="x"), together(LOCKED)
    before = [each.SerializeToString(deterministic=True) for each in (own, base, composed.baseline)]
    judge(own, base, composed, Context())
    assert [each.SerializeToString(deterministic=True) for each in (own, base, composed.baseline)] == before


@pytest.mark.parametrize(
    ("own", "warned"),
    [
        (spec(terminate_after_preemption=True, priority_class="build"), True),
        (spec(4, min_scale=0, max_scale=1), True),
        (spec(4, min_scale=2), False),
    ],
)
def test_warnings(own: Any, warned: bool) -> None:
    assert bool(admitted(own).warnings) is warned

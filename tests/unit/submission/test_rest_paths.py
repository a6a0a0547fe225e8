"""What a REST answer says is wrong stands in the body under that path, in the words of 2.18."""

from __future__ import annotations

import json

import pytest

from muster_chassis.errors import InvalidArgument, Violation
from muster_submission.rest.answers import refused
from muster_submission.rest.paths import rest_path


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("quotas.0.gpu_limit", "resources.0.gpu.limit"),
        ("quotas.12.node_pool", "resources.12.nodePool"),
        ("quotas.3", "resources.3"),
        ("quotas", "resources"),
        ("namespace", "requestedNamespace"),
        ("label_key", "labelKey"),
        ("rules.training_time_limit_seconds", "schedulingRules.trainingJobTimeLimitSeconds"),
        ("rules.interactive_idle_limit_seconds", "schedulingRules.interactiveJobMaxIdleDurationSeconds"),
        ("department", "parentId"),
        ("default_node_pools.1", "defaultNodePools.1"),
        ("node_types.training.0", "nodeTypes.training.0"),
        ("spec.namespace", "spec.namespace"),
        ("metadata.namespace", "metadata.namespace"),
        ("name", "name"),
        ("", ""),
    ],
)
def test_paths(ours: str, theirs: str) -> None:
    assert rest_path(ours) == theirs


def test_an_answer_says_them_in_its_sentence_too() -> None:
    wrong = Violation("quotas.0.gpu_limit", "2 GPUs is too low")
    error = InvalidArgument("the project: quotas.0.gpu_limit: 2 GPUs is too low", violations=[wrong])
    body = json.loads(bytes(refused(error).body))
    assert body["violations"] == [{"field": "resources.0.gpu.limit", "message": "2 GPUs is too low"}]
    assert body["details"] == "the project: resources.0.gpu.limit: 2 GPUs is too low"

"""What a back end does with the fields of the language: a decision for each, and words for what has no effect."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster.workload.v1 import workload_pb2
from muster_cluster_agent.adapters.local.support import LOCAL

BECAUSE = "the local back end runs commands on the machine itself: "


def test_a_field_in_no_set_or_in_two_is_refused() -> None:
    with pytest.raises(ValueError, match=r"not in exactly one set of fields: image, tty"):
        replace(LOCAL, ignored=LOCAL.ignored - {"image"}, honoured=LOCAL.honoured | {"tty"})
    with pytest.raises(ValueError, match=r"not in exactly one set of fields: imagine"):
        replace(LOCAL, refused=LOCAL.refused | {"imagine"})


def test_the_words_are_those_of_documents() -> None:
    assert {"image", "pvcs", "gpuLimit", "seccompProfileType", "metric", "isPrivateServiceUrl"} <= set(
        LOCAL.ignored_words
    )
    fields = ("environment=SECRET", "gitSync", "jupyter", "notebookToken=SECRET", "s3", "tensorboard")
    assert fields == LOCAL.refused_words


def test_what_a_spec_says_without_effect() -> None:
    assert not LOCAL.without_effect(workload_pb2.WorkloadSpec(command="y"))
    spec = workload_pb2.WorkloadSpec(image="x", command="y", tty=False)
    assert LOCAL.without_effect(spec) == f"{BECAUSE}image, tty had no effect"
    spec.master_spec.MergeFrom(workload_pb2.WorkloadSpec(image="y", large_shm=True))
    assert LOCAL.without_effect(spec) == f"{BECAUSE}image, tty, masterSpec largeShm had no effect"


def test_what_would_follow_the_load_is_said_to_have_no_effect() -> None:
    spec = workload_pb2.WorkloadSpec(
        min_scale=1,
        max_scale=3,
        metric=workload_pb2.SCALE_METRIC_CONCURRENCY,
        target=80,
        autoscaler_class="kpa",
        metric_name="rps",
        scale_to_zero_retention_seconds=0,
        is_private_service_url=True,
    )
    words = LOCAL.without_effect(spec).removeprefix(BECAUSE).removesuffix(" had no effect").split(", ")
    said = {"metric", "target", "class", "metricName", "scaleToZeroRetentionSeconds", "isPrivateServiceUrl"}
    assert set(words) == said

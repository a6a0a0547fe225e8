"""What the local back end looks at of the language: a decision for each field, and words for what it leaves out."""

from __future__ import annotations

from muster.workload.v1 import workload_pb2
from muster_cluster_agent.adapters.local import support

LISTS = (support.HONOURED, support.NOT_ITS_MATTER, support.REFUSED, support.IGNORED)


def test_every_field_of_the_language_is_in_one_list() -> None:
    fields = [field.name for field in workload_pb2.WorkloadSpec.DESCRIPTOR.fields]
    assert sorted(name for names in LISTS for name in names) == sorted(fields)


def test_the_words_are_those_of_documents() -> None:
    assert {"image", "pvcs", "gpuLimit", "seccompProfileType", "metric", "isPrivateServiceUrl"} <= set(
        support.IGNORED_FIELDS
    )
    frameworks = ("jobType=JAX", "jobType=TF", "jobType=XGBoost")
    fields = ("environment=SECRET", "gitSync", *frameworks, "jupyter")
    assert (*fields, "notebookToken=SECRET", "s3", "tensorboard") == support.REFUSED_FIELDS


def test_what_a_spec_says_without_effect() -> None:
    spec = workload_pb2.WorkloadSpec(image="x", command="y", tty=False)
    own = ("image", "tty")
    assert support.ignored_by(spec) == own
    spec.master_spec.MergeFrom(workload_pb2.WorkloadSpec(image="y", large_shm=True))
    assert support.ignored_by(spec) == (*own, "masterSpec largeShm")


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
    said = {"metric", "target", "class", "metricName", "scaleToZeroRetentionSeconds", "isPrivateServiceUrl"}
    assert set(support.ignored_by(spec)) == said

"""What a spec asks of a cluster, in the words that a cluster's list of refused fields has."""

from __future__ import annotations

from muster.workload.v1 import workload_pb2
from muster_scheduler.stream.intentions import fields_of


def test_fields_and_their_words() -> None:
    spec = workload_pb2.WorkloadSpec(framework=workload_pb2.FRAMEWORK_TF, image="x", tty=False)
    spec.ports.add(container=80)
    assert fields_of(spec) == {"jobType", "jobType=TF", "image", "tty", "ports"}


def test_a_word_that_this_build_does_not_know_is_the_field_alone() -> None:
    spec = workload_pb2.WorkloadSpec.FromString(
        workload_pb2.WorkloadSpec(image="x").SerializeToString() + b"\x80\x05\x63"
    )
    assert fields_of(spec) == {"jobType", "image"}


def test_a_value_that_names_a_secret_is_a_word_of_its_field() -> None:
    spec = workload_pb2.WorkloadSpec(notebook_token="SECRET:store,token")
    spec.environment.add(label="TOKEN", value="SECRET:store,token")
    words = {"environment", "environment=SECRET", "notebookToken", "notebookToken=SECRET"}
    assert fields_of(spec) == words
    gang = workload_pb2.WorkloadSpec(master_spec=spec)
    assert fields_of(gang) == {"masterSpec", *words}
    plain = workload_pb2.WorkloadSpec(notebook_token="SECRET")
    plain.environment.add(label="TOKEN", value="SECRET:store,token", deleted=True)
    assert fields_of(plain) == {"environment", "notebookToken"}

"""Whatever a spec says, written as YAML and read again it says the same; and no text at all makes the reader raise."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster_language import WorkloadSpec, catalogue, check_layer, overlay, read, write
from tests.support.specs import NAME, TEXT, specs

API = "batch.tensorstack.dev/v1beta1"
AMOUNTS = st.sampled_from(["1", 2, 0.5, "250m"])
POLICIES = st.sampled_from(["Always", "OnFailure", "Never"])


@st.composite
def containers(draw: st.DrawFn, name: str) -> dict[str, Any]:
    amounts = draw(st.dictionaries(st.sampled_from(["cpu", "example.org/nic"]), st.sampled_from(["1", 2])))
    parts = {
        "image": TEXT,
        "workingDir": st.just("/work"),
        "env": st.lists(st.fixed_dictionaries({"name": NAME, "value": TEXT}), unique_by=lambda each: each["name"]),
        "ports": st.just([{"containerPort": 8000, "name": "http"}]),
        "resources": st.just({"requests": amounts, "limits": amounts | {"nvidia.com/gpu": draw(st.integers(0, 8))}}),
        "securityContext": st.sampled_from([{"runAsUser": 7}, {"capabilities": {"add": ["KILL"], "drop": ["ALL"]}}]),
        "tty": st.booleans(),
    }
    return {"name": name, **draw(st.fixed_dictionaries({}, optional=parts))}


@st.composite
def replicas(draw: st.DrawFn, kind: str) -> dict[str, Any]:
    spec = {"containers": [draw(containers(kind))], "hostIPC": draw(st.booleans())}
    labels = draw(st.dictionaries(NAME, st.sampled_from(["1", "yes", "v1.10"]), max_size=2))
    policy = st.one_of(POLICIES, st.fixed_dictionaries({"policy": POLICIES, "limit": st.integers(0, 9)}))
    optional = {"restartPolicy": policy, "replicas": st.just(1) if kind == "launcher" else st.integers(1, 9)}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {"type": kind, "template": template, **draw(st.fixed_dictionaries({}, optional=optional))}


@st.composite
def colossal_jobs(draw: st.DrawFn) -> dict[str, Any]:
    script = [f"{draw(NAME)}.py", *draw(st.lists(TEXT, max_size=3))]
    config = {"script": script, **draw(st.fixed_dictionaries({}, optional={"procPerWorker": st.integers(1, 8)}))}
    scheduler = {"t9kScheduler": {"queue": draw(NAME), "priority": draw(st.integers(0, 100))}}
    modes = st.sampled_from([{}, {"pause": {"enabled": True}}, {"debug": {"enabled": True}}])
    types = [draw(replicas("worker")), *([draw(replicas("launcher"))] if draw(st.booleans()) else [])]
    optional: dict[str, st.SearchStrategy[Any]] = {
        "scheduler": st.just(scheduler),
        "runPolicy": st.just({"cleanUpWorkers": True}),
    }
    optional["runMode"] = modes
    spec = {"torchConfig": config, "replicaSpecs": types, **draw(st.fixed_dictionaries({}, optional=optional))}
    return {"apiVersion": API, "kind": "ColossalAIJob", "metadata": {"name": draw(NAME)}, "spec": spec}


@given(specs())
def test_a_spec_survives_yaml(spec: WorkloadSpec) -> None:
    assert check_layer(spec) == []
    [document] = read(write(spec, namespace="runai-a"))
    assert document.violations == []
    assert document.spec == spec
    assert document.namespace == "runai-a"


@given(colossal_jobs())
def test_a_colossal_job_survives_yaml(job: dict[str, Any]) -> None:
    [document] = read(yaml.dump(job, Dumper=yaml.CSafeDumper, allow_unicode=True))
    assert document.violations == []
    [again] = read(write(document.spec, metadata_name=document.object_name))
    assert again.violations == []
    assert again.spec == document.spec


@given(specs(), specs())
def test_merging_again_changes_nothing(low: WorkloadSpec, high: WorkloadSpec) -> None:
    once = overlay(low, high)
    assert overlay(once) == once
    assert overlay(once, high) == once


@given(st.text(st.characters(), max_size=200))
def test_no_text_makes_the_reader_raise(text: str) -> None:
    for document in read(text):
        assert document.violations


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner)
)


@given(TREES)
def test_no_tree_makes_the_reader_raise(tree: Any) -> None:
    body = {"apiVersion": "run.ai/v2alpha1", "kind": "DistributedWorkload", "metadata": tree, "masterSpec": tree}
    fields: dict[str, Any] = {row.yaml: {"value": tree, "items": tree} for row in catalogue().rows}
    fields |= dict.fromkeys(("mpiJob", "pyTorchJob", "runPolicy"), tree)
    text = yaml.dump({**body, "spec": fields}, Dumper=yaml.CSafeDumper, allow_unicode=True)
    assert read(text)[0].violations


@given(TREES, colossal_jobs(), st.data())
def test_no_tree_within_a_colossal_job_makes_the_reader_raise(tree: Any, job: dict[str, Any], data: Any) -> None:
    replica = job["spec"]["replicaSpecs"][0]
    container = replica["template"]["spec"]["containers"][0]
    places = (
        job["spec"],
        job["spec"]["torchConfig"],
        replica,
        replica["template"],
        replica["template"]["spec"],
        container,
    )
    place = data.draw(st.sampled_from(places))
    place[data.draw(st.sampled_from(sorted(place)))] = tree
    place["resources"] = tree
    (first, *_) = read(yaml.dump(job, Dumper=yaml.CSafeDumper, allow_unicode=True))
    assert first.source == "<file>"

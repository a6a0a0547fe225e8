"""`muster submit --dry-run`: the effective spec with the source of each value, nothing made, and a text that reads."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from google.rpc import code_pb2
from hypothesis import example, given
from hypothesis import strategies as st

import muster_language as language
from muster.options.v1 import options_pb2
from muster.policy.v1.policy_pb2 import PolicyRef, Source
from muster.workload.v1 import workload_pb2
from muster_client.cli.render.sources import commented
from muster_language.documents.loading import load
from muster_language.documents.nodes import Mapping, Node, Scalar
from tests.support.hostile_text import hostile_texts
from tests.support.plane_world import Failure, World
from tests.unit.client.conftest import Command

DOCUMENT = """apiVersion: run.ai/v2alpha1
kind: TrainingWorkload
metadata: {name: bert, namespace: runai-vision}
spec:
  image: {value: python}
  command: {value: python train.py}
  gpuDevices: {value: 2}
  environment: {items: {MODE: {value: fast}}}
"""
GANG = """apiVersion: run.ai/v2alpha1
kind: DistributedWorkload
metadata: {name: gang, namespace: runai-vision}
spec:
  image: {value: python}
  command: {value: python train.py}
  jobType: {value: PyTorch}
  numWorkers: {value: 2}
masterSpec:
  cpu: {value: "2"}
"""
TENANT = """kind: Policy
name: house
workload: training
scope: tenant
policy:
  defaults:
    imagePullPolicy: IfNotPresent
    ports: {instances: [{name: metrics, container: 9100}], attributes: {serviceType: ClusterIP}}
  rules: {compute: {gpuDevicesRequest: {max: 8}}}
"""
RESEARCH = """kind: Policy
name: research-trainings
workload: training
scope: {department: research}
policy:
  defaults:
    compute: {cpuCoreRequest: 1}
    environmentVariables: {instances: [{name: HF_HOME, value: /models}]}
  rules: {environmentVariables: {instances: {locked: [HF_HOME]}}}
"""


@pytest.fixture
def policies(muster: Command, tmp_path: Path) -> None:
    (tmp_path / "house.yaml").write_text(f"{TENANT}---\n{RESEARCH}")
    assert muster("policies", "apply", "-f", str(tmp_path / "house.yaml")).code == 0


def written(tmp_path: Path, *texts: str) -> str:
    path = tmp_path / "work.yaml"
    path.write_text("---\n".join(texts))
    return str(path)


def comments(text: str) -> dict[str, str]:
    """The comments of a text, by the text before them without its indent."""
    lines = [line.partition("  # ") for line in text.splitlines()]
    return {before.strip(): after for before, found, after in lines if found}


def test_each_value_has_its_source_behind_it(policies: None, muster: Command, world: World, tmp_path: Path) -> None:
    ran = muster("submit", "-f", written(tmp_path, DOCUMENT), "--dry-run", "--cluster", "north")
    assert (ran.code, ran.err) == (0, "")
    assert comments(ran.out) == {
        "usage: Submit": "language",
        "value: true": "language",
        "value: IfNotPresent": "policy house v1, tenant",
        "value: /models": "policy research-trainings v1, department research",
        "metrics:": "policy house v1, tenant",
        "serviceType: ClusterIP": "policy house v1, tenant",
        "value: '1'": "policy research-trainings v1, department research",
        "value: portion": "derived",
        "value: false": "language",
        "value: 6": "language",
        "value: 2592000": "language",
        "value: 1": "language",
    }
    assert "    value: python train.py\n" in ran.out
    assert "      MODE:\n        value: fast\n" in ran.out
    (document,) = language.read(ran.out)
    assert not document.violations
    assert (document.namespace, document.object_name) == ("runai-vision", "bert")
    assert (document.spec.gpu_devices_request, document.spec.cpu) == (2, "1")


def test_nothing_is_made(policies: None, muster: Command, world: World, tmp_path: Path) -> None:
    assert muster("submit", "-f", written(tmp_path, DOCUMENT), "--dry-run", "--cluster", "north").code == 0
    assert not world.workloads
    assert {name for name, _ in world.calls} == {"ApplyPolicies", "JudgeWorkloads"}
    (asked,) = world.asked("JudgeWorkloads")
    assert (asked.drafts[0].cluster, asked.drafts[0].yaml.strip()) == ("north", DOCUMENT.strip())


def test_a_template_is_a_source_too(policies: None, muster: Command, world: World, tmp_path: Path) -> None:
    world.shelf.base = workload_pb2.WorkloadSpec(working_dir="/work", image="theirs")
    ran = muster("submit", "-f", written(tmp_path, DOCUMENT), "--dry-run", "-p", "ads")
    told = comments(ran.out)
    assert told["value: /work"] == "template"
    assert told["value: IfNotPresent"] == "policy house v1, tenant"
    assert "value: /models" not in told, "another department's policy"


def test_of_several_the_refused_ones_are_told_on_stderr(
    policies: None, muster: Command, world: World, tmp_path: Path
) -> None:
    big = DOCUMENT.replace("value: 2}", "value: 16}").replace("MODE", "HF_HOME").replace("bert", "big")
    path = written(tmp_path, DOCUMENT, big, DOCUMENT.replace("bert", "last"))
    ran = muster("submit", "-f", path, "--dry-run")
    assert ran.code == 1
    assert [each.object_name for each in language.read(ran.out)] == ["bert", "last"]
    locked = f"{path}:17:25: spec.environment.items.HF_HOME: the administrator prohibited modifying item 'HF_HOME'"
    assert ran.err.splitlines() == [
        "big in project vision would be refused:",
        f"  {path}:16:3: spec.gpuDevices: value must be no greater than 8 (policy house v1 of the tenant)",
        f"  {locked} (policy research-trainings v1 of the department)",
    ]


def test_json_is_an_object_a_document(policies: None, muster: Command, world: World, tmp_path: Path) -> None:
    big = DOCUMENT.replace("value: 2}", "value: 16}")
    path = written(tmp_path, DOCUMENT, big)
    ran = muster("submit", "-f", path, "--dry-run", "-o", "json")
    assert (ran.code, ran.err) == (1, "")
    assert ran.out == muster("submit", "-f", path, "--dry-run", "--json").out
    good, bad = json.loads(ran.out)
    members = {"name", "project", "admitted", "effective", "sources", "issues", "warnings", "revision"}
    assert set(good) == set(bad) == members
    assert (good["admitted"], good["effective"]["imagePullPolicy"], good["revision"]) == (True, "IfNotPresent", 1)
    by_path = {each["path"]: each for each in good["sources"]}
    assert by_path["environmentVariables.HF_HOME"] == {
        "path": "environmentVariables.HF_HOME",
        "layer": "policy of the department",
        "policy": "research-trainings",
        "version": 1,
        "scope": "department",
        "unit": "research",
    }
    assert by_path["image"]["layer"] == "workload"
    assert (bad["admitted"], bad["effective"]) == (False, None)
    (issue,) = bad["issues"]
    assert (issue["path"], issue["rule"], issue["given"], issue["policy"]) == (
        "compute.gpuDevicesRequest",
        "max",
        "16",
        "house",
    )


def test_warnings_are_remarks(muster: Command, tmp_path: Path) -> None:
    text = DOCUMENT.replace("  image:", "  tty: {value: true}\n  image:")
    ran = muster("submit", "-f", written(tmp_path, text), "--dry-run")
    assert ran.code == 0
    assert "muster: bert in project vision: tty needs stdin as well" in " ".join(ran.err.split())


def test_a_credential_is_never_shown(muster: Command, world: World, tmp_path: Path) -> None:
    text = DOCUMENT.replace("InteractiveWorkload", "").replace("TrainingWorkload", "InteractiveWorkload")
    text = text.replace("  image:", "  notebookToken: {value: hunter2}\n  jupyter: {value: true}\n  image:")
    path = written(tmp_path, text)
    for output in ("yaml", "json"):
        ran = muster("submit", "-f", path, "--dry-run", "-o", output)
        assert ran.code == 0
        assert "***" in ran.out
        assert "hunter2" not in ran.out + ran.err


@pytest.mark.parametrize("words", [["--wait"], ["--no-wait"], ["--timeout", "3"], ["--key", "k"]])
def test_options_that_have_no_use_with_it(muster: Command, world: World, tmp_path: Path, words: list[str]) -> None:
    ran = muster("submit", "-f", written(tmp_path, DOCUMENT), "--dry-run", *words)
    assert (ran.code, "--dry-run submits nothing" in ran.err) == (2, True)
    assert not world.calls


def test_an_output_without_a_dry_run_is_refused(muster: Command, world: World, tmp_path: Path) -> None:
    ran = muster("submit", "-f", written(tmp_path, DOCUMENT), "-o", "json")
    assert (ran.code, "-o json is for --dry-run" in ran.err) == (2, True)
    assert not world.calls


def test_the_document_that_is_refused_alone_is_named(muster: Command, world: World, tmp_path: Path) -> None:
    path = written(tmp_path, DOCUMENT, DOCUMENT)
    world.fail("JudgeWorkloads", Failure(code_pb2.NOT_FOUND, "template 'x' does not exist"), times=2)
    ran = muster("submit", "-f", path, "--dry-run")
    assert (ran.code, ran.err.splitlines()) == (
        3,
        [f"{path}:1:1: template 'x' does not exist", "1 error, nothing was asked"],
    )
    many = muster("submit", "-f", written(tmp_path, *[DOCUMENT] * 101), "--dry-run")
    assert (many.code, "101 documents" in many.err) == (2, True)


def test_what_a_master_has_from_its_workers_has_their_source(muster: Command, world: World, tmp_path: Path) -> None:
    policy = tmp_path / "p.yaml"
    policy.write_text(
        "kind: Policy\nname: gangs\nworkload: distributed\nscope: {project: vision}\npolicy:\n  defaults:\n"
        "    worker: {imagePullPolicy: Always}\n    master: {compute: {cpuMemoryRequest: 1Gi}}\n"
    )
    assert muster("policies", "apply", "-f", str(policy)).code == 0
    ran = muster("submit", "-f", written(tmp_path, GANG), "--dry-run")
    assert ran.code == 0, ran.err
    workers, _, master = ran.out.partition("\nmasterSpec:\n")
    assert "value: Always  # policy gangs v1, project vision" in workers
    assert "value: Always  # policy gangs v1, project vision" in master
    assert "value: 1Gi  # policy gangs v1, project vision" in master
    assert "1Gi" not in workers
    assert "    value: '2'\n" in master, "the user's own"


def sources_of(spec: workload_pb2.WorkloadSpec, layer: str = "template") -> list[Source]:
    """A source for every path that a merge of the spec gives."""
    merged = language.merge([language.Layer(language.LayerName.TEMPLATE, spec)])
    return [Source(path=path, layer=layer) for path in merged.provenance]


def texts_of(node: Node | None) -> object:
    """A tree without its places."""
    match node:
        case Mapping():
            return {key.text: texts_of(value) for key, value in node.entries}
        case Scalar():
            return node.text
        case None:
            return None
        case _:
            return [texts_of(each) for each in node.items]


@given(hostile_texts | st.text(st.characters(exclude_categories=["Cs"]), max_size=300))
@example("a: b # c")
@example("# no comment")
@example("|\n  x")
@example("a\n\n b\n")
@example("x " * 90)
@example("- a")
@example("")
@example("l" * 200)
def test_a_commented_text_reads_as_the_text_without_comments(given_text: str) -> None:
    text = given_text.replace("\0", "")  # no document may hold it
    spec = workload_pb2.WorkloadSpec(
        kind=options_pb2.KIND_TRAINING, image="i", command=text, args=f"{text} {text}", preemptible=True
    )
    spec.environment.add(label=text or "EMPTY", value=text)
    spec.environment.add(label="LAST", value="x")
    spec.node_pools.values.extend(["a", text])
    spec.clusters.values.append("only")
    spec.ports.add(label="web", container=80)
    spec.ports.add(label="none")
    spec.capabilities.values.append("SYS_TIME")
    plain = language.write(spec, namespace="runai-a", metadata_name="n")
    shown = commented(plain, spec, sources_of(spec, f"x # y\n{text}: z"), {})
    assert [texts_of(each.root) for each in load(shown)] == [texts_of(each.root) for each in load(plain)]
    assert not any(each.violations for each in load(shown))
    assert shown.count("  # x # y") >= 10
    assert re.sub(r"  # x # y.*", "", shown) == plain


def test_no_devices_at_all_have_their_source() -> None:
    spec = workload_pb2.WorkloadSpec(kind=options_pb2.KIND_TRAINING, gpu_devices_request=0)
    plain = language.write(spec)
    shown = commented(plain, spec, sources_of(spec), {})
    assert "value: 0  # template" in shown


def test_the_level_without_a_policy_of_its_own_is_still_said() -> None:
    spec = workload_pb2.WorkloadSpec(kind=options_pb2.KIND_TRAINING, image="x")
    source = Source(path="image", layer="policy of the project", policy="p", version=3)
    refs = {"project": PolicyRef(name="p", scope="project", unit="vision")}
    plain = language.write(spec)
    assert "value: x  # policy p v3, project vision" in commented(plain, spec, [source], refs)
    assert "value: x  # policy p v3, project\n" in commented(plain, spec, [source], {})
    assert commented(plain, spec, [Source(path="image", layer="workload")], {}) == plain
    assert commented("", spec, [source], refs) == ""


def test_what_the_language_has_against_it_is_of_no_policy(muster: Command, tmp_path: Path) -> None:
    path = written(tmp_path, GANG.replace("  jobType: {value: PyTorch}\n", ""))
    ran = muster("submit", "-f", path, "--dry-run")
    assert (ran.code, ran.out) == (1, "")
    first, issue = ran.err.splitlines()
    assert first == "gang in project vision would be refused:"
    assert issue.startswith(f"  {path}:1:1: spec.jobType: ")
    assert "(policy" not in issue

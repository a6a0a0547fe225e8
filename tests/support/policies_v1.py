"""v1 policies and workloads from short texts, and the verdicts of one about the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster_language import WorkloadSpec, read
from muster_policy_engine.composing import compose
from muster_policy_engine.documents.document import PolicyDocument, read_policies
from muster_policy_engine.judging.judge import Context, Rejected, Verdict, judge
from muster_policy_engine.policy import Policy
from muster_policy_engine.yaml_text import yaml_text

PROJECTS: Mapping[str, str] = {"runai-team-a": "team-a", "science": "lab"}


def document(spec: str, kind: str = "Training", namespace: str = "runai", siblings: str = "") -> str:
    """The text of a policy of a kind. spec: what is under `spec:`; siblings: lines next to it."""
    head = f"apiVersion: run.ai/v2alpha1\nkind: {kind}Policy\nmetadata: {{name: house, namespace: {namespace}}}\n"
    return f"{head}{siblings}\nspec:\n" + "\n".join(f"  {line}" for line in spec.strip("\n").splitlines()) + "\n"


def documents(text: str) -> list[PolicyDocument]:
    """The documents of a text."""
    return read_policies(text, projects=PROJECTS)


def policy(spec: str, kind: str = "Training", namespace: str = "runai", siblings: str = "") -> Policy:
    """The policy of a kind."""
    (found,) = documents(document(spec, kind, namespace, siblings))
    assert found.violations == []
    assert found.policy is not None
    return found.policy


def errors(text: str) -> dict[str, tuple[str, int, int]]:
    """What is wrong with the one document of a text: path -> message, line and column."""
    (found,) = documents(text)
    assert found.policy is None
    return {each.path: (each.message, each.line, each.column) for each in found.violations}


def workload(spec: str, kind: str = "Training", siblings: str = "") -> WorkloadSpec:
    """A workload of a kind from the entries of its spec, in one line; it has an image."""
    more = (
        "ports: {items: {http: {value: {container: 30100}}}}, " if kind == "Inference" and "ports" not in spec else ""
    )
    gang = "jobType: PyTorchJob, workers: {value: 2}, " if kind == "Distributed" else ""
    text = f"apiVersion: run.ai/v2alpha1\nkind: {kind}Workload\nmetadata: {{name: w}}\n{siblings}\n"
    (found,) = read(f"{text}spec: {{image: {{value: img}}, {gang}{more}{spec}}}\n")
    assert found.violations == []
    return found.spec


def verdict(own: WorkloadSpec, *policies: Policy, base: WorkloadSpec | None = None) -> Verdict:
    """The verdict of policies of one kind about a workload."""
    return judge(own, base, compose(policies[0].kind, policies), Context())


def issues(own: WorkloadSpec, *policies: Policy, base: WorkloadSpec | None = None) -> list[str]:
    """The issues of a workload as YAML names them; none where it is admitted."""
    said = verdict(own, *policies, base=base)
    return [yaml_text(each) for each in said.issues] if isinstance(said, Rejected) else []


def effective(own: WorkloadSpec, *policies: Policy, base: WorkloadSpec | None = None) -> Any:
    """The effective spec of a workload that is admitted."""
    said = verdict(own, *policies, base=base)
    assert not isinstance(said, Rejected), said
    return said.effective

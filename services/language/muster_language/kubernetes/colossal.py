"""ColossalAIJob documents (batch.tensorstack.dev/v1beta1) as specs of kind Distributed.

Called by the reader. The document's own form is kept in `colossal`, for whoever gets it back and for back ends that run
the real launcher; what policy, scheduler and agents need is lowered into the catalogue's fields beside it.
Holds: workers run one torchrun each with the job's script; a restart is one of the whole gang, since a replica alone
cannot join a static rendezvous again.
"""

from __future__ import annotations

import shlex
from typing import Any, Final

from muster.workload.v1 import colossal_pb2, workload_pb2
from muster_language.catalogue import Row, catalogue
from muster_language.checks.bounds import refusal
from muster_language.documents.findings import Findings, unknown_field
from muster_language.documents.nodes import Mapping, Node, Scalar, Sequence, entry
from muster_language.documents.structs import struct_of
from muster_language.documents.takers import taker
from muster_language.kubernetes.pod_templates import PodReader
from muster_language.spec import Kind, WorkloadSpec, set_kind
from muster_language.values import Refused, shown

API_VERSION: Final = "batch.tensorstack.dev/v1beta1"
KIND: Final = "ColossalAIJob"
LIST: Final = "ColossalAIJobList"

# What says who is in the gang is decided by the placement; torchrun would take the last one given.
_RESERVED: Final = frozenset(
    {"nproc_per_node", "nnodes", "node_rank", "master_addr", "master_port", "rdzv_endpoint", "rdzv_backend", "rdzv_id"}
)
# The original scheduler's 0 to 100 as classes: the first whose number is not below the priority.
_CLASSES: Final = (
    (100, "very-high"),
    (90, "high"),
    (75, "medium-high"),
    (50, "medium"),
    (40, "medium-low"),
    (25, "low"),
    (0, "very-low"),
)


def read_job(findings: Findings, root: Mapping, spec: WorkloadSpec, template_fields: frozenset[str]) -> None:
    """Reads a whole document into the spec. `status` is what a server wrote and is not read."""
    set_kind(spec, Kind.DISTRIBUTED)
    spec.framework = workload_pb2.FRAMEWORK_COLOSSALAI
    findings.unknown(root, ["apiVersion", "kind", "metadata", "spec", "status"])
    kind = entry(root, "kind")
    if kind is None or not isinstance(kind[1], Scalar) or kind[1].text != KIND:
        given = kind[1].text if kind and isinstance(kind[1], Scalar) else ""
        message = f"{shown(given)} is not a kind of {API_VERSION}" if given else "kind is missing"
        findings.say("kind", kind[1] if kind else root, message, f"{KIND} or {LIST}")
    body = entry(root, "spec")
    if body is None:
        findings.say("spec", root, "the document has no spec", "torchConfig and replicaSpecs")
        return
    (row,) = catalogue().whole
    spec.colossal.SetInParent()
    before = len(findings.found)
    _message(findings, row.inside, body[1], "spec", spec.colossal)
    _check(findings, body[1], spec.colossal)
    if len(findings.found) == before:
        _lower(findings, body[1], spec, template_fields)


def _message(findings: Findings, rows: tuple[Row, ...], node: Node, path: str, target: Any) -> None:
    if not isinstance(node, Mapping):
        findings.say(path, node, f"{path} is not a mapping", ", ".join(row.yaml for row in rows))
        return
    known = {row.yaml: row for row in rows}
    for key, value in node.entries:
        here = f"{path}.{key.text}"
        row = known.get(key.text)
        if row is None:
            findings.say(here, key, *unknown_field(key.text, list(known)))
        elif not (isinstance(value, Scalar) and value.null):
            _member(findings, row, value, here, target)
    for row in rows:
        if row.mandatory and entry(node, row.yaml) is None:
            findings.say(path, node, f"{row.yaml} is missing", row.description)


def _member(findings: Findings, row: Row, node: Node, path: str, target: Any) -> None:
    field = getattr(target, row.name)
    if row.name == "template":
        field.CopyFrom(struct_of(findings, node, path))
    elif row.name == "restart_policy" and isinstance(node, Scalar):
        field.SetInParent()
        _member(findings, next(each for each in row.inside if each.name == "policy"), node, path, field)
    elif row.name == "run_mode" and isinstance(node, Scalar) and node.text.casefold() == "immediate":
        field.SetInParent()
    elif row.repeated and row.inside:
        items = node.items if isinstance(node, Sequence) else []
        if not items:
            findings.say(path, node, f"{row.yaml} is not a list of mappings", row.description)
        for index, item in enumerate(items):
            _message(findings, row.inside, item, f"{path}.{index}", field.add())
    elif row.repeated:
        field.extend(findings.words(node, path))
    elif row.inside:
        field.SetInParent()
        _message(findings, row.inside, node, path, field)
    else:
        _value(findings, row, node, path, target)


def _value(findings: Findings, row: Row, node: Node, path: str, target: Any) -> None:
    taker(row)(findings, node, path, target)
    refused = refusal(row, getattr(target, row.name)) if target.HasField(row.name) else None
    if refused is not None:
        findings.refuse(path, node, refused)


def _check(findings: Findings, node: Node, job: colossal_pb2.ColossalJob) -> None:
    """What no single member shows: the script, torchrun's options, the types of replica."""
    config = entry(node, "torchConfig") if isinstance(node, Mapping) else None
    at = config[1] if config else node
    script = job.torch_config.script
    if config and script and not (script[0].endswith(".py") or (script[0] == "-m" and len(script) > 1)):
        message = f"{shown(script[0])} is no Python script"
        findings.say("spec.torchConfig.script.0", at, message, "a .py file first, or -m and a module")
    elif config and not script:
        findings.say("spec.torchConfig.script", at, "script is missing", "[train.py, ..]")
    for index, option in enumerate(job.torch_config.extra_args):
        refused = _option(option)
        if refused is not None:
            findings.refuse(f"spec.torchConfig.extraArgs.{index}", at, refused)
    _check_types(findings, node, job)


def _option(option: str) -> Refused | None:
    name = option.removeprefix("--").partition("=")[0].replace("-", "_")
    if not option.startswith("--") or not name:
        return Refused(f"{shown(option)} is no option of torchrun", "--name=value or --name")
    if name in _RESERVED:
        return Refused(f"{shown(option)} is decided by the placement", "leave it out")
    return None


def _check_types(findings: Findings, node: Node, job: colossal_pb2.ColossalJob) -> None:
    types = [each.type for each in job.replica_specs]
    launchers = [each for each in job.replica_specs if each.type == colossal_pb2.COLOSSAL_REPLICA_TYPE_LAUNCHER]
    at = entry(node, "replicaSpecs") if isinstance(node, Mapping) else None
    if at is None:
        return
    if types.count(colossal_pb2.COLOSSAL_REPLICA_TYPE_WORKER) != 1:
        findings.say("spec.replicaSpecs", at[0], "there is not exactly one entry of type worker", "one, with replicas")
    if len(launchers) > 1 or any(each.replicas > 1 for each in launchers):
        findings.say("spec.replicaSpecs", at[0], "a job has at most one launcher", "one entry with replicas: 1")


def _lower(findings: Findings, node: Node, spec: WorkloadSpec, template_fields: frozenset[str]) -> None:
    """What policy, scheduler and agents read of the job."""
    job = spec.colossal
    if job.torch_config.HasField("proc_per_worker"):
        spec.slots_per_worker = job.torch_config.proc_per_worker
        findings.moved["spec.slotsPerWorker"] = "spec.torchConfig.procPerWorker"
    processes = max(job.torch_config.proc_per_worker, 1)
    spec.command = "torchrun"
    spec.args = shlex.join([f"--nproc_per_node={processes}", *job.torch_config.extra_args, *job.torch_config.script])
    spec.backoff_limit = max(_restarts(each) for each in job.replica_specs)
    findings.moved |= {"spec.command": "spec.torchConfig.script", "spec.arguments": "spec.torchConfig.script"}
    if job.run_mode.pause.enabled:
        spec.active = False
    if job.scheduler.t9k_scheduler.HasField("priority"):
        priority = job.scheduler.t9k_scheduler.priority
        spec.priority_class = next(word for number, word in _CLASSES if priority >= number)
    for index, replica in enumerate(job.replica_specs):
        template = _at(node, "replicaSpecs", index, "template")
        path = f"spec.replicaSpecs.{index}"
        if replica.type == colossal_pb2.COLOSSAL_REPLICA_TYPE_WORKER:
            spec.workers = replica.replicas if replica.HasField("replicas") else 1
            findings.moved["spec.workers"] = f"{path}.replicas"
            PodReader(findings, spec, "spec", "worker", f"{path}.template", template_fields).pod(template)
        elif template.entries:
            spec.master_spec.SetInParent()
            reader = PodReader(
                findings, spec.master_spec, "masterSpec", "launcher", f"{path}.template", template_fields
            )
            reader.pod(template)


def _at(node: Node, word: str, index: int, member: str) -> Mapping:
    """A mapping that is known to be there: the job was read without an error."""
    listed = entry(node, word) if isinstance(node, Mapping) else None
    item = listed[1].items[index] if listed and isinstance(listed[1], Sequence) else None
    found = entry(item, member) if isinstance(item, Mapping) else None
    return found[1] if found and isinstance(found[1], Mapping) else Mapping([], node.line, node.column)


def _restarts(replica: colossal_pb2.ColossalReplicaSpec) -> int:
    never = replica.restart_policy.policy == colossal_pb2.RESTART_POLICY_NEVER
    return 0 if never else replica.restart_policy.limit

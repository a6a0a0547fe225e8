"""What policy, submission and telemetry say, as events of the domain: admissions, wishes, quotas, advice."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2
from muster_chassis.events import Event
from muster_scheduler.domain import events as domain
from muster_scheduler.domain.asked.workloads import Request, WorkloadKind
from muster_scheduler.stream import values
from muster_scheduler.stream.roles import MOST_REPLICAS, roles_of, shrunk, stretch_of, trials_of
from muster_scheduler.stream.terms import keeps_data, mounts_of, terms_of

_KINDS: Final = {
    options_pb2.KIND_WORKSPACE: WorkloadKind.WORKSPACE,
    options_pb2.KIND_TRAINING: WorkloadKind.TRAINING,
    options_pb2.KIND_DISTRIBUTED: WorkloadKind.DISTRIBUTED,
    options_pb2.KIND_INFERENCE: WorkloadKind.INFERENCE,
}
_DEFAULT_BACKOFF_LIMIT: Final = 6
# What of a spec says how many replicas there are, or what happens to the workload: no replica is another one by it.
_NOT_OF_A_REPLICA: Final = (
    "min_scale",
    "max_scale",
    "metric",
    "metric_name",
    "target",
    "autoscaler_class",
    "scale_to_zero_retention_seconds",
    "auto_deletion_seconds",
    "backoff_limit",
    "related_urls",
    "annotations",
)


def _replica_digest(spec: workload_pb2.WorkloadSpec) -> str:
    """A digest of the fields that make a replica."""
    rest = workload_pb2.WorkloadSpec()
    rest.CopyFrom(spec)
    for name in _NOT_OF_A_REPLICA:
        rest.ClearField(name)
    return hashlib.blake2b(rest.SerializeToString(deterministic=True), digest_size=16).hexdigest()


def admitted(message: Any, _: Event | None = None) -> domain.Admitted:
    """A workload that policy lets in, with what each of its roles asks for. Raises Reject."""
    spec = message.effective_spec
    stretch = stretch_of(spec)
    roles = shrunk(roles_of(message.requests, alone=trials_of(spec) is not None), stretch)
    request = Request(
        generation=values.number(message.generation, "generation"),
        roles=roles,
        pools=tuple(message.node_pools) or ("default",),
        clusters=tuple(sorted(message.admissible_clusters)),
        fields=fields_of(spec),
        kind=_KINDS.get(spec.kind, WorkloadKind.TRAINING),
        launcher_decides=any(role.name == "launcher" for role in roles),
        priority=message.priority,
        preemptible=message.preemptible,
        backoff_limit=spec.backoff_limit if spec.HasField("backoff_limit") else _DEFAULT_BACKOFF_LIMIT,
        terminate_after_preemption=spec.terminate_after_preemption,
        auto_deletion=spec.auto_deletion_seconds if spec.HasField("auto_deletion_seconds") else None,
        max_scale=spec.max_scale,
        spec=spec.SerializeToString(),
        preemption_limit=spec.preemption_limit if spec.HasField("preemption_limit") else None,
        terms=terms_of(spec),
        trials=trials_of(spec),
        stretch=stretch,
        replica=_replica_digest(spec),
        keeps_data=keeps_data(spec),
        mounts=mounts_of(spec, values.text(message.namespace)),
        excluded=tuple(sorted({values.text(each.cluster) for each in message.excluded_clusters})),
    )
    return domain.Admitted(
        workload=values.workload_id(message.workload_id),
        project=values.text(message.project),
        department=values.text(message.department),
        namespace=values.text(message.namespace),
        name=values.text(message.name),
        owner=values.text(message.owner.subject),
        submitted=values.micros(message.submitted_at),
        active=spec.active if spec.HasField("active") else True,
        request=request,
    )


def _yaml_names() -> dict[int, str]:
    fields = workload_pb2.WorkloadSpec.DESCRIPTOR.fields
    named = {f.number: f.GetOptions().Extensions[options_pb2.field].yaml for f in fields}
    return {number: name for number, name in named.items() if name}


_YAML: Final = _yaml_names()
_SECRET: Final = "SECRET:"  # noqa: S105 - how a value names a Secret of its cluster


def fields_of(spec: workload_pb2.WorkloadSpec) -> frozenset[str]:
    """The YAML names of the fields that a spec or its master sets, and `name=word` where a value is one of few words.

    A cluster's list of refused fields is held against them: it may refuse a field, or one word of it (`jobType=TF`,
    `environment=SECRET` for a value that names a Secret).
    """
    found = set()
    for field, value in spec.ListFields():
        if field.number in _YAML:
            found.add(_YAML[field.number])
            if field.enum_type is not None and value in field.enum_type.values_by_number:
                said = field.enum_type.values_by_number[value].GetOptions().Extensions[options_pb2.word]
                found.add(f"{_YAML[field.number]}={said.word}")
    if any(item.value.startswith(_SECRET) and not item.deleted for item in spec.environment):
        found.add("environment=SECRET")
    addresses = [item for item in spec.exposed_urls if not item.deleted]
    if any(item.authorized_users.values for item in addresses):
        found.add("exposedUrls=authorizedUsers")
    if any(item.authorized_groups.values for item in addresses):
        found.add("exposedUrls=authorizedGroups")
    if spec.notebook_token.startswith(_SECRET):
        found.add("notebookToken=SECRET")
    return frozenset(found | fields_of(spec.master_spec)) if spec.HasField("master_spec") else frozenset(found)


def rejected(message: Any, _: Event) -> domain.Event:
    """A refusal, with at most ten of its issues."""
    issues = "; ".join(f"{issue.path}: {issue.details}" for issue in list(message.issues)[:10])
    return domain.Rejected(
        values.workload_id(message.workload_id),
        values.number(message.generation, "generation"),
        values.text(message.project),
        values.text(message.name),
        values.micros(message.submitted_at),
        values.text(issues, values.MESSAGE_LIMIT),
    )


def suspend(message: Any, event: Event) -> domain.Event:
    """Somebody wants a workload suspended."""
    return domain.SuspendRequested(event.id, values.workload_id(message.workload_id))


def resume(message: Any, event: Event) -> domain.Event:
    """Somebody wants a suspended workload to run again."""
    return domain.ResumeRequested(event.id, values.workload_id(message.workload_id))


def delete(message: Any, event: Event) -> domain.Event:
    """Somebody wants a workload gone."""
    return domain.DeletionRequested(event.id, values.workload_id(message.workload_id))


def archived(message: Any, _: Event) -> domain.Event:
    """Return the archiving of a workload. Raises Reject."""
    return domain.Archived(values.workload_id(message.workload_id))


def idle(message: Any, _: Event) -> domain.Event:
    """Since when a workload's GPUs stand idle, or that they no longer do."""
    since = max(0, values.micros(message.since)) if message.HasField("since") else 0
    return domain.IdleReported(values.workload_id(message.workload_id), since)


def scale(message: Any, _: Event) -> domain.Event:
    """What telemetry advises for an inference service."""
    return domain.ScaleAdvised(values.workload_id(message.workload_id), min(message.replicas, MOST_REPLICAS))

"""A plan as the objects that a cluster is asked to make: the root of its run, and its pod (kubernetes.md 3, 5 and 6).

Called by the Kubernetes back end before it creates a replica. Pure: the same plan and settings give the same objects.
Holds: what the user says of labels and variables never wins over what identifies the replica.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from muster_cluster_agent.domain.container import Container, Security
from muster_cluster_agent.domain.environment import identity
from muster_cluster_agent.domain.kubernetes import marks
from muster_cluster_agent.domain.kubernetes.marks import Owner
from muster_cluster_agent.domain.model import ReplicaKey
from muster_cluster_agent.domain.plan import InvalidCommand, Plain, ReplicaPlan
from muster_kernel import ids

Manifest = dict[str, Any]
MAIN: Final = "main"
"""The name of a replica's own container."""
_MARKED: Final = re.compile(r"\0\{([A-Za-z_][A-Za-z0-9_]*)\}")  # as muster_kernel.words marks a reference to expand
_SHM_BYTES: Final = 8 << 30  # of a replica that says nothing of memory
# The node controller must not end what a silent node may still run: architecture rule 7 decides about that.
_PATIENT: Final = tuple(
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
    for key in ("not-ready", "unreachable")
)


@dataclass(frozen=True, slots=True)
class Style:
    """What a cluster's file says of every pod.

    resource: the extended resource whose units are GPUs. tolerate: tolerations as the API has them.
    """

    resource: str = "nvidia.com/gpu"
    priority_class: str = ""
    runtime_class: str = ""
    scheduler: str = ""
    pull_secrets: tuple[str, ...] = ()
    tolerate: tuple[Mapping[str, Any], ...] = field(default=())


def root(owner: Owner, plan: ReplicaPlan, namespace: str) -> Manifest:
    """The ConfigMap that stands for the run and holds how its replicas ended."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": plan.gang,
            "namespace": namespace,
            "labels": marks.run_labels(owner, plan.workload_id, plan.project, (plan.generation, plan.attempt)),
            "annotations": {marks.NAME: plan.workload},
            "finalizers": [marks.ROOT],
        },
    }


def pod(owner: Owner, plan: ReplicaPlan, namespace: str, style: Style, root_uid: str) -> Manifest:
    """The pod of a replica. Raises InvalidCommand for a plan that this back end cannot make a pod of."""
    container = plan.container or Container("")
    if not container.image:
        raise InvalidCommand("it names no image, and a pod is made of one; set `image`")
    labels = {**_safe(container.labels), **marks.replica_labels(owner, plan.project, plan)}
    annotations = {
        **_safe(container.annotations),
        marks.PATTERN: plan.pattern.value,
        marks.NAME: plan.workload,
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
        "karpenter.sh/do-not-disrupt": "true",
    }
    made: Manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": plan.name,
            "namespace": namespace,
            "labels": labels,
            "annotations": annotations,
            "finalizers": [marks.GONE],
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": plan.gang, "uid": root_uid, "controller": True}
            ],
        },
        "spec": _pod_spec(plan, container, style),
    }
    annotations[marks.SPEC] = digest_of(made)
    return made


def digest_of(manifest: Manifest) -> str:
    """A digest of what was asked for; a root's own uid is left out, since it changes where a root is made again."""
    metadata = {key: value for key, value in manifest["metadata"].items() if key != "ownerReferences"}
    text = json.dumps([metadata, manifest["spec"]], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _pod_spec(plan: ReplicaPlan, container: Container, style: Style) -> Manifest:
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [plan.node]}]}]
    secrets = dict.fromkeys((*container.pull_secrets, *style.pull_secrets))
    spec: Manifest = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": int(plan.grace),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "hostname": f"{plan.role}-{plan.index}",
        "subdomain": plan.gang,
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}},
        "tolerations": [*style.tolerate, *_PATIENT],
        "containers": [_main(plan, container, style)],
    }
    named = {
        "priorityClassName": style.priority_class,
        "runtimeClassName": style.runtime_class,
        "schedulerName": style.scheduler,
        "imagePullSecrets": [{"name": name} for name in secrets],
        "securityContext": _pod_security(container.security),
    }
    spec.update({key: value for key, value in named.items() if value})
    if container.large_shm:
        size = (plan.limits.memory_limit or plan.limits.memory or 2 * _SHM_BYTES) // 2
        spec["volumes"] = [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": str(size)}}]
    return spec


def _main(plan: ReplicaPlan, container: Container, style: Style) -> Manifest:
    env = {**dict(plan.env), **identity(plan)}
    made: Manifest = {
        "name": MAIN,
        "image": container.image,
        **_words(plan, env),
        "env": [
            *({"name": name, "value": value} for name, value in env.items()),
            *(
                {"name": one.name, "valueFrom": {"secretKeyRef": {"name": one.secret, "key": one.key}}}
                for one in container.secrets
                if one.name not in env
            ),
        ],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    named = {
        "imagePullPolicy": container.pull_policy,
        "workingDir": plan.working_dir,
        "resources": _resources(plan, container, style),
        "securityContext": _container_security(container.security),
        "tty": container.tty,
        "stdin": container.stdin,
    }
    made.update({key: value for key, value in named.items() if value})
    if container.large_shm:
        made["volumeMounts"] = [{"name": "shm", "mountPath": "/dev/shm"}]  # noqa: S108  the kernel's own place
    return made


def _words(plan: ReplicaPlan, env: Mapping[str, str]) -> Manifest:
    """Command and arguments; `${NAME}` becomes its value here, `$(NAME)` is left to the kubelet."""
    if not isinstance(plan.launch, Plain):
        raise InvalidCommand(f"this back end does not start {type(plan.launch).__name__} yet")
    words = [_expanded(word, env) for word in plan.launch.argv]
    if not words:
        return {}
    return {"args": words} if plan.launch.entry_point else {"command": words[:1], "args": words[1:]}


def _expanded(word: str, env: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        # The kubelet reads $(X) and $$ in words: a value must come out as it went in.
        return env[match[1]].replace("$", "$$") if match[1] in env else f"${{{match[1]}}}"

    return _MARKED.sub(value, word)


def _resources(plan: ReplicaPlan, container: Container, style: Style) -> Manifest:
    """Requests and limits. Devices and other extended resources are both at once, as the API wants them."""
    units = {name: str(count) for name, count in container.extended}
    if plan.anonymous:
        units[style.resource] = str(plan.anonymous)
    limits = plan.limits
    requests = {"cpu": _milli(limits.cpu), "memory": _bytes(limits.memory)}
    most = {"cpu": _milli(limits.cpu_limit), "memory": _bytes(limits.memory_limit)}
    found = {
        "requests": {**{name: text for name, text in requests.items() if text}, **units},
        "limits": {**{name: text for name, text in most.items() if text}, **units},
    }
    return {name: amounts for name, amounts in found.items() if amounts}


def _milli(cpu: int) -> str:
    return f"{cpu}m" if cpu else ""


def _bytes(memory: int) -> str:
    return str(memory) if memory else ""


def _pod_security(security: Security) -> Manifest:
    found = {
        "runAsUser": security.uid,
        "runAsGroup": security.gid,
        "supplementalGroups": list(security.groups) or None,
        "runAsNonRoot": security.non_root,
        "seccompProfile": {"type": security.seccomp} if security.seccomp else None,
    }
    return {key: value for key, value in found.items() if value is not None}


def _container_security(security: Security) -> Manifest:
    capabilities: Manifest = {}
    if security.capabilities:
        capabilities["add"] = list(security.capabilities)
    if security.drop_capabilities:
        capabilities["drop"] = ["ALL"]
    found = {
        "readOnlyRootFilesystem": security.read_only_root,
        "allowPrivilegeEscalation": security.escalation,
        "capabilities": capabilities or None,
    }
    return {key: value for key, value in found.items() if value is not None}


def _safe(said: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """What users say of labels and annotations, without the names that identify Muster's own objects."""
    return {name: value for name, value in said if not name.startswith(marks.PREFIX) and name != marks.MANAGED_BY}


def base_of(replica: ReplicaKey) -> str:
    """The name of the root of a replica's run."""
    return ids.base_name(replica.workload_id, replica.generation, replica.attempt)


def shard_name(root_name: str, number: int) -> str:
    """The name of a ConfigMap with lines about replicas that are gone. Raises ValueError where it is too long."""
    return ids.check_name(f"{root_name}-gone-{number}")

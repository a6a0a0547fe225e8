"""A plan as its pod (kubernetes.md 3, 5 and 6).

Called by the Kubernetes back end before it creates a replica. Pure: the same plan and settings give the same pod.
Holds: what the user says of labels and variables never wins over what identifies the replica.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from muster_cluster_agent.domain.container import Container, Security
from muster_cluster_agent.domain.environment import counted, described, identity
from muster_cluster_agent.domain.kubernetes import (
    device_requests,
    extra_containers,
    hami,
    kai,
    marks,
    pod_resources,
    storage,
)
from muster_cluster_agent.domain.kubernetes.device_requests import DeviceRequest
from muster_cluster_agent.domain.kubernetes.device_sources import DeviceSource
from muster_cluster_agent.domain.kubernetes.extra_containers import Images
from muster_cluster_agent.domain.kubernetes.ingresses import Urls
from muster_cluster_agent.domain.kubernetes.kai import KaiSettings
from muster_cluster_agent.domain.kubernetes.marks import Owner
from muster_cluster_agent.domain.kubernetes.names import credentials_name, hosts_name, keys_name, port_name
from muster_cluster_agent.domain.kubernetes.programs import programs_name
from muster_cluster_agent.domain.kubernetes.resources import Manifest
from muster_cluster_agent.domain.kubernetes.starts import Mount, Start, start_of
from muster_cluster_agent.domain.model import Pattern
from muster_cluster_agent.domain.plan import InvalidCommand, ReplicaPlan
from muster_cluster_agent.domain.storage import ExistingClaim, NewClaim

MAIN: Final = "main"
"""The name of a replica's own container."""
_MARKED: Final = re.compile(r"\0\{([A-Za-z_][A-Za-z0-9_]*)\}")  # as muster_kernel.words marks a reference to expand
_SHM_BYTES: Final = 8 << 30  # of a replica that says nothing of memory
_SHM: Final = "/dev/shm"  # noqa: S108  the kernel's own place
_SSH_BYTES: Final = "1Mi"
_READABLE: Final = 0o444  # by any user: it depends on the image
_VISIBLE: Final = "NVIDIA_VISIBLE_DEVICES"
_DRAIN_SECONDS: Final = 5
# The node controller must not end what a silent node may still run: architecture rule 7 decides about that.
_PATIENT: Final = tuple(
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
    for key in ("not-ready", "unreachable")
)


@dataclass(frozen=True, slots=True)
class Style:
    """What a cluster's file says of every pod.

    resource: the extended resource whose units are GPUs. tolerate: tolerations as the API has them. direct: a pod names
    its node itself, so that no scheduler of the cluster looks at it. images: those that the cluster gives. urls: how
    workloads are reached from outside. service_accounts: by project; pods of other projects have the default one.
    hami_scheduler: of pods whose devices HAMi gives; empty: that of every pod, or the one that HAMi's webhook sets.
    kai: of pods whose devices KAI-Scheduler gives; None: it gives none.
    """

    resource: str = "nvidia.com/gpu"
    priority_class: str = ""
    runtime_class: str = ""
    scheduler: str = ""
    pull_secrets: tuple[str, ...] = ()
    tolerate: tuple[Mapping[str, Any], ...] = field(default=())
    direct: bool = False
    images: Images = field(default_factory=Images)
    urls: Urls = field(default_factory=Urls)
    service_accounts: tuple[tuple[str, str], ...] = ()
    hami_scheduler: str = hami.SCHEDULER
    kai: KaiSettings | None = None


def classes_of(style: Style) -> Manifest:
    """The fields of a pod's spec that name classes and a scheduler of the cluster; a field without a name is empty."""
    return {
        "priorityClassName": style.priority_class,
        "runtimeClassName": style.runtime_class,
        "schedulerName": style.scheduler,
    }


def owned_by(root: str, uid: str) -> Manifest:
    """The reference to the root of a run in everything that the run has."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": root, "uid": uid, "controller": True}


def pod(
    owner: Owner,
    plan: ReplicaPlan,
    style: Style,
    root_uid: str,
    addresses: tuple[str, ...] = (),
    *,
    source: DeviceSource = DeviceSource.SLICES,
) -> Manifest:
    """The pod of a replica, in its project's namespace. Raises InvalidCommand where none can be made of the plan.

    addresses: where its workload is reached. source: what gives the devices of its node.
    """
    container = plan.container_or_empty
    if not container.image:
        raise InvalidCommand("it names no image, and a pod is made of one; set `image`")
    request = device_requests.request_of(
        plan, style.resource, source, hami_scheduler=style.hami_scheduler, settings=style.kai
    )
    style = replace(style, scheduler=request.scheduler or style.scheduler)
    labels = {**_said(container.labels, style), **marks.replica_labels(owner, plan.project, plan), **request.labels}
    annotations = {
        **_said(hami.without_choices(container.annotations), style),
        marks.PATTERN: plan.pattern.value,
        marks.NAME: plan.workload,
        **({marks.ADDRESS: ",".join(addresses)} if addresses else {}),
        **request.annotations,
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
        "karpenter.sh/do-not-disrupt": "true",
    }
    made: Manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": plan.name,
            "namespace": plan.namespace,
            "labels": labels,
            "annotations": annotations,
            "finalizers": [marks.GONE],
            "ownerReferences": [owned_by(plan.gang, root_uid)],
        },
        "spec": _pod_spec(plan, container, style, request),
    }
    annotations[marks.SPEC] = digest_of(made)
    return made


def digest_of(manifest: Manifest) -> str:
    """A digest of what was asked for; a root's own uid is left out, since it changes where a root is made again."""
    metadata = {key: value for key, value in manifest["metadata"].items() if key != "ownerReferences"}
    text = msgspec.json.encode([metadata, manifest["spec"]], order="deterministic")
    return hashlib.sha256(text).hexdigest()[:32]


def _pod_spec(plan: ReplicaPlan, container: Container, style: Style, request: DeviceRequest) -> Manifest:
    start = start_of(plan)
    volumes = [*_volumes(plan, container, start)]
    mounts = [mount for _, mount in volumes]
    secrets = dict.fromkeys((*container.pull_secrets, *style.pull_secrets))
    spec: Manifest = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": int(plan.grace),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "hostname": f"{plan.role}-{plan.index}",
        "subdomain": plan.gang,
        **_binding(plan.node, direct=style.direct),
        "tolerations": [*style.tolerate, *_PATIENT],
        "containers": [_main(plan, container, start, style, mounts, request)],
    }
    named = {
        "initContainers": _init_containers(plan, container, style, mounts),
        **classes_of(style),
        "serviceAccountName": dict(style.service_accounts).get(plan.project, ""),
        "imagePullSecrets": [{"name": name} for name in secrets],
        "resourceClaims": [{"name": pod_resources.DEVICES, "resourceClaimName": plan.name}] if request.claimed else [],
        "securityContext": _pod_security(container),
        "hostIPC": container.host_ipc,
        "hostNetwork": container.host_network,
        # The node's own resolver does not know the members of a gang.
        "dnsPolicy": "ClusterFirstWithHostNet" if container.host_network else "",
    }
    spec.update({key: value for key, value in named.items() if value})
    if volumes:
        spec["volumes"] = [volume for volume, _ in volumes]
    return spec


def _binding(node: str, *, direct: bool) -> Manifest:
    """What binds a pod to its node: by itself, or by the cluster's scheduler, which has no other choice."""
    if direct:
        return {"nodeName": node}
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    }


def _volumes(plan: ReplicaPlan, container: Container, start: Start) -> Iterable[tuple[Manifest, Manifest]]:
    """Each volume of the pod, and where its container finds it."""
    said = [*storage.volumes_of(plan)]
    yield from said
    taken = [*(mount["mountPath"] for _, mount in said), *map(str, Mount), _SHM]
    yield from extra_containers.volumes_of(plan, taken)
    if container.large_shm and _SHM not in storage.paths_of(plan):
        size = (plan.limits.memory_limit or plan.limits.memory or 2 * _SHM_BYTES) // 2
        shm = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": str(size)}}
        yield shm, {"name": "shm", "mountPath": _SHM}
    sources: dict[Mount, Manifest] = {
        Mount.PROGRAMS: {"configMap": {"name": programs_name()}},
        Mount.KEYS: {"secret": {"secretName": keys_name(plan.gang), "defaultMode": _READABLE}},
        Mount.HOSTS: {"configMap": {"name": hosts_name(plan.gang)}},
        Mount.SSH: {"emptyDir": {"medium": "Memory", "sizeLimit": _SSH_BYTES}},
    }
    for each in sorted(start.mounts):
        name = each.removeprefix("/")
        mount: Manifest = {"name": name, "mountPath": str(each)}
        yield {"name": name, **sources[each]}, mount if each is Mount.SSH else {**mount, "readOnly": True}


def _main(
    plan: ReplicaPlan,
    container: Container,
    start: Start,
    style: Style,
    mounts: Sequence[Manifest],
    request: DeviceRequest,
) -> Manifest:
    env = _variables(plan, container, start, style)
    blocks = storage.blocks_of(plan)
    secrets = {one.name: (one.secret, one.key) for one in container.secrets}
    secrets |= {name: (credentials_name(plan.gang, plan.role), name) for name, _ in plan.credentials}
    secrets = {name: where for name, where in secrets.items() if name not in env and name != _VISIBLE}
    made: Manifest = {
        "name": MAIN,
        "image": container.image,
        **_words(start, env, secrets.keys()),
        "env": [
            *({"name": name, "value": value} for name, value in env.items()),
            *(
                {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
                for name, (secret, key) in secrets.items()
            ),
        ],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    named = {
        "imagePullPolicy": container.pull_policy,
        "workingDir": plan.working_dir,
        "resources": pod_resources.resources_of(plan, container, request),
        "securityContext": _container_security(container.security),
        "tty": container.tty,
        "stdin": container.stdin,
        "ports": [{"containerPort": port, "name": port_name(port)} for port in plan.ports],
        "readinessProbe": start.probe or _probe(plan),
        "lifecycle": _drains(plan),
        "volumeMounts": [mount for mount in mounts if mount["name"] not in blocks],
        "volumeDevices": [
            {"name": mount["name"], "devicePath": mount["mountPath"]} for mount in mounts if mount["name"] in blocks
        ],
    }
    made.update({key: value for key, value in named.items() if value})
    return made


def _init_containers(
    plan: ReplicaPlan, container: Container, style: Style, mounts: Sequence[Manifest]
) -> list[Manifest]:
    """Those that run before it or with it. One that runs before asks for as much, but for no device."""
    common = {
        "resources": pod_resources.amounts_of(plan, {}),
        "securityContext": _container_security(container.security),
    }
    blocks = storage.blocks_of(plan)
    folders = [mount for mount in mounts if mount["name"] not in blocks]
    return extra_containers.containers_of(
        plan, style.images, {key: value for key, value in common.items() if value}, folders
    )


def _variables(plan: ReplicaPlan, container: Container, start: Start, style: Style) -> dict[str, str]:
    """The variables of the container; what Muster gives wins over what its user says.

    Which devices it sees is the runtime's matter where it has some. Without any, an image that asks its runtime for all
    of them would be given cards of others.
    """
    said = {name: value for name, value in plan.env if name != _VISIBLE}
    ports = {f"MUSTER_PORT_{port}": str(port) for port in plan.ports}
    if plan.ports:
        ports["PORT"] = str(plan.ports[0])
    named: list[dict[str, object]] = [described(share) for share in plan.shares]
    devices = {"MUSTER_DEVICES": json.dumps([*named, *counted(device_requests.units_of(plan, style.resource))])}
    hidden = {} if plan.slots or plan.shares else {_VISIBLE: "void"}
    home = {"HOME": container.home} if container.home else {}
    return {**home, **said, **identity(plan), **devices, **hidden, **ports, **start.env}


def _drains(plan: ReplicaPlan) -> Manifest | None:
    """Requests that are on their way while its address is taken away still find a server. Half the grace is left."""
    seconds = min(_DRAIN_SECONDS, int(plan.grace) // 2)
    return {"preStop": {"sleep": {"seconds": seconds}}} if plan.pattern is Pattern.SERVICE and seconds else None


def _probe(plan: ReplicaPlan) -> Manifest | None:
    """How the kubelet asks whether it is ready; times that are not said are the kubelet's own."""
    asked = plan.probe
    if asked is None:
        return None
    port = asked.port or plan.ports[0]
    found: Manifest = {"successThreshold": asked.successes, "failureThreshold": asked.failures}
    if asked.path:
        headers = {"httpHeaders": [{"name": "Host", "value": asked.host}]} if asked.host else {}
        scheme = "HTTPS" if asked.tls else "HTTP"
        found["httpGet"] = {"path": asked.path, "port": port, "scheme": scheme, **headers}
    else:
        found["tcpSocket"] = {"port": port}
    times = {"initialDelaySeconds": asked.delay, "periodSeconds": asked.period, "timeoutSeconds": asked.timeout}
    return {**found, **{name: max(1, round(seconds)) for name, seconds in times.items() if seconds}}


def _words(start: Start, env: Mapping[str, str], secrets: Collection[str]) -> Manifest:
    """Command and arguments; `${NAME}` becomes its value here, `$(NAME)` is left to the kubelet."""
    words = [_expanded(word, env, secrets) for word in start.words]
    if not words:
        return {}
    return {"args": words} if start.entry_point else {"command": words[:1], "args": words[1:]}


def _expanded(word: str, env: Mapping[str, str], secrets: Collection[str]) -> str:
    def value(match: re.Match[str]) -> str:
        if match[1] in secrets:  # the kubelet alone may know it
            return f"$({match[1]})"
        # The kubelet reads $(X) and $$ in words: a value must come out as it went in.
        return env[match[1]].replace("$", "$$") if match[1] in env else f"${{{match[1]}}}"

    return _MARKED.sub(value, word)


def _pod_security(container: Container) -> Manifest:
    security = container.security
    claims = any(isinstance(each.source, ExistingClaim | NewClaim) for each in container.volumes)
    shared = security.gid if claims else None  # all that is on a claim belongs to the group
    found = {
        "fsGroup": shared,
        "fsGroupChangePolicy": "OnRootMismatch" if shared is not None else None,
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


def _said(said: tuple[tuple[str, str], ...], style: Style) -> dict[str, str]:
    """What users say of labels and annotations, without what identifies Muster's own objects and what KAI reads."""
    said = said if style.kai is None else kai.without_choices(said)
    return {name: value for name, value in said if not name.startswith(marks.PREFIX) and name != marks.MANAGED_BY}

"""The fields of a spec that say how a container is made, as the domain's values.

Called by `specs` for back ends that have containers. Raises ValueError for numbers that are none.
"""

from __future__ import annotations

from typing import Final

from muster.workload.v1 import workload_pb2
from muster_cluster_agent.adapters.volumes import volumes
from muster_cluster_agent.domain.container import Container, Reach, SecretVariable, Security, ServedPort
from muster_kernel.quantities import parse_count

SECRET: Final = "SECRET:"  # noqa: S105  how a value names a Secret: SECRET:name,key
_TOKEN: Final = "JUPYTER_TOKEN"  # noqa: S105  what Jupyter reads its token from
_PULL_POLICIES: Final = {
    workload_pb2.IMAGE_PULL_POLICY_ALWAYS: "Always",
    workload_pb2.IMAGE_PULL_POLICY_IF_NOT_PRESENT: "IfNotPresent",
    workload_pb2.IMAGE_PULL_POLICY_NEVER: "Never",
}
_REACH: Final = {
    workload_pb2.SERVICE_TYPE_CLUSTER_IP: Reach.CLUSTER,
    workload_pb2.SERVICE_TYPE_NODE_PORT: Reach.NODES,
    workload_pb2.SERVICE_TYPE_LOAD_BALANCER: Reach.BALANCER,
}
_SECCOMP: Final = {
    workload_pb2.SECCOMP_PROFILE_RUNTIME_DEFAULT: "RuntimeDefault",
    workload_pb2.SECCOMP_PROFILE_UNCONFINED: "Unconfined",
}


def variables(spec: workload_pb2.WorkloadSpec) -> list[tuple[str, str]]:
    """The variables that a spec sets, those that name a Secret among them."""
    said = [(item.label, item.value) for item in spec.environment if not item.deleted]
    return [*said, (_TOKEN, spec.notebook_token)] if spec.notebook_token else said


def container(spec: workload_pb2.WorkloadSpec) -> Container:
    """How a role's container is made."""
    return Container(
        image=spec.image,
        pull_policy=_PULL_POLICIES.get(spec.image_pull_policy, ""),
        pull_secrets=tuple(spec.image_pull_secrets.values),
        tty=spec.tty,
        stdin=spec.stdin,
        secrets=tuple(_secret(name, value) for name, value in variables(spec) if value.startswith(SECRET)),
        labels=tuple((item.label, item.value) for item in spec.labels if not item.deleted),
        annotations=tuple((item.label, item.value) for item in spec.annotations if not item.deleted),
        extended=tuple(
            (item.resource, parse_count(item.quantity)) for item in spec.extended_resources if not item.deleted
        ),
        large_shm=spec.large_shm,
        ports=_ports(spec),
        volumes=volumes(spec),
        host_ipc=spec.host_ipc,
        host_network=spec.host_network,
        home=_home(spec) if spec.create_home_dir else "",
        security=_security(spec),
    )


def _secret(name: str, value: str) -> SecretVariable:
    secret, _, key = value.removeprefix(SECRET).partition(",")
    return SecretVariable(name, secret.strip(), key.strip())


def _ports(spec: workload_pb2.WorkloadSpec) -> tuple[ServedPort, ...]:
    """The first of each container port; the spec says how those are reached that do not say it themselves."""
    found: dict[int, ServedPort] = {}
    for port in spec.ports:
        if not port.deleted and port.container:
            reach = _REACH.get(port.service_type or spec.service_type, Reach.CLUSTER)
            found.setdefault(port.container, ServedPort(port.container, port.external, reach))
    return tuple(found.values())


def _home(spec: workload_pb2.WorkloadSpec) -> str:
    """The home folder of the workload's user; names that no folder may have are left out of it."""
    user = "".join(
        character for character in spec.username.partition("@")[0] if character.isalnum() or character in "-_"
    )
    return f"/home/{user or 'muster'}"


def _security(spec: workload_pb2.WorkloadSpec) -> Security:
    custom = spec.uid_gid_source == workload_pb2.UID_GID_SOURCE_CUSTOM
    groups = [word.strip() for word in spec.supplemental_groups.replace(";", ",").split(",")] if custom else []
    return Security(
        uid=spec.run_as_uid if custom and spec.HasField("run_as_uid") else None,
        gid=spec.run_as_gid if custom and spec.HasField("run_as_gid") else None,
        groups=tuple(int(word) for word in groups if word),
        non_root=spec.run_as_non_root if spec.HasField("run_as_non_root") else None,
        read_only_root=spec.read_only_root_filesystem if spec.HasField("read_only_root_filesystem") else None,
        escalation=spec.allow_privilege_escalation if spec.HasField("allow_privilege_escalation") else None,
        seccomp=_SECCOMP.get(spec.seccomp_profile, ""),
        capabilities=tuple(spec.capabilities.values),
        drop_capabilities=spec.drop_all_capabilities,
    )

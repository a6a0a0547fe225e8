"""The fields of a spec that say how a container is made, as the domain's values.

Called by `specs` for back ends that have containers. Raises ValueError for numbers that are none.
"""

from __future__ import annotations

from typing import Final

from muster.workload.v1 import storage_pb2, workload_pb2
from muster_cluster_agent.adapters.volumes import volumes
from muster_cluster_agent.domain.container import (
    TENSORBOARD_PORT,
    Checkout,
    Container,
    ExposedPort,
    Reach,
    SecretVariable,
    Security,
    ServedPort,
)
from muster_kernel.quantities import parse_count

SECRET: Final = "SECRET:"  # noqa: S105  how a value names a Secret: SECRET:name,key
_TOKEN: Final = "JUPYTER_TOKEN"  # noqa: S105  what Jupyter reads its token from
_GIT_USER: Final = "MUSTER_GIT_USERNAME"
_GIT_PASSWORD: Final = "MUSTER_GIT_PASSWORD"  # noqa: S105  what git.sh reads them from
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
        exposed=() if spec.is_private_service_url else _exposed(spec),
        volumes=volumes(spec),
        checkouts=tuple(_checkout(each) for each in spec.git_sync if not each.deleted),
        tensorboard=spec.tensorboard,
        tensorboard_logs=spec.tensorboard_logdir,
        host_ipc=spec.host_ipc,
        host_network=spec.host_network,
        home=_home(spec) if spec.create_home_dir else "",
        security=_security(spec),
    )


def _exposed(spec: workload_pb2.WorkloadSpec) -> tuple[ExposedPort, ...]:
    """The ports that are to be reached from outside the cluster."""
    return tuple(
        ExposedPort(
            item.label, item.container, item.url, (*item.authorized_users.values,), (*item.authorized_groups.values,)
        )
        for item in spec.exposed_urls
        if item.container and not item.deleted
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
    if spec.tensorboard:
        found.setdefault(TENSORBOARD_PORT, ServedPort(TENSORBOARD_PORT, sidecar=True))
    for each in _exposed(spec):  # also of a private service: it is reached inside the cluster
        found.setdefault(each.container, ServedPort(each.container))
    return tuple(found.values())


def _checkout(git: storage_pb2.GitRepository) -> Checkout:
    """One repository. With a Secret its keys count: `username`, which may be missing, and `password` by default."""
    secrets: list[SecretVariable] = []
    credentials: list[tuple[str, str]] = []
    keys = (
        (_GIT_USER, git.secret_key_of_user, "username", git.username),
        (_GIT_PASSWORD, git.secret_key_of_password, "password", git.password),
    )
    for variable, key, default, value in keys:
        if git.secret_name:
            optional = not key and variable == _GIT_USER
            secrets.append(SecretVariable(variable, git.secret_name, key or default, optional))
        elif value.startswith(SECRET):
            secrets.append(_secret(variable, value))
        elif value:
            credentials.append((variable, value))
    return Checkout(git.repository, git.path, git.branch, git.revision, (*secrets,), (*credentials,))


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

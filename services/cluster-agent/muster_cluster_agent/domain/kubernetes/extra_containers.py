"""Additional containers of a pod: checkouts of repositories before it starts, and TensorBoard while it runs.

Called by `manifests`. Pure. Their images are the cluster's; what they may do is what the workload's own container may.
Holds: no value of a credential is in the pod; none of these containers asks for what the scheduler has not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from muster_cluster_agent.domain.container import TENSORBOARD_PORT, Checkout
from muster_cluster_agent.domain.kubernetes.names import credentials_name, port_name
from muster_cluster_agent.domain.kubernetes.resources import Manifest
from muster_cluster_agent.domain.kubernetes.starts import Mount
from muster_cluster_agent.domain.plan import InvalidCommand, ReplicaPlan

_TENSORBOARD: Final = "tensorboard"
_LOGS: Final = "tensorboard-logs"
_CHECKOUT: Final = "git-"
_WEB: Final = ("--host=0.0.0.0", f"--port={TENSORBOARD_PORT}")


@dataclass(frozen=True, slots=True)
class Images:
    """The images that a cluster gives; empty: what needs one is refused. notebook: has Jupyter; git: git and sh."""

    notebook: str = ""
    tensorboard: str = ""
    git: str = ""


def volumes_of(plan: ReplicaPlan, paths: Iterable[str]) -> Iterator[tuple[Manifest, Manifest]]:
    """Each volume that these containers share with the pod's own, and where both find it.

    paths: where other volumes are or may be mounted. Raises InvalidCommand for a path that is taken, or that no volume
    may have.
    """
    container = plan.container_or_empty
    taken = {*map(_normal, paths)}
    for number, checkout in enumerate(container.checkouts):
        path = _normal(checkout.path)
        if path in taken:
            raise InvalidCommand(f"gitSync checks a repository out into {path}, where something else is mounted")
        taken.add(path)
        name = f"{_CHECKOUT}{number}"
        yield {"name": name, "emptyDir": {}}, {"name": name, "mountPath": path}
    logs = container.tensorboard_logs
    if container.tensorboard and not logs:
        raise InvalidCommand("tensorboard needs the folder whose logs it shows: set tensorboardLogdir")
    if not container.tensorboard or "://" in logs:  # TensorBoard reads an object store by itself
        return
    if not logs.startswith("/") or _normal(logs) == "/" or ":" in logs:
        raise InvalidCommand(
            f"tensorboardLogdir is {logs!r}: name the folder by an absolute path other than / and without a colon"
        )
    if not any(PurePosixPath(logs).is_relative_to(path) for path in taken):
        yield {"name": _LOGS, "emptyDir": {}}, {"name": _LOGS, "mountPath": _normal(logs)}


def containers_of(plan: ReplicaPlan, images: Images, common: Manifest, mounts: Sequence[Manifest]) -> list[Manifest]:
    """The pod's init containers: checkouts in their order, then TensorBoard, which runs as long as the pod's own.

    common: what they have in common with the pod's own container. mounts: the pod's volumes as that one has them.
    Raises InvalidCommand.
    """
    container = plan.container_or_empty
    found = [
        _checkout(plan, number, each, images.git, common, mounts) for number, each in enumerate(container.checkouts)
    ]
    if container.tensorboard:
        found.append(_tensorboard(plan, images.tensorboard, common, mounts))
    return found


def credential_key(number: int, variable: str) -> str:
    """The key in the run's Secret of a credential of a checkout."""
    return f"{_CHECKOUT}{number}-{variable}"


def _checkout(
    plan: ReplicaPlan, number: int, checkout: Checkout, image: str, common: Manifest, mounts: Sequence[Manifest]
) -> Manifest:
    if not image:
        raise InvalidCommand("this cluster gives no image for gitSync: name one in `images.git` of its file")
    name = f"{_CHECKOUT}{number}"
    run_secret = credentials_name(plan.gang, plan.role)
    secrets = [(one.name, one.secret, one.key, one.optional) for one in checkout.secrets]
    secrets += [(variable, run_secret, credential_key(number, variable), False) for variable, _ in checkout.credentials]
    words = (_normal(checkout.path), checkout.repository, checkout.branch, checkout.revision)
    return {
        "name": name,
        "image": image,
        # The kubelet reads $(X) and $$ in words.
        "command": ["/bin/sh", f"{Mount.PROGRAMS}/git.sh", *(word.replace("$", "$$") for word in words)],
        "env": [
            {"name": "HOME", "value": "/tmp"},  # noqa: S108  the image's own may not exist for the pod's user
            *(
                {"name": variable, "valueFrom": {"secretKeyRef": _key_of(secret, key, optional=optional)}}
                for variable, secret, key, optional in secrets
            ),
        ],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            *(mount for mount in mounts if mount["name"] == name),
            {"name": Mount.PROGRAMS.removeprefix("/"), "mountPath": str(Mount.PROGRAMS), "readOnly": True},
        ],
        **common,
    }


def _tensorboard(plan: ReplicaPlan, image: str, common: Manifest, mounts: Sequence[Manifest]) -> Manifest:
    """A native sidecar (Kubernetes 1.29): the kubelet starts it before the pod's own container and ends it after it."""
    logs = plan.container_or_empty.tensorboard_logs
    if not image:
        raise InvalidCommand(
            "this cluster gives no image for tensorboard: name one in `images.tensorboard` of its file"
        )
    if TENSORBOARD_PORT in plan.ports:
        raise InvalidCommand(f"port {TENSORBOARD_PORT} is TensorBoard's own: let the workload listen on another one")
    return {
        "name": _TENSORBOARD,
        "image": image,
        "command": [_TENSORBOARD, f"--logdir={logs.replace('$', '$$')}", *_WEB],
        "restartPolicy": "Always",
        "ports": [{"containerPort": TENSORBOARD_PORT, "name": port_name(TENSORBOARD_PORT)}],
        "volumeMounts": [{**mount, "readOnly": True} for mount in mounts if mount["name"] != "shm"],
        **common,
        # What a sidecar asks for is added to the pod's own, and the scheduler has counted the pod's own alone.
        "resources": {"requests": {"cpu": "0", "memory": "0"}},
    }


def _key_of(secret: str, key: str, *, optional: bool) -> Manifest:
    found: Manifest = {"name": secret, "key": key}
    return {**found, "optional": True} if optional else found


def _normal(path: str) -> str:
    return path.rstrip("/") or "/"

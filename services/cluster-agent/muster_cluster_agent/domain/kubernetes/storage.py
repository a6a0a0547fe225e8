"""The volumes of a plan as the API has them, and the claims that are made for a workload (kubernetes.md 6).

Called by `manifests`, `run_objects` and `workload_objects`. Pure.
Holds: a plan names no ConfigMap, Secret or claim that Muster made for another workload; claims have no owner, so that
no collector of garbage ever erases data (kubernetes.md 20.7).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, assert_never

from muster_cluster_agent.domain.kubernetes.names import label_suffix, workload_base
from muster_cluster_agent.domain.kubernetes.resources import Manifest
from muster_cluster_agent.domain.plan import InvalidCommand, ReplicaPlan
from muster_cluster_agent.domain.storage import (
    ConfigMapFiles,
    EmptyFolder,
    ExistingClaim,
    NewClaim,
    NfsExport,
    NodeFolder,
    SecretFiles,
    Source,
    Volume,
)

_OF_MUSTER: Final = re.compile(r"w-[a-z2-7]{20}(-.*)?|muster-programs-.*|muster-agent")
_HOME_NAME: Final = "home"


def volumes_of(plan: ReplicaPlan) -> Iterator[tuple[Manifest, Manifest]]:
    """Each volume of the user's, and where the container finds it. Raises InvalidCommand for another's object."""
    container = plan.container_or_empty
    for number, volume in enumerate(container.volumes):
        name = f"v{number}"
        mount: Manifest = {"name": name, "mountPath": volume.path}
        if volume.read_only:
            mount["readOnly"] = True
        if isinstance(volume.source, NodeFolder) and volume.source.follows:
            mount["mountPropagation"] = "HostToContainer"
        yield {"name": name, **_source(plan, volume)}, mount
    if container.home and container.home not in paths_of(plan):
        yield {"name": _HOME_NAME, "emptyDir": {}}, {"name": _HOME_NAME, "mountPath": container.home}


def paths_of(plan: ReplicaPlan) -> frozenset[str]:
    """Where the user's own volumes are mounted: nothing of Muster's takes the same place."""
    volumes = plan.container_or_empty.volumes
    return frozenset(volume.path.rstrip("/") or "/" for volume in volumes)


def blocks_of(plan: ReplicaPlan) -> frozenset[str]:
    """Names of the plan's volumes that are raw devices and no file systems."""
    volumes = plan.container_or_empty.volumes
    sources = ((f"v{number}", volume.source) for number, volume in enumerate(volumes))
    return frozenset(name for name, source in sources if isinstance(source, NewClaim | ExistingClaim) and source.block)


def check_names(plan: ReplicaPlan) -> None:
    """Raises InvalidCommand where the plan names an object that Muster made for another workload."""
    container = plan.container_or_empty
    variables = (*container.secrets, *(one for each in container.checkouts for one in each.secrets))
    named = [("Secret", one.secret) for one in variables] + [("Secret", one) for one in container.pull_secrets]
    for kind, name in named:
        _check(plan, kind, name)
    for volume in container.volumes:
        match volume.source:
            case ConfigMapFiles(name=name):
                _check(plan, "ConfigMap", name)
            case SecretFiles(name=name):
                _check(plan, "Secret", name)
            case ExistingClaim(name=name) | NewClaim(name=name):
                _check(plan, "claim", name)
            case EmptyFolder() | NfsExport() | NodeFolder():
                continue


def claims_of(plan: ReplicaPlan, *, ephemeral: bool) -> tuple[tuple[str, Manifest], ...]:
    """Name and spec of each claim that is made: those that go with the run, or those that outlive it."""
    return tuple(
        (_claim_name(plan, volume, volume.source), _claim_spec(volume.source))
        for volume in plan.container_or_empty.volumes
        if isinstance(volume.source, NewClaim) and volume.source.ephemeral == ephemeral
    )


def _check(plan: ReplicaPlan, kind: str, name: str) -> None:
    base = workload_base(plan.workload_id)
    own = name == base or name.startswith(f"{base}-")
    if _OF_MUSTER.fullmatch(name) and not own:
        raise InvalidCommand(f"it names {kind} {name}, which is Muster's own; name one of your project's")


def _source(plan: ReplicaPlan, volume: Volume) -> Manifest:
    source: Source = volume.source
    match source:
        case ConfigMapFiles(name=name):
            return {"configMap": {"name": name}}
        case SecretFiles(name=name):
            return {"secret": {"secretName": name}}
        case EmptyFolder():
            return {"emptyDir": {}}
        case NfsExport(server=server, path=path):
            return {"nfs": {"server": server, "path": path, "readOnly": volume.read_only}}
        case NodeFolder(path=path):
            return {"hostPath": {"path": path}}
        case ExistingClaim(name=name):
            return {"persistentVolumeClaim": {"claimName": name, "readOnly": volume.read_only}}
        case NewClaim():
            claim = _claim_name(plan, volume, source)
            return {"persistentVolumeClaim": {"claimName": claim, "readOnly": volume.read_only}}
    assert_never(source)


def _claim_name(plan: ReplicaPlan, volume: Volume, claim: NewClaim) -> str:
    if claim.ephemeral:
        return f"{plan.gang}-{label_suffix(volume.label)}"
    return claim.name or f"{workload_base(plan.workload_id)}-{label_suffix(volume.label)}"


def _claim_spec(claim: NewClaim) -> Manifest:
    spec: Manifest = {"accessModes": list(claim.modes), "resources": {"requests": {"storage": claim.size}}}
    if claim.storage_class:
        spec["storageClassName"] = claim.storage_class
    return {**spec, "volumeMode": "Block"} if claim.block else spec

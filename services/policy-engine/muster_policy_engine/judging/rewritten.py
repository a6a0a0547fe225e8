"""What YAML says in one place and the language writes into another before anything is judged.

`serviceType` and `mountPropagation` are said once for all items, `preemptible` stands for a class, and a volume of an
NFS server becomes an item of `nfs`, which is still the same item. Used by the rules and by what leaves a place out.
Holds: nothing that is given is changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from muster.workload.v1 import storage_pb2
from muster_language import Row, WorkloadSpec, catalogue
from muster_language.labels import label_of
from muster_policy_engine.judging.values import value_of

_VOLUMES: Final = "volumes"
_NFS: Final = "nfs"
_SERVER: Final = "server"
_NFS_SERVER: Final = "nfs_server"
_KEPT: Final = ("path", "mount_path", "read_only")
_MASTER: Final = "master_spec"
_PROPAGATION: Final = "mount_propagation"

STANDS_FOR: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "priority_class": ("preemptible", "non_preemptible"),
        "uid_gid_source": ("run_as_user",),
        "ports.service_type": ("service_type",),
        "volumes.mount_propagation": ("mount_propagation",),
    }
)
"""Fields and members of items, and the fields from which the language derives them."""
MEMBERS_OF: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({_SERVER: (_SERVER, _NFS_SERVER)})
"""Members of items, and those that the language moves into them."""
_MOVED: Final[Mapping[str, str]] = MappingProxyType({_NFS_SERVER: _SERVER})


def labels_that_move(specs: Iterable[WorkloadSpec]) -> frozenset[str]:
    """The labels of the volumes of NFS servers: an item of `nfs` with such a label is the volume."""
    roles = (role for spec in specs for role in _roles(spec))
    return frozenset(label_of(volume) for role in roles for volume in role.volumes if _is_remote(volume))


def fields_of(row: Row, label: str, moving: Collection[str]) -> tuple[str, ...]:
    """The fields that may have the item of that label, which is one of the row's. moving: labels that move."""
    if row.name == _NFS:
        return _NFS, _VOLUMES
    return (_VOLUMES, _NFS) if row.name == _VOLUMES and label in moving else (row.name,)


def labelled(role: Any, row: Row, moving: Collection[str]) -> dict[str, tuple[str, Any]]:
    """The items of a field by label, each with the path of the field that has it: a volume may be among `nfs`."""
    found = {item.label: (row.path, item) for item in getattr(role, row.name)}
    if row.name == _VOLUMES:
        nfs = catalogue().by_name[_NFS]
        for item in role.nfs:
            if item.label in moving:
                found.setdefault(item.label, (nfs.path, item))
    return found


def member_of(row: Row, item: Any) -> Any:
    """The value of a member in an item, which may have moved to another field since; None where it is not said."""
    known = item.DESCRIPTOR.fields_by_name
    if row.name in known:
        return value_of(row, item)
    name = _MOVED.get(row.name, row.name)
    return getattr(item, name) if name in known and item.HasField(name) else None


def moved(spec: WorkloadSpec) -> WorkloadSpec:
    """The spec with its volumes of NFS servers among `nfs`, as the language moves them; itself where it has none."""
    if not any(_is_remote(volume) for role in _roles(spec) for volume in role.volumes):
        return spec
    made = WorkloadSpec()
    made.CopyFrom(spec)
    for role in _roles(made):
        role.nfs.extend(_as_nfs(role, volume) for volume in role.volumes if _is_remote(volume))
        local = [volume for volume in role.volumes if not _is_remote(volume)]
        del role.volumes[:]
        role.volumes.extend(local)
    return made


def without_replaced(spec: WorkloadSpec, given: Iterable[WorkloadSpec]) -> WorkloadSpec:
    """The defaults without the volumes of NFS servers that users give as items of `nfs`, as effective specs do."""
    labels = {label_of(item) for each in given for role in _roles(each) for item in role.nfs}
    if not labels & labels_that_move([spec]):
        return spec
    made = WorkloadSpec()
    made.CopyFrom(spec)
    for role in _roles(made):
        left = [each for each in role.volumes if not (_is_remote(each) and label_of(each) in labels)]
        del role.volumes[:]
        role.volumes.extend(left)
    return made


def spelled_out(spec: WorkloadSpec) -> WorkloadSpec:
    """The spec with a `mountPropagation: false` of all volumes in each that does not say it; itself without one.

    The language leaves it at the role, since it is what a volume that says nothing has. Rules ask for what is said.
    """
    if not any(_is_closed(role) for role in _roles(spec)):
        return spec
    made = WorkloadSpec()
    made.CopyFrom(spec)
    for role in filter(_is_closed, _roles(made)):
        for volume in role.volumes:
            if not volume.HasField(_PROPAGATION):
                volume.mount_propagation = storage_pb2.MOUNT_PROPAGATION_NONE
    return made


def _is_closed(role: Any) -> bool:
    return bool(role.volumes) and role.HasField(_PROPAGATION) and not role.mount_propagation


def _roles(spec: Any) -> tuple[Any, ...]:
    return (spec, spec.master_spec) if spec.HasField(_MASTER) else (spec,)


def _is_remote(volume: Any) -> bool:
    return bool(volume.HasField(_NFS_SERVER))


def _as_nfs(role: Any, volume: Any) -> Any:
    item = type(role)().nfs.add(label=volume.label, server=volume.nfs_server)
    for name in _KEPT:
        if volume.HasField(name):
            setattr(item, name, getattr(volume, name))
    return item

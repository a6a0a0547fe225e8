"""The volumes of a spec as the domain's values.

Called by `containers`. Raises ValueError for amounts that are none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeVar

from muster.workload.v1 import storage_pb2, workload_pb2
from muster_cluster_agent.domain.storage import (
    ConfigMapFiles,
    EmptyFolder,
    ExistingClaim,
    NewClaim,
    NfsExport,
    NodeFolder,
    SecretFiles,
    Volume,
)
from muster_kernel.quantities import parse_bytes

T = TypeVar("T", bound=Any)  # an item of the spec: each message has `deleted`
_FOLLOWS: Final = storage_pb2.MOUNT_PROPAGATION_HOST_TO_CONTAINER


def volumes(spec: workload_pb2.WorkloadSpec) -> tuple[Volume, ...]:
    """Every volume that the spec mounts, in the order of its fields."""
    return (
        *(_claim(each) for each in _left(spec.pvcs)),
        *(
            Volume(each.label, each.mount_path, NfsExport(each.server, each.path), each.read_only)
            for each in _left(spec.nfs)
        ),
        *(_host_path(each, everywhere=spec.mount_propagation) for each in _left(spec.volumes)),
        *(
            Volume(each.label, each.mount_path, ConfigMapFiles(each.config_map), read_only=True)
            for each in _left(spec.config_map_volumes)
        ),
        *(
            Volume(each.label, each.mount_path, SecretFiles(each.secret), read_only=True)
            for each in _left(spec.secret_volumes)
        ),
        *(Volume(each.label, each.mount_path, ExistingClaim(each.id)) for each in _left(spec.data_volumes)),
        *(Volume(each.label, each.path, EmptyFolder()) for each in _left(spec.empty_dir_volumes)),
    )


def _left(items: Iterable[T]) -> Iterable[T]:
    """Without the items that a layer has taken out."""
    return (item for item in items if not item.deleted)


def _host_path(folder: storage_pb2.HostPath, *, everywhere: bool) -> Volume:
    if folder.nfs_server:
        source: NfsExport | NodeFolder = NfsExport(folder.nfs_server, folder.path)
    else:
        source = NodeFolder(folder.path, everywhere or folder.mount_propagation == _FOLLOWS)
    return Volume(folder.label, folder.mount_path, source, folder.read_only)


def _claim(claim: storage_pb2.PersistentVolumeClaim) -> Volume:
    block = claim.volume_mode == storage_pb2.VOLUME_MODE_BLOCK
    if claim.existing_pvc:
        return Volume(claim.label, claim.path, ExistingClaim(claim.claim_name, block), claim.read_only)
    asked = {
        "ReadWriteOnce": claim.read_write_once,
        "ReadOnlyMany": claim.read_only_many,
        "ReadWriteMany": claim.read_write_many,
    }
    made = NewClaim(
        size=str(parse_bytes(claim.size)),
        name=claim.claim_name,
        storage_class=claim.storage_class,
        modes=tuple(mode for mode, wanted in asked.items() if wanted) or ("ReadWriteOnce",),
        block=block,
        ephemeral=claim.ephemeral,
    )
    return Volume(claim.label, claim.path, made, claim.read_only)

"""The volumes of a pod template and where its container mounts them, as the storage fields of the language.

Called by PodReader. A volume that nothing mounts is left out; one that is mounted twice becomes two items.
"""

from __future__ import annotations

from typing import Any, Final

from muster_language.documents.nodes import Mapping, Node, Scalar, entry
from muster_language.kubernetes.pods import Pod

_SHM: Final = "/dev/shm"  # noqa: S108 - the path of shared memory in every container
_SOURCES: Final = ("hostPath", "nfs", "persistentVolumeClaim", "configMap", "secret", "emptyDir")
_MEMBERS: Final = {
    "hostPath": ("path", "type"),
    "nfs": ("server", "path", "readOnly"),
    "persistentVolumeClaim": ("claimName", "readOnly"),
    "configMap": ("name",),
    "secret": ("secretName",),
    "emptyDir": ("medium", "sizeLimit"),
}


def read_volumes(pod: Pod, node: Node, path: str) -> dict[str, tuple[Mapping, str]]:
    """The volumes by name, each with its path."""
    found = {}
    for volume, here in pod.listed(node, path):
        pod.findings.unknown(volume, ["name", *_SOURCES], f"{here}.")
        found[pod.text(volume, "name", here)] = (volume, here)
    return found


def read_mounts(pod: Pod, node: Node, path: str) -> None:
    """The mounts of the container."""
    for mount, here in pod.listed(node, path):
        pod.findings.unknown(mount, ["name", "mountPath", "readOnly"], f"{here}.")
        name = pod.text(mount, "name", here)
        if name in pod.volumes:
            _mount(pod, mount, here, *pod.volumes[name])
        else:
            pod.findings.say(
                f"{here}.name", mount, f"there is no volume {name}", ", ".join(pod.volumes) or "volumes: []"
            )


def _mount(pod: Pod, mount: Mapping, path: str, volume: Mapping, at: str) -> None:
    sources = [(word, found[1]) for word in _SOURCES if (found := entry(volume, word))]
    word, inner = sources[0] if sources else ("", volume)
    if not word or not isinstance(inner, Mapping):
        pod.findings.say(at, volume, "a volume of this kind has no field of the language", ", ".join(_SOURCES))
        return
    here = f"{at}.{word}"
    pod.findings.unknown(inner, _MEMBERS[word], f"{here}.")
    name, place = pod.text(volume, "name", at), pod.text(mount, "mountPath", path)
    label = name if not any(item.label == name for item in _all(pod)) else f"{name}-{len(_all(pod))}"
    read_only = _true(mount, "readOnly") or _true(inner, "readOnly")
    match word:
        case "hostPath":
            source_path = pod.text(inner, "path", here)
            pod.spec.volumes.add(label=label, path=source_path, mount_path=place, read_only=read_only)
        case "nfs":
            server, source_path = pod.text(inner, "server", here), pod.text(inner, "path", here)
            pod.spec.nfs.add(label=label, server=server, path=source_path, mount_path=place, read_only=read_only)
        case "persistentVolumeClaim":
            claim = pod.text(inner, "claimName", here)
            pod.spec.pvcs.add(label=label, claim_name=claim, existing_pvc=True, path=place, read_only=read_only)
        case "configMap":
            pod.spec.config_map_volumes.add(label=label, config_map=pod.text(inner, "name", here), mount_path=place)
        case "secret":
            pod.spec.secret_volumes.add(label=label, secret=pod.text(inner, "secretName", here), mount_path=place)
        case _:
            _empty(pod, inner, here, label, place)


def _empty(pod: Pod, inner: Mapping, path: str, label: str, place: str) -> None:
    if place == _SHM:
        pod.spec.large_shm = True
    elif pod.text(inner, "medium", path):
        pod.findings.say(path, inner, "a folder in memory has no field of the language", f"at {_SHM} alone")
    else:
        pod.spec.empty_dir_volumes.add(label=label, path=place)


def _all(pod: Pod) -> list[Any]:
    spec = pod.spec
    lists = (spec.volumes, spec.nfs, spec.pvcs, spec.config_map_volumes, spec.secret_volumes, spec.empty_dir_volumes)
    return [item for items in lists for item in items]


def _true(node: Mapping, member: str) -> bool:
    found = entry(node, member)
    return found is not None and isinstance(found[1], Scalar) and found[1].text.casefold() == "true"

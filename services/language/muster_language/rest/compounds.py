"""What REST says in other pieces than the typed spec: GPU request types, user ids, affinity, the serving port, secrets.

Called by `rest` after the members were read one by one, and before they are written. Holds: a member that its own
body makes meaningless is taken out and said as a warning; what one channel says twice is written once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from muster.workload.v1 import storage_pb2 as storage
from muster.workload.v1 import workload_pb2 as wl
from muster_language.catalogue import catalogue
from muster_language.labels import label_of
from muster_language.rest.reader import BodyReader
from muster_language.rest.tree import Branch, serving_port
from muster_language.rest.values import given
from muster_language.spec import WorkloadSpec

_SECRET: Final = re.compile(r"SECRET:[^,]+,.+", re.DOTALL)
_SECRET_MEMBERS: Final = ("name", "key")
_LONGEST: Final = 253
_BY_TYPE: Final = {
    wl.GPU_REQUEST_TYPE_PORTION: ("gpu_portion_request", "gpu_portion_limit"),
    wl.GPU_REQUEST_TYPE_MEMORY: ("gpu_memory_request", "gpu_memory_limit"),
    wl.GPU_REQUEST_TYPE_MIG_PROFILE: ("mig_profile",),
}


def _unselected(spec: WorkloadSpec) -> Iterator[str]:
    """Takes out the members of GPU request types that gpuRequestType does not select."""
    selected = _BY_TYPE.get(spec.gpu_request_type)
    if selected is None:
        return
    for names in _BY_TYPE.values():
        for name in names:
            if name not in selected and spec.HasField(name):  # type: ignore[arg-type]
                spec.ClearField(name)  # type: ignore[arg-type]
                word = next(row.words for row in catalogue().rows if row.name == "gpu_request_type")
                kind = word.by_number[spec.gpu_request_type] if word else ""
                yield f"{_rest(name)} is ignored, since gpuRequestType is {kind}"


def _unused_ids(spec: WorkloadSpec) -> Iterator[str]:
    if not spec.HasField("uid_gid_source") or spec.uid_gid_source == wl.UID_GID_SOURCE_CUSTOM:
        return
    for name in ("run_as_uid", "run_as_gid"):
        if spec.HasField(name):
            spec.ClearField(name)
            yield f"{_rest(name)} is ignored, since uidGidSource is not custom"


def read_spec(reader: BodyReader, branch: Branch, said: Mapping[str, Any], spec: WorkloadSpec, path: str) -> None:
    """Reads the JSON object of a spec or master spec, its secrets apart."""
    members = dict(said)
    variables = members.get("environmentVariables")
    if isinstance(variables, list):
        members["environmentVariables"] = [_without_secret(each) for each in variables]
    reader.members(branch, members, spec, path)
    if isinstance(variables, list):
        for index, (each, item) in enumerate(zip(variables, spec.environment, strict=False)):
            if isinstance(each, Mapping):
                _secret(reader, each, item, f"{path}.environmentVariables[{index}]")
    if isinstance(said.get("podAffinity"), Mapping):
        spec.pod_affinity = True
    if isinstance(said.get("podAntiAffinity"), Mapping):
        spec.pod_anti_affinity = True
    for message in (*_unselected(spec), *_unused_ids(spec)):
        reader.findings.warnings.append(f"{path}.{message}")


def _without_secret(said: Any) -> Any:
    return {name: value for name, value in said.items() if name != "secret"} if isinstance(said, Mapping) else said


def _secret(reader: BodyReader, said: Mapping[str, Any], item: wl.EnvironmentVariable, path: str) -> None:
    """A secret stands in the typed spec as YAML writes it; a text that only looks like one is refused."""
    secret = said.get("secret")
    if item.HasField("value") and _SECRET.fullmatch(item.value):
        reader.findings.say(f"{path}.value", "this form of a secret is YAML's", 'secret: {"name": .., "key": ..}')
    if secret is None:
        return
    if item.HasField("value"):
        reader.findings.warnings.append(f"{path}.value is ignored, since the variable comes from a secret")
    if not isinstance(secret, Mapping):
        reader.findings.say(f"{path}.secret", f"{given(secret)} stands here", "an object")
        return
    for name in secret:
        if name not in _SECRET_MEMBERS:
            reader.findings.unknown(f"{path}.secret.{name}", name, list(_SECRET_MEMBERS))
    parts = [_secret_part(reader, secret.get(name), f"{path}.secret.{name}") for name in _SECRET_MEMBERS]
    if all(parts):
        item.value = f"SECRET:{','.join(parts)}"


def _secret_part(reader: BodyReader, value: Any, path: str) -> str:
    if isinstance(value, str) and value and len(value) <= _LONGEST and "," not in value:
        return value
    said = "it is missing" if value is None else f"{given(value) or 'an empty text'} stands here"
    reader.findings.say(path, said, f"a text of at most {_LONGEST} characters without commas")
    return ""


def secret_of(item: wl.EnvironmentVariable) -> dict[str, str] | None:
    """The secret from which a variable takes its text."""
    if not _SECRET.fullmatch(item.value):
        return None
    return dict(zip(_SECRET_MEMBERS, item.value.removeprefix("SECRET:").split(",", 1), strict=True))


def read_serving_port(reader: BodyReader, value: Any, spec: WorkloadSpec, path: str) -> None:
    """Makes `servingPort` the first port of the service."""
    port = wl.Port()
    reader.members(serving_port(), value, port, path)
    if not isinstance(value, Mapping):
        return
    if not port.container:
        if value.get("container") is None:
            reader.findings.say(f"{path}.container", "it is missing", "servingPort needs container")
        return
    ports = list(spec.ports)
    same = next((each for each in ports if each.container == port.container and not each.deleted), None)
    first = wl.Port()
    first.MergeFrom(port if same is None else same)
    if port.HasField("protocol"):
        first.protocol = port.protocol
    del spec.ports[:]
    spec.ports.extend([first, *(each for each in ports if each is not same)])


def serving(spec: WorkloadSpec) -> tuple[dict[str, Any], bool]:
    """The members of `servingPort`, and whether the first port has more to say than they can."""
    first = next((port for port in spec.ports if not port.deleted), None)
    if first is None or not first.container:
        return {}, True
    members: dict[str, Any] = {"container": first.container}
    if first.HasField("protocol"):
        words = next(row.words for row in catalogue().by_name["ports"].inside if row.name == "protocol")
        members["protocol"] = words.by_number[first.protocol] if words else ""
    bare = wl.Port(container=first.container)
    plain = not first.label and {each.name for each, _ in first.ListFields()} <= {"container", "protocol"}
    return members, not (plain and label_of(first) == label_of(bare))


def for_rest(spec: WorkloadSpec) -> WorkloadSpec:
    """The spec as REST would have said it: what YAML says once for all is written where REST has it."""
    same = WorkloadSpec()
    same.CopyFrom(spec)
    _gpu(same)
    _identity(same)
    _volumes(same)
    for port in same.ports:
        if spec.HasField("service_type") and not port.HasField("service_type") and not port.deleted:
            port.service_type = spec.service_type
    if spec.preemptible and not spec.HasField("priority_class"):
        same.priority_class = "interactive-preemptible"
    if spec.HasField("master_spec"):
        same.master_spec.CopyFrom(for_rest(spec.master_spec))
    return same


def _gpu(spec: WorkloadSpec) -> None:
    """Writes out what the members imply: the type, the one device of a portion, the whole portion of devices."""
    if spec.HasField("gpu_portion_request") and not spec.HasField("gpu_devices_request"):
        spec.gpu_devices_request = 1
    if not spec.HasField("gpu_request_type"):
        implied = [kind for kind, names in _BY_TYPE.items() if spec.HasField(names[0])]  # type: ignore[arg-type]
        if spec.gpu_devices_request and not implied:
            implied, spec.gpu_portion_request = [wl.GPU_REQUEST_TYPE_PORTION], 1
        if implied:
            spec.gpu_request_type = implied[0]


def _identity(spec: WorkloadSpec) -> None:
    if not spec.HasField("run_as_user") or spec.HasField("uid_gid_source"):
        return
    ids = spec.HasField("run_as_uid") or spec.HasField("run_as_gid")
    if spec.run_as_user:
        spec.uid_gid_source = wl.UID_GID_SOURCE_CUSTOM if ids else wl.UID_GID_SOURCE_FROM_IDP_TOKEN
    else:
        spec.uid_gid_source = wl.UID_GID_SOURCE_FROM_THE_IMAGE


def _volumes(spec: WorkloadSpec) -> None:
    """A volume with a server is NFS; the rest are folders of the node, which may share one propagation."""
    folders = list(spec.volumes)
    del spec.volumes[:]
    for each in folders:
        if each.HasField("nfs_server"):
            moved = spec.nfs.add(server=each.nfs_server)
            moved.label = each.label
            for name in ("path", "mount_path", "read_only", "deleted"):
                if each.HasField(name):
                    setattr(moved, name, getattr(each, name))
            continue
        if spec.mount_propagation and not each.HasField("mount_propagation") and not each.deleted:
            each.mount_propagation = storage.MOUNT_PROPAGATION_HOST_TO_CONTAINER
        spec.volumes.append(each)


def _rest(name: str) -> str:
    return catalogue().by_name[name].rest

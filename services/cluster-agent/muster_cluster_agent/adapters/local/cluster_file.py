"""The file that declares a local cluster: nodes, devices, what others hold, what the cluster can do.

Read when the agent starts and again whenever the file changes. docs/guides describe it for people.
Holds: a file with any error is refused as a whole, with every error named; a counted device list always gives the
same UUIDs.
"""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from muster_cluster_agent.adapters import values
from muster_cluster_agent.adapters.file_reader import KUBERNETES_BACKEND, LOCAL_BACKEND, Reader, load
from muster_cluster_agent.adapters.local import access
from muster_cluster_agent.adapters.local.access import NOTHING, Access
from muster_cluster_agent.adapters.local.support import LOCAL
from muster_cluster_agent.domain.budgets import RESERVE, Defaults, processes_of
from muster_cluster_agent.domain.fleet import Device, Foreign, Identity, Mig, NodeState, Profile, SlotGroup, Taint
from muster_cluster_agent.domain.model import Slice
from muster_cluster_agent.errors import ClusterFileError

DEFAULT_POOL: Final = "default"
_DERIVED: Final = uuid.UUID("6d757374-6572-5000-8000-64657669636e")
_LEAST_DEAD_MAN: Final = 1.0
_TOP: Final = frozenset(
    {
        "backend",
        "cluster",
        "devices",
        "pool_label",
        "node_gone_after",
        "dead_man",
        "log_budget",
        "profile",
        "nodes",
        "foreign",
    }
    | {"budgets"}
    | access.KEYS
)
_NODE: Final = frozenset(
    {"name", "labels", "taints", "cpu", "memory", "state", "drain_deadline", "devices", "anonymous"}
    | {"resources", "maintenance"}
)
_DEVICE: Final = frozenset({"uuid", "model", "memory", "healthy", "trouble", "mig"})
_COUNTED: Final = frozenset({"count", "model", "memory"})
_FOREIGN: Final = frozenset({"node", "cpu", "memory", "devices", "anonymous", "resources"})
_PROFILE: Final = frozenset({"identity", "portions", "memory_requests", "memory_isolation", "mig"})
_BUDGETS: Final = frozenset({"memory", "processes", "disk", "disk_reserve"})
_LEAST_MEMORY: Final = 16 << 20  # less does not hold an interpreter
_LEAST_PROCESSES: Final = 16
_STATES: Final = ("READY", "CORDONED", "DRAINING", "OUT_OF_SERVICE")


@dataclass(frozen=True, slots=True)
class DeclaredNode:
    """A node as the file has it."""

    name: str
    labels: tuple[tuple[str, str], ...]
    taints: tuple[Taint, ...]
    cpu_milli: int
    memory_bytes: int
    state: NodeState
    drain_deadline: float | None
    devices: tuple[Device, ...]
    slots: tuple[SlotGroup, ...]
    foreign: Foreign
    pool: str
    extended: tuple[tuple[str, int], ...] = ()
    maintenance: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterFile:
    """The whole file.

    Times in seconds, log_budget in bytes a replica; dead_man None: there is no dead-man's deadline.
    """

    cluster: str
    nvml: bool
    node_gone_after: float
    dead_man: float | None
    log_budget: int
    profile: Profile
    nodes: tuple[DeclaredNode, ...]
    budgets: Defaults = field(default_factory=Defaults)
    access: Access = NOTHING


def parse(text: str, *, where: str) -> ClusterFile:
    """The file's content. Raises ClusterFileError with every error that was found; `where` names the file in them."""
    document = load(text, where=where)
    reader = Reader()
    result = _cluster(reader, document)
    if reader.errors or result is None:
        raise ClusterFileError("\n".join(f"{where}: {error}" for error in reader.errors))
    return result


def _cluster(reader: Reader, document: Any) -> ClusterFile | None:
    top = reader.mapping(document, "file", _TOP)
    reader.get(top, "backend", "file", values.choice(LOCAL_BACKEND, KUBERNETES_BACKEND), LOCAL_BACKEND)
    name = reader.get(top, "cluster", "file", values.text, "")
    if not name:
        reader.errors.append("file.cluster: the cluster's id is required")
    profile = _profile(reader, top.get("profile") or {})
    foreign = _foreign(reader, top.get("foreign"))
    pool_label = reader.get(top, "pool_label", "file", values.text, "muster.io/pool")
    nodes = [
        _node(reader, raw, f"nodes[{index}]", name, pool_label, foreign)
        for index, raw in enumerate(reader.items(top.get("nodes"), "nodes"))
    ]
    _check_nodes(reader, nodes, foreign)
    dead_man = reader.get(top, "dead_man", "file", values.seconds, 0.0) or None
    if dead_man is not None and dead_man < _LEAST_DEAD_MAN:
        reader.errors.append(f"file.dead_man: {dead_man} s; at least {_LEAST_DEAD_MAN} s, or leave it out")
    return ClusterFile(
        cluster=name,
        nvml=reader.get(top, "devices", "file", values.choice("declared", "nvml"), "declared") == "nvml",
        node_gone_after=reader.get(top, "node_gone_after", "file", values.seconds, 900.0),
        dead_man=dead_man,
        log_budget=reader.get(top, "log_budget", "file", values.in_bytes, 16 << 20),
        profile=profile,
        nodes=tuple(nodes),
        budgets=_budgets(reader, top.get("budgets") or {}),
        access=access.read(reader, top),
    )


def _budgets(reader: Reader, raw: Any) -> Defaults:
    """What a replica may use at most where its workload does not say it."""
    source = reader.mapping(raw, "budgets", _BUDGETS)
    found = Defaults(
        memory=reader.get(source, "memory", "budgets", values.in_bytes, 0),
        processes=reader.get(source, "processes", "budgets", values.count, processes_of(len(os.sched_getaffinity(0)))),
        disk=reader.get(source, "disk", "budgets", values.in_bytes, 0),
        disk_reserve=reader.get(source, "disk_reserve", "budgets", values.in_bytes, RESERVE),
    )
    if found.memory and found.memory < _LEAST_MEMORY:
        reader.errors.append(f"budgets.memory: {found.memory} bytes; at least {_LEAST_MEMORY}, or leave it out")
    if found.processes < _LEAST_PROCESSES:
        reader.errors.append(f"budgets.processes: {found.processes}; at least {_LEAST_PROCESSES}, or leave it out")
    return found


def _check_nodes(reader: Reader, nodes: list[DeclaredNode], foreign: Mapping[str, Foreign]) -> None:
    if not nodes:
        reader.errors.append("file.nodes: at least one node is required")
    names = [node.name for node in nodes]
    uuids = [device.uuid for node in nodes for device in node.devices]
    reader.errors.extend(f"nodes: {name!r} stands twice" for name in _twice(names))
    reader.errors.extend(f"devices: {one!r} stands twice" for one in _twice(uuids))
    reader.errors.extend(f"foreign: there is no node {name!r}" for name in sorted(set(foreign) - set(names)))


def _twice(names: Iterable[str]) -> list[str]:
    return sorted(name for name, times in Counter(names).items() if times > 1)


def _profile(reader: Reader, raw: Any) -> Profile:
    source = reader.mapping(raw, "profile", _PROFILE)
    return Profile(
        backend=LOCAL_BACKEND,
        identity=reader.get(source, "identity", "profile", values.member(Identity), Identity.UUID),
        portions=reader.get(source, "portions", "profile", values.flag, True),
        memory_requests=reader.get(source, "memory_requests", "profile", values.flag, True),
        memory_isolation=reader.get(source, "memory_isolation", "profile", values.flag, False),
        mig=reader.get(source, "mig", "profile", values.member(Mig), Mig.NONE),
        ignored_fields=LOCAL.ignored_words,
        refused_fields=LOCAL.refused_words,
        service_types=("local",),
    )


def _slots(reader: Reader, raw: Any, path: str) -> tuple[SlotGroup, ...]:
    source = reader.mapping(raw or {}, path, _COUNTED)
    group = SlotGroup(
        "",
        count=reader.get(source, "count", path, values.slots, 0),
        model=reader.get(source, "model", path, values.text, ""),
        memory_bytes=reader.get(source, "memory", path, values.in_bytes, 0),
    )
    return (group,) if group.count else ()


def _foreign(reader: Reader, raw: Any) -> dict[str, Foreign]:
    held = {}
    for index, item in enumerate(reader.items(raw, "foreign")):
        path = f"foreign[{index}]"
        source = reader.mapping(item, path, _FOREIGN)
        held[reader.get(source, "node", path, values.text, "")] = Foreign(
            cpu_milli=reader.get(source, "cpu", path, values.in_milli_cpu, 0),
            memory_bytes=reader.get(source, "memory", path, values.in_bytes, 0),
            devices=reader.get(source, "devices", path, values.words, ()),
            slots=(("", taken),) if (taken := reader.get(source, "anonymous", path, values.count, 0)) else (),
            extended=_resources(reader, source, path),
        )
    return held


def _node(
    reader: Reader, raw: Any, path: str, cluster: str, pool_label: str, foreign: Mapping[str, Foreign]
) -> DeclaredNode:
    source = reader.mapping(raw, path, _NODE)
    name = reader.get(source, "name", path, values.text, "")
    if not name:
        reader.errors.append(f"{path}.name: a node needs a name")
    labels: dict[str, str] = reader.get(source, "labels", path, values.texts, {})
    return DeclaredNode(
        name=name,
        labels=tuple(sorted(labels.items())),
        taints=tuple(
            _taint(reader, one, f"{path}.taints") for one in reader.items(source.get("taints"), f"{path}.taints")
        ),
        cpu_milli=reader.get(source, "cpu", path, values.in_milli_cpu, 8000),
        memory_bytes=reader.get(source, "memory", path, values.in_bytes, 32 << 30),
        state=reader.get(source, "state", path, lambda v: NodeState[values.choice(*_STATES)(v)], NodeState.READY),
        drain_deadline=reader.get(source, "drain_deadline", path, values.moment, 0.0) or None,
        devices=_devices(reader, source.get("devices"), f"{path}.devices", f"{cluster}/{name}"),
        slots=_slots(reader, source.get("anonymous"), f"{path}.anonymous"),
        foreign=foreign.get(name, Foreign()),
        pool=labels.get(pool_label, DEFAULT_POOL),
        extended=_resources(reader, source, path),
        maintenance=tuple(
            _window(reader, one, f"{path}.maintenance[{number}]")
            for number, one in enumerate(reader.items(source.get("maintenance"), f"{path}.maintenance"))
        ),
    )


def _window(reader: Reader, raw: Any, path: str) -> tuple[float, float]:
    """When the node has to be empty, from and to."""
    source = reader.mapping(raw, path, frozenset({"from", "to"}))
    start, end = (reader.get(source, key, path, values.moment, 0.0) for key in ("from", "to"))
    if not 0 < start < end:
        reader.errors.append(f"{path}: expected two times, from before to")
    return start, end


def _resources(reader: Reader, source: Mapping[str, Any], path: str) -> tuple[tuple[str, int], ...]:
    """Resources beside CPU, memory and GPUs, by name: a number, or a quantity such as 100Gi."""
    given = source.get("resources") or {}
    if not isinstance(given, dict):
        reader.errors.append(f"{path}.resources: expected names with amounts, not {given!r}")
        return ()
    where = f"{path}.resources"
    return tuple(sorted((str(name), reader.get(given, name, where, values.amount, 0)) for name in given))


def _taint(reader: Reader, raw: Any, path: str) -> Taint:
    source = reader.mapping(raw, path, frozenset({"key", "value", "effect"}))
    return Taint(
        key=reader.get(source, "key", path, values.text, ""),
        value=reader.get(source, "value", path, values.text, ""),
        effect=reader.get(
            source, "effect", path, values.choice("NoSchedule", "PreferNoSchedule", "NoExecute"), "NoSchedule"
        ),
    )


def _devices(reader: Reader, raw: Any, path: str, seed: str) -> tuple[Device, ...]:
    if isinstance(raw, dict):
        source = reader.mapping(raw, path, _COUNTED)
        model = reader.get(source, "model", path, values.text, "")
        memory = reader.get(source, "memory", path, values.in_bytes, 0)
        count = reader.get(source, "count", path, values.slots, 0)
        return tuple(Device(derived_uuid(f"{seed}/{slot}"), model, memory, slot) for slot in range(count))
    return tuple(
        _device(reader, one, f"{path}[{slot}]", slot, seed) for slot, one in enumerate(reader.items(raw, path))
    )


def derived_uuid(seed: str) -> str:
    """The UUID of a device that was only counted: the same for the same place."""
    return f"GPU-{uuid.uuid5(_DERIVED, seed)}"


def _device(reader: Reader, raw: Any, path: str, slot: int, seed: str) -> Device:
    source = reader.mapping(raw, path, _DEVICE)
    mig = reader.mapping(source.get("mig") or {}, f"{path}.mig", frozenset({"enabled", "slices"}))
    slices = [
        reader.mapping(one, f"{path}.mig.slices", frozenset({"profile", "start", "uuid"}))
        for one in reader.items(mig.get("slices"), path)
    ]
    return Device(
        uuid=reader.get(source, "uuid", path, values.text, derived_uuid(f"{seed}/{slot}")),
        model=reader.get(source, "model", path, values.text, ""),
        memory_bytes=reader.get(source, "memory", path, values.in_bytes, 0),
        slot=slot,
        healthy=reader.get(source, "healthy", path, values.flag, True),
        trouble=reader.get(source, "trouble", path, values.text, ""),
        mig_enabled=reader.get(mig, "enabled", path, values.flag, bool(slices)),
        slices=tuple(
            Slice(
                profile=reader.get(one, "profile", path, values.text, ""),
                start=reader.get(one, "start", path, values.count, 0),
                uuid=reader.get(one, "uuid", path, values.text, ""),
            )
            for one in slices
        ),
    )

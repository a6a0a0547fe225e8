"""What items must not share with each other: folders, external ports, and the room for annotations.

Called by the checks of a spec, for what the fields of one spec say together.
Holds: the one that comes second is named, with the one that was there before it.
"""

from __future__ import annotations

import posixpath
from typing import Any, Final

from muster.workload.v1 import workload_pb2
from muster_language.catalogue import Row, catalogue
from muster_language.checks.items import Found
from muster_language.documents.document import Violation
from muster_language.labels import label_of, mount_of
from muster_language.naming import Naming
from muster_language.spec import WorkloadSpec
from muster_language.values import shown

_MOST_ANNOTATIONS: Final = 256 * 1024  # what Kubernetes takes: keys and values of all annotations together


def annotations_check(row: Row, items: Any, naming: Naming, found: Found) -> None:
    """The annotations of one object together may not be longer than Kubernetes takes them."""
    length = sum(len(item.label) + len(item.value) for item in items)
    if length > _MOST_ANNOTATIONS:
        said = f"the annotations are {length} characters long"
        found.append(Violation(naming.field(row), said, allowed=f"at most {_MOST_ANNOTATIONS} in all"))


def mounts_check(volumes: list[tuple[Row, Any]], naming: Naming, found: Found) -> None:
    """Two volumes on one folder would hide one another, and which one wins would be luck."""
    taken: dict[str, str] = {}
    for row, items in volumes:
        for item in items:
            path = mount_of(item)
            if item.deleted or not path:
                continue
            folder = posixpath.normpath(f"/{path.strip('/')}")
            here = naming.item(row, label_of(item))
            if folder in taken:
                said = f"{shown(path)} is taken by {taken[folder]} as well"
                found.append(Violation(here, said, allowed="one volume a folder"))
            taken.setdefault(folder, here)


def scaling_check(spec: WorkloadSpec, naming: Naming, found: Found) -> None:
    """Bounds and a metric that contradict each other in one layer; what other layers may still give is not missed."""
    rows = catalogue().by_name
    bounded = spec.HasField("min_scale") and spec.HasField("max_scale")
    if bounded and spec.min_scale > spec.max_scale:
        said = f"minScale {spec.min_scale} is above maxScale {spec.max_scale}"
        found.append(Violation(naming.value(rows["min_scale"]), said, allowed=f"at most {spec.max_scale}"))
    latency = spec.metric == workload_pb2.SCALE_METRIC_LATENCY
    if latency and spec.HasField("min_scale") and not spec.min_scale:
        said = "a service scaled by latency cannot go down to no replica"
        allowed = "concurrency or throughput, or a minScale of at least 1"
        found.append(Violation(naming.value(rows["metric"]), said, allowed=allowed))


def external_ports_check(row: Row, items: Any, naming: Naming, found: Found) -> None:
    """From outside a number leads to one port."""
    taken: dict[int, str] = {}
    external = next(member for member in row.members if member.name == "external")
    for port in items:
        number = port.external
        if not number or port.deleted:
            continue
        label = label_of(port)
        if number in taken:
            said = f"the port {taken[number]} has the external port {number} as well"
            found.append(Violation(naming.member(row, label, external), said, allowed="a number of its own"))
        taken.setdefault(number, label)

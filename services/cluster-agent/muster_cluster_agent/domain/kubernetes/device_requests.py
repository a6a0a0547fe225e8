"""What a pod says so that it is given the devices of its replica, by what gives the devices of its node.

Called while a pod is made of a plan. Pure.
Holds: a device is asked for once, as a unit of a counted resource, by a claim, as units of HAMi's resources, or by
KAI's annotations.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from muster_cluster_agent.domain.kubernetes import hami, kai, marks
from muster_cluster_agent.domain.kubernetes.device_parts import part_of, problem_of, text_of
from muster_cluster_agent.domain.kubernetes.device_sources import DeviceSource
from muster_cluster_agent.domain.kubernetes.kai import KaiSettings
from muster_cluster_agent.domain.model import Slots
from muster_cluster_agent.domain.plan import InvalidCommand, ReplicaPlan

_GIVERS: Final = {DeviceSource.HAMI: hami.NAME, DeviceSource.KAI: kai.NAME}


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """What a pod says of devices.

    units: those of extended resources that its container asks for. claimed: it has a device claim. scheduler: the one
    that gives the devices; empty: that of every pod.
    """

    units: Mapping[str, str] = field(default_factory=dict)
    claimed: bool = False
    scheduler: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


def request_of(
    plan: ReplicaPlan,
    resource: str,
    source: DeviceSource,
    *,
    hami_scheduler: str = "",
    settings: KaiSettings | None = None,
) -> DeviceRequest:
    """Return what the pod of a replica says.

    resource: whose units are devices. source: what gives the devices of its node. hami_scheduler: the name of HAMi's.
    settings: what the cluster file says of KAI, where it gives the devices.
    """
    counted = {name: str(count) for name, count in units_of(plan, resource)}
    if settings is not None and (counted or plan.shares):
        return _by_kai(plan, resource, counted, settings)
    if not plan.shares:
        return DeviceRequest(counted)
    assigned = [share.device for share in plan.shares]
    named = {marks.DEVICES: json.dumps(assigned)}
    if source is not DeviceSource.HAMI:
        return DeviceRequest(counted, claimed=True, annotations=named)
    return DeviceRequest(
        counted | hami.units_of(plan.shares, resource),
        scheduler=hami_scheduler,
        annotations={**named, hami.CHOSEN: ",".join(assigned), marks.PART: text_of(part_of(plan.shares))},
    )


def _by_kai(plan: ReplicaPlan, resource: str, counted: Mapping[str, str], settings: KaiSettings) -> DeviceRequest:
    """Return what a pod says whose devices KAI gives: whole ones as units, parts by annotations, its choice by none."""
    units, annotations = dict(counted), dict[str, str]()
    if plan.shares:
        units |= kai.units_of(plan.shares, resource)
        annotations = {
            **kai.annotations_of(plan.shares),
            marks.DEVICES: json.dumps([share.device for share in plan.shares]),
            marks.PART: text_of(part_of(plan.shares)),
            marks.BY_KAI: "true",
        }
    return DeviceRequest(
        units, scheduler=settings.scheduler, labels={kai.QUEUE: settings.queue}, annotations=annotations
    )


def units_of(plan: ReplicaPlan, whole: str) -> Slots:
    """Return the units of resources by which the cluster counts its devices. whole: whose units are devices."""
    return tuple((resource or whole, count) for resource, count in plan.slots)


def check(plan: ReplicaPlan, source: DeviceSource, *, direct: bool) -> None:
    """Raise InvalidCommand for devices that the source cannot give. direct: no scheduler looks at the pod."""
    if source in _GIVERS:
        problem = problem_of(plan.shares, plan.node, _GIVERS[source])
        if problem:
            raise InvalidCommand(problem)
        return
    if plan.shares and direct:
        raise InvalidCommand(
            f"node {plan.node} gives out devices by device claims, which the cluster's scheduler allocates; "
            "set `binder: pinned` in the cluster file"
        )
    parts = [share.device for share in plan.shares if not share.whole]
    if parts:
        raise InvalidCommand(f"device {parts[0]} of node {plan.node} is given by a device claim, and only as a whole")

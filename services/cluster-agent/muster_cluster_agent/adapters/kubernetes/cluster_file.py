"""The file that says how an agent works on a Kubernetes cluster (docs/guides/kubernetes-clusters.md has an example).

Read when the agent starts. Holds: a file with any error is refused as a whole, with every error named.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from muster_cluster_agent.adapters import values
from muster_cluster_agent.adapters.file_reader import KUBERNETES_BACKEND, Reader, load
from muster_cluster_agent.adapters.kubernetes.support import ALLOWABLE
from muster_cluster_agent.domain.kubernetes.device_slices import DeviceNames
from muster_cluster_agent.domain.kubernetes.device_sources import DeviceSource
from muster_cluster_agent.domain.kubernetes.extra_containers import Images
from muster_cluster_agent.domain.kubernetes.hami import SCHEDULER
from muster_cluster_agent.domain.kubernetes.ingresses import Urls
from muster_cluster_agent.domain.kubernetes.kai import KaiSettings
from muster_cluster_agent.domain.kubernetes.manifests import Style
from muster_cluster_agent.domain.kubernetes.nodes import Counting
from muster_cluster_agent.errors import ClusterFileError

_TOP: Final = frozenset(
    {"cluster", "backend", "kubeconfig", "context", "namespace", "namespaces", "scheduler", "priority_class", "binder"}
    | {"images", "runtime_class", "devices", "tolerate", "pull_secrets", "node_gone_after", "pull_deadline", "rate"}
    | {"allow", "urls", "drain_taints", "service_accounts", "pod_security", "mig_manager"}
)
_DEVICES: Final = frozenset(
    {"class", "driver", "hami_scheduler", "kai_reservations", "kai_scheduler", "memory", "model", "queue", "resource"}
    | {"source", "uuid", "whole"}
)
_IMAGES: Final = frozenset({"git", "notebook", "tensorboard"})
_URLS: Final = frozenset({"annotations", "class", "domain", "reserved", "tls"})
_DOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_TOLERATION: Final = frozenset({"key", "operator", "value", "effect"})
_RATE: Final = frozenset({"calls", "burst"})
_NEVER: Final = "never"
_POD_SECURITY: Final = ("privileged", "baseline", "restricted")  # the levels of the Pod Security Standards


@dataclass(frozen=True, slots=True)
class KubernetesFile:
    """The whole file.

    kubeconfig None: the pod's own account. namespace: the agent's own. managed: namespaces of projects are made where
    they are missing, with that level of `pod_security` enforced. allowed: what pods may have of their nodes.
    device_source, device_names: what tells of the devices of nodes, and how drivers name what Muster needs.
    pull_seconds: how long the images of a pod may be pulled. mig_manager: whether the cluster has one whose
    label the agent may set. rate, burst: calls of the API server a second, and at once.
    """

    cluster: str
    kubeconfig: Path | None
    context: str | None
    namespace: str
    managed: bool
    pod_security: str = ""
    style: Style = field(default_factory=Style)
    counting: Counting = field(default_factory=Counting)
    device_source: DeviceSource = DeviceSource.AUTO
    device_names: DeviceNames = field(default_factory=DeviceNames)
    allowed: frozenset[str] = frozenset()
    pull_seconds: float = 3600.0
    mig_manager: bool = False
    rate: float = 200.0
    burst: float = 400.0


def parse(text: str, *, where: Path) -> KubernetesFile:
    """The file's content. Raises ClusterFileError with every error; `where` is the file's own place."""
    reader = Reader()
    top = reader.mapping(load(text, where=str(where)), "file", _TOP)
    reader.get(top, "backend", "file", values.choice(KUBERNETES_BACKEND), "")
    name = reader.get(top, "cluster", "file", values.text, "")
    if not name:
        reader.errors.append("file.cluster: the cluster's id is required")
    devices = reader.mapping(top.get("devices") or {}, "devices", _DEVICES)
    resource = reader.get(devices, "resource", "devices", values.text, "nvidia.com/gpu")
    tolerate = tuple(
        _toleration(reader, raw, f"tolerate[{index}]")
        for index, raw in enumerate(reader.items(top.get("tolerate"), "tolerate"))
    )
    rate = reader.mapping(top.get("rate") or {}, "rate", _RATE)
    kubeconfig = reader.get(top, "kubeconfig", "file", values.text, "")
    found = KubernetesFile(
        cluster=name,
        kubeconfig=(where.parent / kubeconfig).absolute() if kubeconfig else None,
        context=reader.get(top, "context", "file", values.text, "") or None,
        namespace=reader.get(top, "namespace", "file", values.text, "muster"),
        managed=reader.get(top, "namespaces", "file", values.choice("managed", "listed"), "managed") == "managed",
        pod_security=reader.get(top, "pod_security", "file", values.choice(*_POD_SECURITY), ""),
        style=_style(reader, top, devices, resource, tolerate),
        counting=Counting(
            resource=resource,
            tolerated=frozenset(one["key"] for one in tolerate if one.get("key")),
            gone_after=_gone_after(reader, top),
            drains=_drains(reader, top),
        ),
        device_source=_source(reader, devices),
        device_names=_device_names(reader, devices),
        allowed=reader.get(top, "allow", "file", _allowed, frozenset()),
        pull_seconds=reader.get(top, "pull_deadline", "file", values.seconds, 3600.0),
        mig_manager=reader.get(top, "mig_manager", "file", values.flag, default=False),
        rate=reader.get(rate, "calls", "rate", _positive, 200.0),
        burst=reader.get(rate, "burst", "rate", _positive, 400.0),
    )
    if found.style.direct and found.style.scheduler:
        reader.errors.append("file.scheduler: no scheduler looks at a pod with `binder: direct`; leave one of them out")
    if found.style.direct and found.device_source is DeviceSource.SLICES:
        reader.errors.append("devices.source: device claims are allocated by a scheduler; `binder: direct` has none")
    if found.style.direct and found.device_source is DeviceSource.HAMI:
        reader.errors.append("devices.source: HAMi's scheduler gives its devices; `binder: direct` uses no scheduler")
    if found.style.direct and found.device_source is DeviceSource.KAI:
        reader.errors.append("devices.source: KAI-Scheduler gives the devices; `binder: direct` uses no scheduler")
    if found.pod_security and not found.managed:
        reader.errors.append("file.pod_security: with `namespaces: listed` label the namespaces yourself")
    if found.context and found.kubeconfig is None:
        reader.errors.append("file.context: it is a context of a kubeconfig; add `kubeconfig`")
    if found.style.direct:
        found = replace(found, device_source=DeviceSource.COUNTED)
    if reader.errors:
        raise ClusterFileError("\n".join(f"{where}: {error}" for error in reader.errors))
    return found


def _style(
    reader: Reader,
    top: Mapping[str, Any],
    devices: Mapping[str, Any],
    resource: str,
    tolerate: tuple[Mapping[str, str], ...],
) -> Style:
    """Return what the file says of every pod."""
    return Style(
        resource=resource,
        priority_class=reader.get(top, "priority_class", "file", values.text, ""),
        runtime_class=reader.get(top, "runtime_class", "file", values.text, ""),
        scheduler=reader.get(top, "scheduler", "file", values.text, ""),
        pull_secrets=reader.get(top, "pull_secrets", "file", values.words, ()),
        tolerate=tolerate,
        direct=reader.get(top, "binder", "file", values.choice("pinned", "direct"), "pinned") == "direct",
        images=_images(reader, top),
        urls=_urls(reader, top),
        service_accounts=_accounts(reader, top),
        hami_scheduler=reader.get(devices, "hami_scheduler", "devices", values.text, SCHEDULER),
        kai=_kai(reader, devices),
    )


def _source(reader: Reader, devices: Mapping[str, Any]) -> DeviceSource:
    """Return what tells of the devices of nodes."""
    return DeviceSource(reader.get(devices, "source", "devices", values.choice(*DeviceSource), DeviceSource.AUTO.value))


def _kai(reader: Reader, devices: Mapping[str, Any]) -> KaiSettings | None:
    """Return what the file says of KAI; None: it does not give the devices."""
    usual = KaiSettings()
    found = KaiSettings(
        queue=reader.get(devices, "queue", "devices", values.text, usual.queue),
        scheduler=reader.get(devices, "kai_scheduler", "devices", values.text, usual.scheduler),
        reservations=reader.get(devices, "kai_reservations", "devices", values.text, usual.reservations),
    )
    if devices.get("source") != DeviceSource.KAI:
        return None
    if not found.queue:
        reader.errors.append("devices.queue: KAI-Scheduler schedules the pods of its queues; name one of them")
    return found


def _device_names(reader: Reader, devices: Mapping[str, Any]) -> DeviceNames:
    """Return how drivers name what Muster needs of devices. The class has the driver's name unless it is said."""
    usual = DeviceNames()
    driver = reader.get(devices, "driver", "devices", values.text, usual.driver)
    return DeviceNames(
        driver=driver,
        device_class=reader.get(devices, "class", "devices", values.text, driver),
        uuid=reader.get(devices, "uuid", "devices", values.text, usual.uuid),
        model=reader.get(devices, "model", "devices", values.text, usual.model),
        memory=reader.get(devices, "memory", "devices", values.text, usual.memory),
        whole=reader.get(devices, "whole", "devices", values.words, usual.whole),
    )


def _images(reader: Reader, top: Mapping[str, Any]) -> Images:
    source = reader.mapping(top.get("images") or {}, "images", _IMAGES)
    return Images(**{name: reader.get(source, name, "images", values.text, "") for name in _IMAGES})


def _urls(reader: Reader, top: Mapping[str, Any]) -> Urls:
    source = reader.mapping(top.get("urls") or {}, "urls", _URLS)
    found = Urls(
        domain=reader.get(source, "domain", "urls", _domain, ""),
        ingress_class=reader.get(source, "class", "urls", values.text, ""),
        tls=reader.get(source, "tls", "urls", values.flag, default=False),
        reserved=reader.get(source, "reserved", "urls", values.words, ()),
        annotations=tuple(reader.get(source, "annotations", "urls", values.texts, dict[str, str]()).items()),
    )
    if source and not source.get("domain"):
        reader.errors.append("urls.domain: the domain below which addresses are made is required")
    return found


def _domain(value: Any) -> str:
    found = values.text(value)
    if not _DOMAIN.fullmatch(found):
        raise ValueError(f"expected a domain such as lab.example.org, not {value!r}")
    return found


def _toleration(reader: Reader, raw: Any, path: str) -> Mapping[str, str]:
    """A toleration as the API has it."""
    source = reader.mapping(raw, path, _TOLERATION)
    found = {
        "key": reader.get(source, "key", path, values.text, ""),
        "operator": reader.get(source, "operator", path, values.choice("Equal", "Exists"), ""),
        "value": reader.get(source, "value", path, values.text, ""),
        "effect": reader.get(source, "effect", path, values.choice("NoSchedule", "PreferNoSchedule", "NoExecute"), ""),
    }
    return {name: text for name, text in found.items() if text}


def _accounts(reader: Reader, top: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the ServiceAccount of each project's pods."""
    found: dict[str, str] = reader.get(top, "service_accounts", "file", values.texts, dict[str, str]())
    return tuple(sorted(found.items()))


def _drains(reader: Reader, top: Mapping[str, Any]) -> tuple[tuple[str, float], ...]:
    """Return the taints that announce that a node goes, with the seconds that are left."""
    found = top.get("drain_taints") or {}
    if not isinstance(found, Mapping) or not all(isinstance(key, str) and key for key in found):
        reader.errors.append("file.drain_taints: expected seconds by the key of a taint, such as {spot: 120}")
        return ()
    return tuple((key, reader.get(found, key, "drain_taints", values.seconds, 0.0)) for key in found)


def _gone_after(reader: Reader, top: Mapping[str, Any]) -> float | None:
    """Seconds after which a silent node is gone for good; None: never."""
    if top.get("node_gone_after") == _NEVER:
        return None
    return reader.get(top, "node_gone_after", "file", values.seconds, 900.0)


def _allowed(value: Any) -> frozenset[str]:
    words = frozenset(values.words(value))
    unknown = sorted(words.difference(ALLOWABLE))
    if unknown:
        raise ValueError(f"expected words of {', '.join(ALLOWABLE)}, not {', '.join(unknown)}")
    return words


def _positive(value: Any) -> float:
    given = values.seconds(value)
    if given <= 0:
        raise ValueError(f"expected more than 0, not {value!r}")
    return given

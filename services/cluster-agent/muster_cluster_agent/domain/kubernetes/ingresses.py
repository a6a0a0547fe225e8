"""Addresses outside the cluster that lead to a workload: its Ingresses (kubernetes.md 6).

Called by `workload_objects`. Pure. Holds: an address is below the domain that the cluster's file gives, so that no
workload takes the name of another service of the organisation. The back end asks whether another Ingress has it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlsplit

from muster_cluster_agent.domain.container import ExposedPort
from muster_cluster_agent.domain.kubernetes import marks
from muster_cluster_agent.domain.kubernetes.marks import Owner
from muster_cluster_agent.domain.kubernetes.names import label_suffix, port_name, service_name, workload_base
from muster_cluster_agent.domain.kubernetes.resources import INGRESS, Manifest
from muster_cluster_agent.domain.plan import InvalidCommand, ReplicaPlan

USERS: Final = "{users}"
GROUPS: Final = "{groups}"
"""What the values of annotations may hold in place of an address' own users and groups."""
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_PATH: Final = re.compile(r"(/[A-Za-z0-9._~-]*)*")  # controllers paste it into configurations of their own
_LONGEST_LABEL: Final = 63
_DIGEST_LETTERS: Final = 10


@dataclass(frozen=True, slots=True)
class Urls:
    """How a cluster leads to workloads from outside.

    domain: every address is below it; empty: there are none. ingress_class: empty: the cluster's default. tls: its
    controller answers by https, with the certificate that it has for the domain. annotations: of each Ingress.
    reserved: hosts that no workload gets.
    """

    domain: str = ""
    ingress_class: str = ""
    tls: bool = False
    annotations: tuple[tuple[str, str], ...] = ()
    reserved: tuple[str, ...] = ()

    def knows(self, who: str) -> bool:
        """Return whether an annotation tells the controller who may open an address. who: USERS or GROUPS."""
        return any(who in text for _, text in self.annotations)


@dataclass(frozen=True, slots=True)
class Address:
    """Where an exposed port is reached. path: begins with a slash."""

    port: ExposedPort
    host: str
    path: str


def addresses_of(plan: ReplicaPlan, urls: Urls) -> tuple[Address, ...]:
    """The plan's addresses. Raises InvalidCommand for one that this cluster cannot give."""
    found: list[Address] = []
    ports: set[int] = set()  # with an address that the cluster made up
    for port in plan.exposed if urls.domain else ():
        _check_gate(port, urls)
        if port.url:
            found.append(_chosen(port, urls))
        elif port.container not in ports:
            found.append(Address(port, _host(plan, port, urls, several=bool(ports)), "/"))
            ports.add(port.container)
    for number, each in enumerate(found):
        if each.host in urls.reserved:
            raise InvalidCommand(f"the host {each.host} is reserved in this cluster: choose another one by `url`")
        if any((each.host, each.path) == (other.host, other.path) for other in found[:number]):
            raise InvalidCommand(
                f"exposedUrls names {each.host}{each.path} twice: choose another `url` for one of them"
            )
    return tuple(found)


def _check_gate(port: ExposedPort, urls: Urls) -> None:
    """Raises InvalidCommand where the users of an address are named and its controller would not be told of them."""
    for names, word, field in ((port.users, USERS, "authorizedUsers"), (port.groups, GROUPS, "authorizedGroups")):
        if names and not urls.knows(word):
            raise InvalidCommand(
                f"this cluster checks no {field} of exposedUrls: leave them out, or use another cluster"
            )


def text_of(address: Address, urls: Urls) -> str:
    """The address as people open it."""
    path = "" if address.path == "/" else address.path
    return f"{'https' if urls.tls else 'http'}://{address.host}{path}"


def ingresses_of(owner: Owner, plan: ReplicaPlan, urls: Urls) -> tuple[Manifest, ...]:
    """One Ingress for each address, since annotations hold for a whole one. Raises InvalidCommand."""
    return tuple(_ingress(owner, plan, urls, address) for address in addresses_of(plan, urls))


def hosts_of(ingress: Mapping[str, Any]) -> frozenset[str]:
    """The hosts of an Ingress."""
    return frozenset(host for rule in ingress["spec"].get("rules") or () if (host := rule.get("host")))


def differs(asked: Manifest, found: Mapping[str, Any]) -> bool:
    """Return whether an Ingress that is there leads elsewhere, or tells its controller something else."""
    said = found["metadata"].get("annotations") or {}
    spec = {key: value for key, value in found["spec"].items() if key in asked["spec"] or key == "tls"}
    return spec != asked["spec"] or not asked["metadata"]["annotations"].items() <= said.items()


def _chosen(port: ExposedPort, urls: Urls) -> Address:
    """An address of the user's choice."""
    try:
        parts = urlsplit(port.url)
        host, number = (parts.hostname or "").lower(), parts.port
    except ValueError as error:
        raise InvalidCommand(f"exposedUrls names {port.url}, which is no address: {error}") from error
    if not _is_below(host, urls.domain):
        raise InvalidCommand(
            f"exposedUrls names {port.url}, which is not below {urls.domain}, the domain of this cluster: choose "
            f"a name below it, or leave url out"
        )
    if number is not None or parts.query or parts.fragment or not _PATH.fullmatch(parts.path):
        raise InvalidCommand(
            f"exposedUrls names {port.url}: this cluster gives addresses of a host and a path of letters, digits and "
            "/._~-, without a port and a query"
        )
    scheme = "https" if urls.tls else "http"
    if parts.scheme.lower() != scheme:
        raise InvalidCommand(f"exposedUrls names {port.url}: this cluster answers by {scheme} alone")
    return Address(port, host, parts.path or "/")


def _is_below(host: str, domain: str) -> bool:
    return host.endswith(f".{domain}") and all(map(_LABEL.fullmatch, host.removesuffix(f".{domain}").split(".")))


def _host(plan: ReplicaPlan, port: ExposedPort, urls: Urls, *, several: bool) -> str:
    """The host that the cluster makes up: of the workload and its project, and of the port from the second one on."""
    words = [plan.workload, *([str(port.container)] if several else []), plan.project]
    label = "-".join(words).lower()
    if not _LABEL.fullmatch(label):
        digest = hashlib.sha256("/".join(words).encode()).hexdigest()[:_DIGEST_LETTERS]
        letters = re.sub(r"[^a-z0-9]+", "-", label)[: _LONGEST_LABEL - _DIGEST_LETTERS - 1].strip("-")
        label = f"{letters}-{digest}".lstrip("-")
    return f"{label}.{urls.domain}"


def _ingress(owner: Owner, plan: ReplicaPlan, urls: Urls, address: Address) -> Manifest:
    service = {
        "name": service_name(plan.workload_id, plan.workload),
        "port": {"name": port_name(address.port.container)},
    }
    path = {"path": address.path, "pathType": "Prefix", "backend": {"service": service}}
    spec: Manifest = {"rules": [{"host": address.host, "http": {"paths": [path]}}]}
    if urls.ingress_class:
        spec["ingressClassName"] = urls.ingress_class
    if urls.tls:
        spec["tls"] = [{"hosts": [address.host]}]
    who = {USERS: _listed(address.port.users), GROUPS: _listed(address.port.groups)}
    return {
        "apiVersion": INGRESS.api,
        "kind": INGRESS.kind,
        "metadata": {
            "name": f"{workload_base(plan.workload_id)}-url-{label_suffix(address.port.label)}",
            "namespace": plan.namespace,
            "labels": marks.workload_labels(owner, plan.workload_id, plan.project),
            "annotations": {name: _filled(text, who) for name, text in urls.annotations},
        },
        "spec": spec,
    }


def _filled(text: str, who: Mapping[str, str]) -> str:
    for word, names in who.items():
        text = text.replace(word, names)
    return text


def _listed(names: Iterable[str]) -> str:
    """The names as part of a URL: an annotation is usually the address of a gateway that checks who opens it."""
    return ",".join(quote(name, safe="@") for name in names)

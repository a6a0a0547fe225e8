"""A cluster with two real nodes: API server, controllers, scheduler and name server on this machine, and their devices.

Holds: when the block ends, no process, network or cgroup of it is left.
"""

from __future__ import annotations

import fcntl
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tests.nodes import configs
from tests.nodes.machine import Node, make_bridge, sweep
from tests.nodes.plugin import Plugin, serving
from tests.support.kubernetes import PROGRAMS, TOKEN, Cluster, Program, cluster, kubeconfig_of, running
from tests.support.waiting import eventually_now

NAMES: Final = ("a", "b")
GPU: Final = "nvidia.com/gpu"
MIG: Final = "nvidia.com/mig-1g.5gb"
GPUS: Final = 4  # of a node
SLICES: Final = 2  # of the second node
_LABELS: Final = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB", "nvidia.com/gpu.memory": "40960"}
_PATIENCE: Final = 120.0  # seconds
_LOCK: Final = PROGRAMS / "nodes.lock"
_NEEDED: Final = (
    *("etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager", "kubelet", "kube-proxy", "coredns"),
    *("containerd", "containerd-shim-runc-v2", "ctr", "debian/usr/sbin/runc", "debian/usr/sbin/nft"),
    *("images/base.tar", "images/pause.tar"),
)


@dataclass(frozen=True)
class Site:
    """The cluster. nodes: by name; plugins: by node and resource."""

    cluster: Cluster
    nodes: Mapping[str, Node]
    plugins: Mapping[tuple[str, str], Plugin]

    def ready(self) -> set[str]:
        """The nodes that are Ready and have all their devices."""
        return {name for name, node in self.objects().items() if self._is_ready(name, node)}

    def objects(self) -> dict[str, Any]:
        """The nodes as the API server has them, by name."""
        listed = self.cluster.http.get("/api/v1/nodes").raise_for_status().json()["items"]
        return {item["metadata"]["name"]: item for item in listed}

    def pods(self, selector: str) -> dict[str, Any]:
        """Pods of any namespace by their labels, by name."""
        answer = self.cluster.http.get("/api/v1/pods", params={"labelSelector": selector}).raise_for_status()
        return {item["metadata"]["name"]: item for item in answer.json()["items"]}

    def until_ready(self, *names: str) -> None:
        """Wait until nodes are Ready with all their devices; without names: all. Raises TimeoutError."""
        eventually_now(self.ready, lambda found: set(names or self.nodes) <= found, within=_PATIENCE, every=0.2)

    def _is_ready(self, name: str, node: Mapping[str, Any]) -> bool:
        status = node.get("status", {})
        amounts = status.get("allocatable", {})
        whole = all(
            amounts.get(plugin.resource) == str(len(plugin.devices))
            for (owner, _), plugin in self.plugins.items()
            if owner == name
        )
        return whole and any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions", ()))


def missing() -> str:
    """What is not built here; empty: nothing."""
    lacking = [name for name in _NEEDED if not (PROGRAMS / name).exists()]
    return f"`make testbed` builds {', '.join(lacking)}; it takes root, Go and apt" if lacking else ""


@asynccontextmanager
async def site(
    folder: Path, names: Sequence[str] = NAMES, *, gpus: int = GPUS, slices: int = SLICES, controllers: bool = True
) -> AsyncIterator[Site]:
    """The cluster. Its nodes need not be Ready yet.

    gpus: of each node; slices: of the last one, too. controllers: it has those of a cluster, a scheduler and a name
    server.
    """
    with _plane(folder, names, controllers=controllers) as found:
        plugins = {
            (name, resource): Plugin(found.nodes[name].home / "kubelet", resource, devices)
            for name in names
            for resource, devices in _devices(name, gpus, slices if name == names[-1] else 0).items()
        }
        whole = Site(found.cluster, found.nodes, plugins)
        async with serving([*plugins.values()]):
            yield whole


@contextmanager
def _plane(folder: Path, names: Sequence[str], *, controllers: bool) -> Iterator[Site]:
    """Everything but the devices."""
    with ExitStack() as stack:
        stack.enter_context(_alone())
        make_bridge()
        stack.callback(sweep)
        own = folder / "plane"
        own.mkdir()
        more = {"advertise-address": configs.GATEWAY, "kubelet-preferred-address-types": "InternalIP"}
        found = stack.enter_context(cluster(own, more=more, address=configs.GATEWAY))
        programs: dict[str, Program] = dict(found.programs)
        for name, words in (_controllers(own, found.url) if controllers else {}).items():
            command = [str(PROGRAMS / name), *words]
            programs[name] = stack.enter_context(running(command, own / f"{name}.log"))
        nodes = {}
        for number, name in enumerate(names, start=1):
            nodes[name] = Node(name, number, folder, found.url, _LABELS)
            stack.callback(nodes[name].remove)
            nodes[name].install()
        yield Site(replace(found, programs=programs), nodes, {})


@contextmanager
def _alone() -> Iterator[None]:
    """Holds the machine's only network of nodes; another run waits for its end."""
    with _LOCK.open("w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _controllers(folder: Path, url: str) -> dict[str, list[str]]:
    """The words of each program that works on a cluster's objects."""
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(kubeconfig_of(url, TOKEN))
    (folder / "Corefile").write_text(configs.names(kubeconfig))
    common = [f"--kubeconfig={kubeconfig}", "--secure-port=0", "--leader-elect=false"]
    return {
        "kube-scheduler": common,
        "kube-controller-manager": [*common, f"--service-account-private-key-file={folder / 'service.key'}"],
        "coredns": ["-conf", str(folder / "Corefile")],
    }


def _devices(name: str, gpus: int, slices: int) -> dict[str, list[str]]:
    """By resource."""
    found = {GPU: [f"GPU-{name}-{number}" for number in range(gpus)]}
    if slices:
        found[MIG] = [f"MIG-{name}-{number}" for number in range(slices)]
    return found

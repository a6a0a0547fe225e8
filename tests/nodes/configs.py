"""What the programs of a node read: containerd, its network, the kubelet, and the name server of the cluster.

Pure. Pods and nodes are in one flat network, in which each node gives out addresses of a range of its own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import yaml

from tests.support.kubernetes import PROGRAMS

NETWORK: Final = "10.77.0.0/16"
GATEWAY: Final = "10.77.0.1"
"""The address of this machine, as nodes and pods see it."""
DOMAIN: Final = "cluster.local"
DEBIAN: Final = PROGRAMS / "debian"
IMAGE: Final = "muster.test/base:1"
"""What containers of the tests run; `make testbed` makes it, and the one that holds the namespaces of a pod."""
PAUSE: Final = "muster.test/pause:1"


def address_of(number: int) -> str:
    """The address of a node. number: from 1."""
    return f"10.77.0.{10 + number}"


def containerd(home: Path) -> str:
    """Of a node whose files are in `home`."""
    runtime = 'plugins."io.containerd.cri.v1.runtime"'
    return f"""
version = 3
root = "{home}/containerd"
state = "{home}/state"
disabled_plugins = ["io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]
[grpc]
  address = "{home}/containerd.sock"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{PAUSE}"
[{runtime}]
  # Without it runc fails with "can't get final child's PID" where the score of this process is above the one asked for.
  restrict_oom_score_adj = true
  cdi_spec_dirs = ["{home}/cdi"]
  [{runtime}.containerd]
    default_runtime_name = "runc"
    [{runtime}.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
  [{runtime}.cni]
    bin_dirs = ["{DEBIAN}/usr/lib/cni"]
    conf_dir = "{home}/cni"
"""


def network(home: Path, number: int) -> str:
    """The bridge of a node, and the addresses that it gives out.

    Pods leave by their node, whose kube-proxy turns addresses of Services into those of pods.
    """
    span = {
        "subnet": NETWORK,
        "rangeStart": f"10.77.{100 + number}.2",
        "rangeEnd": f"10.77.{100 + number}.250",
        "gateway": address_of(number),
    }
    addresses = {
        "type": "host-local",
        "dataDir": str(home / "addresses"),
        "ranges": [[span]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": False, "ipMasq": False, "ipam": addresses}
    return json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]})


def kubelet(home: Path, cgroup: str) -> str:
    """Of a node; cgroup: the root of its pods, which no other node has: each kubelet kills what it does not know."""
    anyone = {"anonymous": {"enabled": True}, "webhook": {"enabled": False}}
    said = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": anyone,
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup,
        "failSwapOn": False,
        "failCgroupV1": False,
        "enforceNodeAllocatable": [],
        "containerRuntimeEndpoint": f"unix://{home}/containerd.sock",
        "podLogsDir": f"{home}/logs",
        "resolvConf": f"{home}/resolv.conf",
        "clusterDomain": DOMAIN,
        "clusterDNS": [GATEWAY],
        "nodeStatusUpdateFrequency": "4s",
        # The disk is this machine's: it may be fuller than a node's should be.
        "evictionHard": {"memory.available": "1Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "imageMaximumGCAge": "0s",
    }
    return yaml.safe_dump(said)


def names(kubeconfig: Path) -> str:
    """The Corefile of the cluster's name server. Names outside of the cluster do not exist."""
    return f"""{DOMAIN}:53 {{
    bind {GATEWAY}
    errors
    kubernetes {DOMAIN} {{
        kubeconfig {kubeconfig}
        ttl 0
    }}
}}
.:53 {{
    bind {GATEWAY}
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
"""

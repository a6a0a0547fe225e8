"""`testbed` and `testbed-api`: Kubernetes for the tests that ask a real one, of Go modules and Debian packages.

People call the first, once a machine; .ci/run calls the second, which builds the API server and its etcd alone. `test`
calls neither: from nothing they take minutes. The tests that need what is missing are skipped, and say so. Holds: what
is built is under .tools; deploy/testbed pins every Go module, and no package is installed on the machine.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from verbs import node_image
from verbs.paths import ROOT, TESTBED
from verbs.shell import VerbFailed, run, say

MODULE: Final = ROOT / "deploy" / "testbed"
VERSION: Final = "1.34.1"
STAMP: Final = "k8s.io/component-base/version"
# Modules of their own: their releases name other versions of what they share with Kubernetes.
KWOK: Final = MODULE / "kwok"
COREDNS: Final = MODULE / "coredns"
CONTAINERD: Final = MODULE / "containerd"
COMMANDS: Final = {
    "etcd": (MODULE, "go.etcd.io/etcd/server/v3"),
    "kube-apiserver": (MODULE, "k8s.io/kubernetes/cmd/kube-apiserver"),
    "kube-scheduler": (MODULE, "k8s.io/kubernetes/cmd/kube-scheduler"),
    "kube-controller-manager": (MODULE, "k8s.io/kubernetes/cmd/kube-controller-manager"),
    "kubectl": (MODULE, "k8s.io/kubernetes/cmd/kubectl"),
    "kubelet": (MODULE, "k8s.io/kubernetes/cmd/kubelet"),
    "kube-proxy": (MODULE, "k8s.io/kubernetes/cmd/kube-proxy"),
    "kwok": (KWOK, "sigs.k8s.io/kwok/cmd/kwok"),
    "coredns": (COREDNS, "github.com/coredns/coredns"),
    "containerd": (CONTAINERD, "github.com/containerd/containerd/v2/cmd/containerd"),
    "containerd-shim-runc-v2": (CONTAINERD, "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"),
    "ctr": (CONTAINERD, "github.com/containerd/containerd/v2/cmd/ctr"),
}
API: Final = ("etcd", "kube-apiserver")


def testbed() -> int:
    """Builds all programs, at low priority, and what else nodes need; a second call takes seconds."""
    _build(where_go_is(), COMMANDS)
    lacking = node_image.lacking()
    if lacking:
        say(f"real nodes are left out, `make test-node` cannot run: {lacking}")
    else:
        node_image.make()
    say(f"the testbed is in {TESTBED.relative_to(ROOT)}")
    return 0


def testbed_api() -> int:
    """Builds the API server and its etcd; without Go it says what is skipped, and is no failure."""
    try:
        go = where_go_is()
    except VerbFailed as missing:
        say(f"{missing}; the tests that ask an API server will be skipped")
        return 0
    _build(go, API)
    return 0


def _build(go: Path, names: Iterable[str]) -> None:
    TESTBED.mkdir(parents=True, exist_ok=True)
    major, minor, _ = VERSION.split(".")
    stamps = f"-X {STAMP}.gitVersion=v{VERSION} -X {STAMP}.gitMajor={major} -X {STAMP}.gitMinor={minor}"
    for name in names:
        module, package = COMMANDS[name]
        say(f"building {name} (minutes the first time, seconds later)")
        flags = ["-trimpath", "-ldflags", f"-s -w {stamps}", "-o", str(TESTBED / name)]
        run(["nice", "-n", "19", str(go), "build", *flags, package], extra={"CGO_ENABLED": "0"}, cwd=module)


def where_go_is() -> Path:
    """The Go command, also where its installer left it without telling the shell."""
    found = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if found is None:
        raise VerbFailed("there is no Go here: the testbed is built from Go modules (1.24 or newer)")
    return Path(found)

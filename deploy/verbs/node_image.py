"""What the testbed's nodes need in addition to Go programs: runc, CNI plugins, nft, and images of containers.

Called by `testbed`. The packages come from the machine's own Debian sources and are unpacked under .tools; nothing is
installed on the machine. Holds: a second call does nothing unless this file has changed.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from verbs.paths import TESTBED
from verbs.shell import VerbFailed, output_of, run, say

_NFT: Final = (  # with the libraries that a small machine lacks
    *("nftables", "libnftables1", "libnftnl11", "libmnl0", "libjansson4", "libxtables12", "libedit2", "libgmp10"),
    *("libbsd0", "libmd0", "libtinfo6"),
)
PACKAGES: Final = ("busybox-static", "containernetworking-plugins", "debootstrap", "runc", *_NFT)
IMAGE: Final = "muster.test/base:1"
"""Has Python, sshd, OpenMPI with mpi4py, and git: what the workloads of the tests run in."""
IMAGE_PACKAGES: Final = (
    *("git", "openmpi-bin", "openssh-client", "openssh-server", "procps", "python3", "python3-mpi4py"),
)
PAUSE: Final = "muster.test/pause:1"
"""Holds the namespaces of a pod."""
RELEASE: Final = "bookworm"
UNPACKED: Final = TESTBED / "debian"
ARCHIVES: Final = TESTBED / "images"
_PATH: Final = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_STAMP: Final = TESTBED / "node-image.stamp"


def lacking() -> str:
    """Why this machine cannot make them; empty: it can."""
    if os.geteuid() != 0:
        return "it takes root"
    missing = [name for name in ("apt-get", "dpkg", "tar", "ip", "nsenter", "unshare") if shutil.which(name) is None]
    return f"there is no {', '.join(missing)}" if missing else ""


def make() -> None:
    """Unpacks the packages and packs the images."""
    wanted = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    if _STAMP.exists() and _STAMP.read_text(encoding="utf-8") == wanted:
        return
    unpack()
    base = ARCHIVES / "base"
    _require_unmounted(base)
    shutil.rmtree(ARCHIVES, ignore_errors=True)
    ARCHIVES.mkdir(parents=True)
    pause = ARCHIVES / "pause"
    (pause / "bin").mkdir(parents=True)
    shutil.copy(UNPACKED / "bin" / "busybox", pause / "bin" / "sleep")
    pack(pause, PAUSE, ["/bin/sleep", "2147483647"])
    say("making the image of the tests' workloads (a minute)")
    script = UNPACKED / "usr" / "sbin" / "debootstrap"
    shared = {"DEBOOTSTRAP_DIR": str(UNPACKED / "usr" / "share" / "debootstrap")}
    include = f"--include={','.join(IMAGE_PACKAGES)}"
    run(["nice", "-n", "19", script, "--variant=minbase", include, RELEASE, base, mirror()], extra=shared)
    _require_unmounted(base)
    shutil.rmtree(base / "var" / "cache" / "apt", ignore_errors=True)
    shutil.rmtree(base / "var" / "lib" / "apt" / "lists", ignore_errors=True)
    pack(base, IMAGE, ["/bin/sh", "-c", "exec sleep infinity", "image"])  # whatever arguments it is given
    _STAMP.write_text(wanted, encoding="utf-8")


def _require_unmounted(base: Path) -> None:
    """Raise VerbFailed where a debootstrap that failed left something mounted: it would be removed with the rest."""
    for mounted in ("proc", "sys"):
        if os.path.ismount(base / mounted):
            raise VerbFailed(f"debootstrap left {base / mounted} mounted; unmount it and try again")


def unpack() -> None:
    """Fetches PACKAGES and unpacks them into UNPACKED."""
    shutil.rmtree(UNPACKED, ignore_errors=True)
    fetched = UNPACKED / "fetched"
    fetched.mkdir(parents=True)
    run(["apt-get", "update", "-qq"])
    # As root, so that apt does not try to write as its own user into a folder that is not open to it.
    run(["apt-get", "-o", "APT::Sandbox::User=root", "download", "-qq", *PACKAGES], cwd=fetched)
    for package in sorted(fetched.glob("*.deb")):
        run(["dpkg", "-x", package, UNPACKED])


def mirror() -> str:
    """The machine's own source of the release."""
    lines = output_of(["apt-get", "indextargets", "--format", "$(REPO_URI)", f"Codename: {RELEASE}"]).splitlines()
    if not lines:
        raise VerbFailed(f"apt has no source of Debian {RELEASE}, of which the image is made; add one to its sources")
    return lines[0]


def pack(folder: Path, name: str, entry_point: Sequence[str]) -> None:
    """Packs a folder as a docker archive beside it, as containerd imports it, and removes the folder."""
    layer = folder.with_suffix(".layer")
    run(["tar", "-C", folder, "--numeric-owner", "-cf", layer, "."])
    with layer.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    about = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": list(entry_point), "Env": [_PATH]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    config = json.dumps(about).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = json.dumps([{"Config": config_name, "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(folder.with_suffix(".tar"), "w") as archive:
        for entry, content in ((config_name, config), ("manifest.json", manifest)):
            head = tarfile.TarInfo(entry)
            head.size = len(content)
            archive.addfile(head, io.BytesIO(content))
        archive.add(layer, "layer.tar")
    layer.unlink()
    shutil.rmtree(folder)

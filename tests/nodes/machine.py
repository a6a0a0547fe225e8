"""One node: namespaces of its own, in which containerd and a kubelet run. It can lose its kubelet, its power, or both.

Holds: every process of a node is in its process namespace, so that nothing of it outlives the first process there.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.nodes import configs
from tests.support.kubernetes import PROGRAMS, TOKEN, kubeconfig_of
from tests.support.waiting import eventually_now

BRIDGE: Final = "muster-nodes"
_PREFIX: Final = "muster-node-"
_LINK: Final = "mn-"
_LINKS: Final = Path("/sys/class/net")
_CGROUPS: Final = Path("/sys/fs/cgroup")
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
_PATIENCE: Final = 120.0  # seconds
_IP: Final = shutil.which("ip") or "ip"
# The first process of a node: what its containers leave behind becomes its child, and is reaped here.
_INIT: Final = """
set -e
mount --bind "$1/boot_id" {boot_id}
mount -t tmpfs none /run
mkdir -p /var/lib && mount -t tmpfs none /var/lib && mkdir /var/lib/kubelet
mount --bind "$1/kubelet" /var/lib/kubelet && mount --make-shared /var/lib/kubelet
hostname "$2"
echo 1 > /proc/sys/net/ipv4/ip_forward
for link in all default cni0; do echo 0 > /proc/sys/net/ipv4/conf/$link/send_redirects; done
touch "$1/up"
while :; do sleep 3600 & wait; done
"""


class Node:
    """A node by its name. number: from 1, of its addresses; labels: those that its kubelet registers."""

    def __init__(self, name: str, number: int, folder: Path, url: str, labels: dict[str, str]) -> None:
        self.name = name
        self.home = folder / name
        self.address = configs.address_of(number)
        self._space = f"{_PREFIX}{name}"
        self._labels = ",".join(f"{key}={text}" for key, text in labels.items())
        self._init: subprocess.Popen[bytes] | None = None
        self._programs: dict[str, subprocess.Popen[bytes]] = {}
        self.home.mkdir(parents=True)
        (self.home / "kubelet").mkdir()
        (self.home / "cni").mkdir()
        (self.home / "cni" / "10-pods.conflist").write_text(configs.network(self.home, number))
        (self.home / "containerd.toml").write_text(configs.containerd(self.home))
        (self.home / "kubelet.yaml").write_text(configs.kubelet(self.home, f"/{self._space}"))
        (self.home / "kubeconfig").write_text(kubeconfig_of(url, TOKEN))
        (self.home / "resolv.conf").write_text(f"nameserver {configs.GATEWAY}\n")

    # its life

    def install(self) -> None:
        """Connects it, powers it on, and imports the images of the testbed."""
        _plug(self._space, self.address)
        for controller in _controllers():
            _make_cgroup(controller / self._space)
        self.power_on()
        for archive in sorted((PROGRAMS / "images").glob("*.tar")):
            self._inside([*self._ctr(), "-n", "k8s.io", "images", "import", archive])

    def power_on(self) -> None:
        """Boots it, with a boot id of its own; its containerd and its kubelet run."""
        (self.home / "boot_id").write_text(f"{uuid.uuid4()}\n")
        for rest in ("state", "addresses"):  # what a machine has in memory alone
            shutil.rmtree(self.home / rest, ignore_errors=True)
        (self.home / "up").unlink(missing_ok=True)
        unshare = ["unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc"]
        script = _INIT.format(boot_id=_BOOT_ID)
        self._init = self._run("init", [*unshare, "bash", "-c", script, "init", self.home, self.name], alone=True)
        eventually_now((self.home / "up").exists, within=_PATIENCE)
        self._start_containerd()
        self.start_kubelet()
        self._start_proxy()

    def power_off(self) -> None:
        """Cuts its power: every process of it is killed at the same time."""
        if self._init is not None and self._init.poll() is None:
            os.kill(self._first(), signal.SIGKILL)
            self._init.wait()
        for program in self._programs.values():
            program.wait()
        self._programs.clear()

    def remove(self) -> None:
        """Cuts its power and removes what the machine has of it."""
        self.power_off()
        _unplug(self._space)
        for controller in _controllers():
            _remove_cgroup(controller / self._space)

    # its programs

    def _start_containerd(self) -> None:
        """Starts containerd and waits until it answers."""
        path = f"{PROGRAMS}:{configs.DEBIAN}/usr/sbin:{os.environ['PATH']}"
        program, config = PROGRAMS / "containerd", self.home / "containerd.toml"
        self._programs["containerd"] = self._run("containerd", ["env", f"PATH={path}", program, "--config", config])
        ask = [*self._ctr(), "version"]
        eventually_now(lambda: subprocess.run(ask, capture_output=True, check=False).returncode == 0, within=_PATIENCE)

    def start_kubelet(self) -> None:
        """Starts its kubelet."""
        words: list[str | Path] = [
            PROGRAMS / "kubelet",
            *("--config", self.home / "kubelet.yaml", "--kubeconfig", self.home / "kubeconfig"),
            *("--hostname-override", self.name, "--node-ip", self.address, "--node-labels", self._labels),
        ]
        self._programs["kubelet"] = self._run("kubelet", words)

    def _start_proxy(self) -> None:
        """Starts its kube-proxy. All traffic to Services is masqueraded: answers would come by another way."""
        libraries = ":".join(str(configs.DEBIAN / each / "x86_64-linux-gnu") for each in ("usr/lib", "lib"))
        path = f"PATH={configs.DEBIAN}/usr/sbin:{os.environ['PATH']}"
        words: list[str | Path] = [
            *("env", path, f"LD_LIBRARY_PATH={libraries}", PROGRAMS / "kube-proxy"),
            *("--proxy-mode=nftables", "--masquerade-all", f"--cluster-cidr={configs.NETWORK}"),
            *(f"--kubeconfig={self.home / 'kubeconfig'}", f"--hostname-override={self.name}"),
            # Left as they are: only the machine itself may set them.
            *("--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0s"),
            "--conntrack-tcp-timeout-close-wait=0s",
        ]
        self._programs["kube-proxy"] = self._run("kube-proxy", words)

    def kill_kubelet(self) -> None:
        """Kills its kubelet; containers go on."""
        entered = self._programs.pop("kubelet")
        for child in _children(entered.pid):
            os.kill(child, signal.SIGKILL)
        entered.wait()

    def mend(self) -> None:
        """Powers it on and starts its kubelet, if a fault has left it without."""
        if self._init is None or self._init.poll() is not None:
            self.power_off()
            self.power_on()
        elif "kubelet" not in self._programs:
            self.start_kubelet()

    def tag(self, image: str, other: str) -> None:
        """Gives an image another name."""
        self._inside([*self._ctr(), "-n", "k8s.io", "images", "tag", image, other])

    def variables_of(self, marked: str) -> tuple[int, dict[str, str]]:
        """The id, on this machine, and the variables of the first process of the node that has this variable.

        marked: `NAME=value`. Raises LookupError if there is none.
        """
        for pid in self._processes():
            with suppress(OSError):
                words = Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
                if marked in words:
                    return pid, dict(word.split("=", 1) for word in words if "=" in word)
        raise LookupError(f"no process on {self.name} has {marked}")

    def _processes(self) -> list[int]:
        """All processes below its first one, by their ids on this machine."""
        found, left = [], [self._first()]
        while left:
            pid = left.pop()
            found.append(pid)
            with suppress(OSError):
                left += _children(pid)
        return found

    # inside

    def _run(self, log: str, words: list[str | Path], *, alone: bool = False) -> subprocess.Popen[bytes]:
        """Starts a command in the node; alone: in its network only, as the first of its processes."""
        enter: list[str | Path] = ["nsenter", f"--net=/run/netns/{self._space}"]
        if not alone:
            enter = ["nsenter", "--target", str(self._first()), "--net", "--mount", "--uts", "--ipc", "--pid"]
        with (self.home / f"{log}.log").open("ab") as out:
            return subprocess.Popen([*enter, *words], stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def _ctr(self) -> list[str | Path]:
        return [PROGRAMS / "ctr", "-a", self.home / "containerd.sock"]

    def _inside(self, words: list[str | Path]) -> None:
        done = self._run("commands", words)
        if done.wait() != 0:
            raise AssertionError(f"{words} failed:\n{(self.home / 'commands.log').read_text()[-2000:]}")

    def _first(self) -> int:
        """The id of the node's first process, on this machine."""
        if self._init is None:
            raise AssertionError(f"{self.name} has no power")
        return _children(self._init.pid)[0]


def make_bridge() -> None:
    """The network of all nodes. What an earlier run left is removed first."""
    sweep()
    _ip("link", "add", BRIDGE, "type", "bridge")
    _ip("addr", "add", f"{configs.GATEWAY}/16", "dev", BRIDGE)
    _ip("link", "set", BRIDGE, "up")


def sweep() -> None:
    """Removes every node and the bridge that an earlier run left."""
    spaces = [line.split()[0] for line in _ip("netns", "list").splitlines() if line.startswith(_PREFIX)]
    for space in spaces:
        for pid in _ip("netns", "pids", space).split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        _unplug(space)
    for link in (BRIDGE, *(each.name for each in _LINKS.glob(f"{_LINK}*"))):
        if (_LINKS / link).exists():
            _ip("link", "del", link)


def _plug(space: str, address: str) -> None:
    link = _link_of(space)
    _ip("netns", "add", space)
    _ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", space)
    _ip("link", "set", link, "master", BRIDGE, "up")
    for words in (
        ("link", "set", "lo", "up"),
        ("link", "add", "cni0", "type", "bridge"),
        ("link", "set", "eth0", "master", "cni0", "up"),
        ("addr", "add", f"{address}/16", "dev", "cni0"),
        ("link", "set", "cni0", "up"),
        ("route", "add", "default", "via", configs.GATEWAY),
    ):
        _ip("-n", space, *words)


def _link_of(space: str) -> str:
    """The name of a node's link on this machine; the kernel takes 15 characters."""
    return f"{_LINK}{space.removeprefix(_PREFIX)}"


def _unplug(space: str) -> None:
    if (_LINKS / _link_of(space)).exists():  # the kernel would remove it some time after the last process there
        _ip("link", "del", _link_of(space))
    if Path(f"/run/netns/{space}").exists():
        _ip("netns", "del", space)


def _ip(*words: str) -> str:
    """What `ip` says. Raises AssertionError where it fails."""
    done = subprocess.run([_IP, *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"`ip {' '.join(words)}`: {done.stderr}")
    return done.stdout


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _controllers() -> list[Path]:
    """The mounted hierarchies of cgroup v1, or the one of v2."""
    if (_CGROUPS / "cgroup.controllers").exists():
        return [_CGROUPS]
    return [folder for folder in _CGROUPS.iterdir() if folder.is_dir() and folder.name != "unified"]


def _make_cgroup(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name in ("cpuset.cpus", "cpuset.mems"):  # empty in a new one, and then nothing may be put into it
        own, above = folder / name, folder.parent / name
        if own.exists() and above.exists():
            own.write_text(above.read_text())


def _remove_cgroup(folder: Path) -> None:
    """Removes it with all that is below; the kernel needs a moment to see that what was in it has ended."""
    deadline = time.monotonic() + 5
    while folder.exists() and time.monotonic() < deadline:
        for inner in sorted((each for each in folder.rglob("*") if each.is_dir()), reverse=True):
            with suppress(OSError):
                inner.rmdir()
        with suppress(OSError):
            folder.rmdir()

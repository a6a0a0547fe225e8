"""A2: what replicas reach. Absolute paths, /proc, signals, limits of others, and links in what root reads."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2
from muster_client.errors import WaitTimedOut
from tests.attacks.attack import Actor, Attack, Verdict, broken, held
from tests.attacks.stage import python

if TYPE_CHECKING:
    from tests.attacks.stage import Stage

_PROOF: Final = "tests/rules/test_attacks_replicas.py"
_SERIES_SECONDS: Final = 16.0
READ_FILES: Final = """
import json, os
for path in json.loads({paths!r}):
    try:
        open(path, "rb").read(1)
        print("READ", path)
    except OSError as error:
        print("NOT", path, error.strerror)
print("TRIED")
"""
"""Open files by their absolute paths."""

WRITE_FILES: Final = """
import json, os
for path in json.loads({paths!r}):
    for change in (lambda: open(path, "ab").close(), lambda: os.chmod(path, 0o666), lambda: os.unlink(path + ".no")):
        try:
            change()
            print("CHANGED", path)
        except FileNotFoundError:
            pass
        except OSError as error:
            print("NOT", path, error.strerror)
print("TRIED")
"""
"""Append to files by their absolute paths, and change their mode."""

OTHER_PROCESSES: Final = """
import os
for pid in (int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()):
    try:
        if open(f"/proc/{pid}/environ", "rb").read():
            print("ENVIRONMENT", pid)
    except OSError:
        pass
    try:
        os.kill(pid, 0)
        print("SIGNAL", pid)
    except OSError:
        pass
print("TRIED")
"""
"""Read the environment of every process of the machine, and ask whether it could be signalled."""

RAISE_POWERS: Final = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def says(word, worked):
    print("GOT" if worked else "NOT", word)
try:
    os.setuid(0)
    says("setuid", os.getuid() == 0 and "CapEff:\\t0000000000000000" not in open("/proc/self/status").read())
except OSError:
    says("setuid", False)
says("mount", libc.mount(b"tmpfs", b"/mnt", b"tmpfs", 0, None) == 0)
says("chroot", libc.chroot(b"/") == 0)
status = open("/proc/self/status").read()
says("capabilities", "CapEff:\\t0000000000000000" not in status)
says("new-privileges", "NoNewPrivs:\\t1" not in status)
print("TRIED")
"""
"""Become root again, mount, and look for capabilities."""

PLANT_LINKS: Final = """
import os
target = {target!r}
told = os.path.join(os.path.dirname(os.environ["MUSTER_WORKDIR"]), "told")
for folder in (told, os.environ["MUSTER_RUN_DIR"], os.environ["TMPDIR"]):
    for name in ("record.json", "exec.sock", "worker-1", "log.000000000000000", "spec.json"):
        try:
            os.symlink(target, os.path.join(folder, name))
        except OSError:
            pass
print("PLANTED")
"""
"""Links to a private file wherever the agent might look."""

LOOK_AROUND: Final = """
import os
for folder in ("/", "/var", "/home", "/mnt"):
    try:
        print("REACHED", folder, os.listdir(folder)[:3])
    except OSError as error:
        print("NOT", folder, error.strerror)
print("TRIED")
"""
"""List folders of the machine that no replica is granted."""

EXCHANGE_TMP: Final = f"""
import ctypes, os, time
rename = ctypes.CDLL(None).renameat2
run = os.environ["MUSTER_RUN_DIR"]
until = time.monotonic() + 12
seen = set(os.listdir(run)) if os.environ["POD_INDEX"] == "0" else None
while seen is not None and time.monotonic() < until:
    for name in set(os.listdir(run)) - seen:
        own = os.path.join(run, name)
        if os.path.isdir(own + "/told"):
            seen.add(name)
            os.symlink("/", own + "/link")
            rename(-100, (own + "/tmp").encode(), -100, (own + "/link").encode(), 2)
            print("EXCHANGED", name)
{LOOK_AROUND}
"""
"""The first replica of a series exchanges the /tmp of each later one for a link to the machine's root."""


def _credentials(stage: Stage) -> list[Path]:
    return [path for path in sorted(stage.layout.credentials.rglob("*")) if path.is_file()]


async def read_credentials(stage: Stage) -> Verdict:
    """Read the stack's credentials and keys by their absolute paths."""
    layout = stage.layout
    wanted = [*_credentials(stage), layout.secrets, layout.sealing_keys, layout.state, layout.root / "lock"]
    agents = [path for name in ("spec.json", "journal") for path in layout.root.glob(f"agents/*/replicas/*/{name}")]
    paths = json.dumps([str(path) for path in (*wanted, *agents[:4])])
    return judged(await stage.run_replica(READ_FILES.format(paths=paths)), "READ")


async def write_secrets(stage: Stage) -> Verdict:
    """Change the secrets, a cluster file and the credentials by their absolute paths."""
    files = [stage.layout.secrets, *stage.layout.clusters.glob("*.yaml"), *_credentials(stage)]
    before = {path: (path.read_bytes(), path.stat().st_mode) for path in files}
    log = await stage.run_replica(WRITE_FILES.format(paths=json.dumps([str(path) for path in files])))
    changed = [path.name for path, state in before.items() if (path.read_bytes(), path.stat().st_mode) != state]
    return broken(f"changed: {', '.join(changed)}") if changed else judged(log, "CHANGED")


async def other_processes(stage: Stage) -> Verdict:
    """Read the environment of the services, and signal them."""
    return judged(await stage.run_replica(OTHER_PROCESSES), "ENVIRONMENT", "SIGNAL")


async def powers(stage: Stage) -> Verdict:
    """Get a power that an unprivileged process has not."""
    return judged(await stage.run_replica(RAISE_POWERS), "GOT")


async def links(stage: Stage) -> Verdict:
    """Lead the agent to a private file by links where it reads and writes."""
    secret = _credentials(stage)[0]
    before = secret.read_bytes()
    log = await stage.run_replica(PLANT_LINKS.format(target=str(secret)))
    if secret.read_bytes() != before or before.decode() in log:
        return broken("a link led to the credentials")
    return held("no link was followed") if "PLANTED" in log else broken(f"the replica did not try: {log[-200:]}")


async def exchanged_tmp(stage: Stage) -> Verdict:
    """Have the agent mount the root of the machine as the /tmp of the next replica of a series."""
    spec = workload_pb2.WorkloadSpec(
        kind=options_pb2.KIND_TRAINING,
        name=f"attack-a2-{time.time_ns()}",
        image="python",
        command=python(EXCHANGE_TMP),
        completions=24,
        parallelism=2,
        backoff_limit=100,
    )
    async with stage.client(Actor.RESEARCHER) as muster:
        made = await muster.submit(spec, project=stage.project)
        with contextlib.suppress(WaitTimedOut):  # as many as the time allows
            await muster.wait(made.id, timeout=_SERIES_SECONDS)
        log = b"".join([piece.data async for piece in muster.logs(made.id)]).decode(errors="replace")
        await muster.delete(made.id)
    if "EXCHANGED" not in log:
        return broken(f"no /tmp was exchanged in time: {log[-200:]}")
    return judged(log, "REACHED")


def judged(log: str, *bad: str) -> Verdict:
    """Held where the replica tried to the end and printed no line that begins with one of the words."""
    found = [line for line in log.splitlines() if line.startswith(bad)]
    if found:
        return broken("; ".join(found)[:300])
    return held("every attempt was refused") if "TRIED" in log else broken(f"the replica did not try: {log[-200:]}")


ATTACKS: Final = (
    Attack("A2", "credentials-by-path", Actor.REPLICA, read_credentials, f"{_PROOF}::test_unconfined_it_reads_them"),
    Attack("A2", "secrets-by-path", Actor.REPLICA, write_secrets, f"{_PROOF}::test_unconfined_it_changes_them"),
    Attack("A2", "services-in-proc", Actor.REPLICA, other_processes, f"{_PROOF}::test_unconfined_it_sees_processes"),
    Attack("A2", "powers-of-root", Actor.REPLICA, powers, f"{_PROOF}::test_unconfined_it_keeps_its_powers"),
    Attack("A2", "links-for-the-agent", Actor.REPLICA, links, f"{_PROOF}::test_a_reader_that_follows_links_is_led"),
    Attack("A2", "exchanged-tmp", Actor.REPLICA, exchanged_tmp, f"{_PROOF}::test_a_tmp_opened_by_its_path_is_followed"),
)

"""`setup`: from nothing but Python and pip to a .venv with every locked package and every room.

Called first by nearly every verb. Holds: what is installed is what requirements.lock names, by hash; a second run
without a change does nothing; two runs at the same time wait for each other.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from verbs.machine import PACKAGES, TORCH, shortage_here
from verbs.paths import LOCK, PYTHON, ROOT, TOOLS, TORCH_LOCK, VENV, rooms
from verbs.shell import VerbFailed, code_of, run, say

STAMP: Final = VENV / ".muster-installed"
TORCH_STAMP: Final = VENV / ".muster-torch-installed"
# Compiled now: ten processes that start at once would each compile the same modules, torch alone for 20 seconds.
INSTALLED: Final = ("--require-hashes", "--compile-bytecode")
# Else the first scheduler of this folder would compile for half a minute, on a busy machine for two, before it leads.
KERNELS: Final = "from muster_scheduler.domain.warming import warm_up; warm_up()"
# The interpreter is the one that runs us: a downloaded one would come from an address that nobody here has chosen.
# Certificates are the machine's own: behind a company's proxy uv's bundled ones refuse every download.
UV_SETTINGS: Final = {"UV_PYTHON_DOWNLOADS": "never", "VIRTUAL_ENV": str(VENV), "UV_SYSTEM_CERTS": "true"}


def setup() -> int:
    """Installs what is missing; under a second where nothing is."""
    with alone():
        if install_packages():
            say(f"installed in {VENV.relative_to(ROOT)}; `{VENV.name}/bin/muster --help` is the command")
    return 0


def setup_with_torch(*, needed: bool) -> None:
    """`setup`, and torch on top.

    needed: without it the verb makes no sense, so a full disk is an error; else it is left out, and the tests that want
    it are skipped with that reason.
    """
    with alone():
        install_packages()
        if stamped(TORCH_STAMP, torch_key()):
            return
        missing = shortage_here(TORCH, ROOT)
        if missing and needed:
            raise VerbFailed(missing)
        if missing:
            say(f"torch is left out, its tests will be skipped: {missing}")
            return
        install_torch()


def install_packages() -> bool:
    """Makes .venv equal to the lock, with every room in it; answers whether there was anything to do."""
    key = packages_key()
    if stamped(STAMP, key):
        return False
    missing = shortage_here(PACKAGES, ROOT)
    if missing and not STAMP.exists():
        raise VerbFailed(missing)
    uv = find_uv()
    STAMP.unlink(missing_ok=True)
    make_venv(uv)
    say("installing the locked packages")
    with_torch = TORCH_STAMP.exists()  # a sync removes what it is not told of, and 3 GB are not to be fetched twice
    uv_pip(uv, ["sync", *INSTALLED, LOCK, *([TORCH_LOCK] if with_torch else [])])
    editable = [word for room in rooms() for word in ("-e", room)]
    uv_pip(uv, ["install", "--no-deps", "--no-build-isolation", "--quiet", *editable])
    say("compiling the scheduler's kernels (once)")
    run([PYTHON, "-c", KERNELS])
    STAMP.write_text(key, encoding="utf-8")
    if with_torch:
        TORCH_STAMP.write_text(torch_key(), encoding="utf-8")
    return True


def install_torch() -> None:
    """Adds the torch group to .venv."""
    say("installing torch (about 3 GB to download, once)")
    uv_pip(find_uv(), ["install", *INSTALLED, "-r", TORCH_LOCK])
    TORCH_STAMP.write_text(torch_key(), encoding="utf-8")


def uv_pip(uv: Path, words: Sequence[str | Path]) -> None:
    """One `uv pip` command on .venv."""
    patience = {"UV_HTTP_TIMEOUT": os.environ.get("UV_HTTP_TIMEOUT", "180")}  # a slow mirror's big wheels
    run([uv, "pip", words[0], "--python", PYTHON, *words[1:]], extra=UV_SETTINGS | patience)


def find_uv() -> Path:
    """The machine's uv, else ours under .tools, else one that pip puts there.

    A folder of its own, because the pip of Debian and others refuses to touch the system's packages.
    """
    ours = TOOLS / "bin" / "uv"
    found = shutil.which("uv") or (str(ours) if ours.exists() else None)
    if found:
        return Path(found)
    say("installing uv into .tools")
    if code_of([sys.executable, "-m", "pip", "install", "--quiet", "--target", TOOLS, "uv"]) != 0 or not ours.exists():
        raise VerbFailed(
            f"uv could not be installed by `{sys.executable} -m pip`. pip's own message stands above. Either mend pip "
            "(on Debian and Ubuntu: apt install python3-pip), or install uv yourself and put it on the PATH."
        )
    return ours


def make_venv(uv: Path) -> None:
    """Creates .venv with the Python that runs this, unless a working one is there."""
    if PYTHON.exists() and code_of([PYTHON, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]) == 0:
        return
    base = getattr(sys, "_base_executable", sys.executable)  # not a venv's own, which may be the one being replaced
    run([uv, "venv", "--quiet", "--clear", "--python", base, VENV], extra={"UV_PYTHON_DOWNLOADS": "never"})


def digest(files: Sequence[Path], *words: str) -> str:
    """A key that changes when any of these files or words does."""
    sha = hashlib.sha256("\0".join(words).encode())
    for file in files:
        sha.update(file.relative_to(ROOT).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return sha.hexdigest()


def packages_key() -> str:
    """What an installation depends on: the lock, the rooms' own declarations, and where they lie."""
    return digest([LOCK, *(room / "pyproject.toml" for room in rooms())], str(ROOT))


def torch_key() -> str:
    """The same for torch, which is installed on top of the packages."""
    return digest([TORCH_LOCK], packages_key())


def stamped(stamp: Path, key: str) -> bool:
    """Whether `stamp` says that `key` is installed."""
    return PYTHON.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == key


@contextmanager
def alone() -> Iterator[None]:
    """Holds the installation's lock: two verbs that sync one .venv at once leave it half of each."""
    TOOLS.mkdir(exist_ok=True)
    with (TOOLS / "setup.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another setup is running here; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield

"""`lock`: resolves every dependency of every room into two lock files, with their hashes.

Called by people after a pyproject changed. Holds: a lock names packages, versions and hashes and no address, so that it
says nothing about where anybody installs from (docs/decisions/0001).
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Final

from verbs.bootstrap import find_uv
from verbs.paths import LOCK, ROOT, TORCH_LOCK, rooms
from verbs.shell import VerbFailed, run, say

FLOOR: Final = "3.11"
HEADER: Final = (
    "# Written by `make lock` from the pyproject of every room: edit those. Any index will do: hashes are checked.\n"
)


def lock() -> int:
    """Writes requirements.lock and requirements-torch.lock anew, keeping the versions that still fit."""
    uv = find_uv()
    editable = "".join(f"-e {room.relative_to(ROOT).as_posix()}\n" for room in rooms())
    write(LOCK, compiled(uv, LOCK, editable, "--group=pyproject.toml:dev"))
    # Where both locks name a package, they name one version: torch is installed on top of the rest.
    write(TORCH_LOCK, compiled(uv, TORCH_LOCK, "", "--group=pyproject.toml:torch", f"--constraint={LOCK}"))
    return 0


def compiled(uv: Path, kept: Path, lines: str, *more: str) -> str:
    """What uv resolves for these requirement lines and `more` flags.

    kept: the lock of before: its versions are preferred, so that a new dependency moves nothing else.
    """
    with tempfile.TemporaryDirectory(dir=ROOT, prefix=".lock-") as folder:
        wanted, output = Path(folder) / "wanted.in", Path(folder) / "resolved.txt"
        wanted.write_text(lines, encoding="utf-8")
        if kept.exists():
            output.write_bytes(kept.read_bytes())
        flags = ["--universal", "--python-version", FLOOR, "--generate-hashes", "--no-emit-index-url", "--no-header"]
        flags += ["--no-annotate", "--quiet", "--output-file", str(output)]
        run([uv, "pip", "compile", *flags, *more, wanted])
        return without_local(output.read_text(encoding="utf-8"))


def without_local(text: str) -> str:
    """A lock without its lines about our own rooms, which are installed from this folder."""
    kept = [line for line in text.splitlines() if not line.startswith("-e ")]
    return HEADER + "\n".join(kept) + "\n"


def write(target: Path, text: str) -> None:
    """Writes a lock, unless an address has slipped in."""
    address = re.search(r"^.*(?:https?://|file:).*$", text, re.MULTILINE)
    if address:
        raise VerbFailed(f"{target.name} would hold an address, which may not be committed: {address.group(0).strip()}")
    target.write_text(text, encoding="utf-8")
    say(f"{target.name}: {len(re.findall(r'^[a-z0-9].*==', text, re.MULTILINE))} packages")

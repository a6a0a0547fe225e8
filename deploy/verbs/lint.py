"""`lint`: everything that can be said about the code without running it.

Called by people and by .ci/run. Holds: every check runs, so that one run shows all there is to mend.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from verbs.bootstrap import setup
from verbs.pages import stale
from verbs.paths import BIN, CONTRACTS, PROTOS
from verbs.protos import difference, generate
from verbs.shell import code_of, say

SHOWN: Final = 10  # stale generated files named one by one


def lint() -> int:
    """Runs every check; 1 where any of them fails."""
    setup()
    failed = [name for name, check in CHECKS.items() if not timed(name, check)]
    say(f"lint failed: {', '.join(failed)}" if failed else "lint is clean")
    return 1 if failed else 0


def timed(name: str, check: Callable[[], bool]) -> bool:
    """Runs one check and says how it went."""
    begun = time.monotonic()
    good = check()
    say(f"{'ok    ' if good else 'FAILED'}  {name}  ({time.monotonic() - begun:.1f} s)")
    return good


def passes(*words: str | Path, cwd: Path | None = None) -> Callable[[], bool]:
    """A check that is one command."""
    return lambda: code_of(words, cwd=cwd) == 0 if cwd else code_of(words) == 0


def generated_code_is_fresh() -> bool:
    """Generates the contracts elsewhere and compares them with what is committed."""
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        stale = difference(Path(folder) / "muster", CONTRACTS)
    for path in stale[:SHOWN]:
        say(f"{CONTRACTS.name}/{path} is not what protos/ gives; run `make proto`")
    return not stale


def pages_are_fresh() -> bool:
    """Writes what comes from the catalogue elsewhere and compares it with what is committed."""
    found = stale()
    for path in found[:SHOWN]:
        say(f"{path} is not what the catalogue gives; run `make pages`")
    return not found


CHECKS: Final[dict[str, Callable[[], bool]]] = {
    "ruff check": passes(BIN / "ruff", "check", "."),
    "ruff format": passes(BIN / "ruff", "format", "--check", "--diff", "--quiet", "."),
    "mypy": passes(BIN / "mypy"),
    "import-linter": passes(BIN / "lint-imports", "--no-logo"),
    "buf lint": passes(BIN / "buf", "lint", cwd=PROTOS),
    "buf format": passes(BIN / "buf", "format", "--diff", "--exit-code", cwd=PROTOS),
    "generated code": generated_code_is_fresh,
    "pages of the language": pages_are_fresh,
}

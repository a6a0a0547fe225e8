"""`make attack`: tries every scripted attack on running stacks and judges whether they held.

`--only ROW` runs the attacks of one row, `--no-proofs` leaves out the tests in which each attack works. The last line
is one JSON object: attacks, held, broken, others_p99_ratio_max (the worst ratio among noisy attacks beyond the 25 ms
which a bound allows, else the worst of all), tracebacks (in the logs of the stacks), proofs (tests in which an attack
works because its protection is substituted) and rows. The exit status is 0 where nothing broke. Findings go to stderr.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.attacks import opening
from tests.attacks.attack import Attack, StackKind, Verdict, broken
from tests.attacks.catalogue import attacks
from tests.attacks.tenants import unplaced
from tests.attacks.windows import WINDOWS, Felt, measure

_ROOT: Final = Path(__file__).resolve().parents[2]
_ATTACK_SECONDS: Final = 60.0
_TRACEBACK: Final = "Traceback (most recent call last)"


@dataclass(slots=True)
class Report:
    """What was tried and what came of it."""

    verdicts: dict[str, tuple[Attack, Verdict]] = field(default_factory=dict)
    felt: dict[str, Felt] = field(default_factory=dict)
    tracebacks: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    unproved: list[str] = field(default_factory=list)
    proofs: int = 0

    @property
    def clean(self) -> bool:
        """Whether nothing broke, nothing was lost and every attack was proved."""
        return not (self.broken or self.tracebacks or self.lost or self.unproved)

    @property
    def broken(self) -> list[str]:
        """The names of attacks that had their effect, or that others felt beyond the bound."""
        felt = [name for name, each in self.felt.items() if not each.kept]
        return sorted({name for name, (_, verdict) in self.verdicts.items() if not verdict.held} | set(felt))

    def summary(self) -> dict[str, Any]:
        """The JSON object."""
        over = [each.ratio for each in self.felt.values() if not each.kept]
        return {
            "attacks": len(self.verdicts),
            "held": len(self.verdicts) - len(self.broken),
            "broken": len(self.broken),
            "others_p99_ratio_max": max(over or [each.ratio for each in self.felt.values()], default=None),
            "tracebacks": len(self.tracebacks),
            "lost": len(self.lost),
            "proofs": self.proofs,
            "unproved": len(self.unproved),
            "rows": sorted({attack.row for attack, _ in self.verdicts.values()}),
        }


def main() -> int:
    """Runs the attacks; 0 where all held."""
    given = _arguments()
    chosen = [each for each in attacks() if given.only in (None, each.row, each.name)]
    report = Report()
    for kind in StackKind:
        asked = [each for each in chosen if each.stack is kind]
        if asked:
            _on_stack(kind, asked, report, given.windows)
    if not given.no_proofs:
        _prove(chosen, report)
    _tell(report)
    print(json.dumps(report.summary()))
    return 0 if report.clean else 1


def _on_stack(kind: StackKind, asked: Sequence[Attack], report: Report, windows: int) -> None:
    with tempfile.TemporaryDirectory(prefix="muster-attack-") as folder:
        _say(f"attack: {len(asked)} attacks on a stack, {kind.value}")
        with opening.stack_of(kind, Path(folder) / "stack") as stack:
            try:
                asyncio.run(_try_all(stack, kind, asked, report, windows))
            finally:
                report.tracebacks += tracebacks(stack.layout.logs)


async def _try_all(stack: Any, kind: StackKind, asked: Sequence[Attack], report: Report, windows: int) -> None:
    opened = await opening.open_stage(stack, kind)
    for attack in asked:
        _say(f"attack: {attack.row} {attack.name}, by {attack.actor.value}")
        if attack.noisy:
            felt = await measure(attack, opened.stage, opened.tenants, windows=windows)
            report.felt[attack.name] = felt
            bad = next((each for each in felt.verdicts if not each["held"]), felt.verdicts[-1])
            verdict = Verdict(held=bool(bad["held"]), evidence=str(bad["evidence"]))
            _say(f"        others: p99 {felt.before_p99_ms} ms before, {felt.during_p99_ms} ms during")
        else:
            verdict = await _bounded(attack, opened.stage)
        report.verdicts[attack.name] = (attack, verdict)
        _say(f"        {'held' if verdict.held else 'BROKEN'}: {verdict.evidence}")
    report.lost += await unplaced(opened.tenants)


async def _bounded(attack: Attack, stage: Any) -> Verdict:
    """The verdict of one attack; one that fails by itself proves nothing and counts as broken."""
    try:
        async with asyncio.timeout(_ATTACK_SECONDS):
            return await attack.run(stage)
    except Exception as problem:  # noqa: BLE001 - the others are still to be tried
        return broken(f"the attack itself failed: {type(problem).__name__}: {problem}")


def tracebacks(logs: Path) -> list[str]:
    """A line for each traceback in the logs of a stack: the file and the line in it."""
    found = []
    for path in sorted(logs.glob("*.log*")):
        lines = path.read_text(errors="replace").splitlines()
        found += [f"{path.name}:{number}" for number, line in enumerate(lines, 1) if _TRACEBACK in line]
    return found


def _prove(chosen: Sequence[Attack], report: Report) -> None:
    proofs = sorted({each.proof for each in chosen})
    report.proofs = len(proofs)
    _say(f"attack: {len(proofs)} proofs that the attacks work without their protection")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", *proofs], cwd=_ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        report.unproved = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))] or [
            done.stdout[-500:]
        ]


def _tell(report: Report) -> None:
    for name in report.broken:
        attack, verdict = report.verdicts[name]
        felt = report.felt.get(name)
        others = f"; others p99 {felt.before_p99_ms} to {felt.during_p99_ms} ms, {felt.refused[:3]}" if felt else ""
        _say(f"  BROKEN {attack.row} {name}: {verdict.evidence}{others}")
    for line in [*report.lost, *report.tracebacks, *report.unproved]:
        _say(f"  {line}")


def _say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="a row such as B1, or the name of an attack")
    parser.add_argument("--no-proofs", action="store_true", help="do not run the tests that prove each attack")
    parser.add_argument("--windows", type=int, default=WINDOWS, help="pairs of windows a noisy attack is measured in")
    parser.add_argument("--json", action="store_true", help="accepted for symmetry: the last line is always JSON")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

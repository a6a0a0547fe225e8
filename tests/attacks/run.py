"""`make attack`: tries every scripted attack on running stacks and judges whether they held.

`--only A1,half-sent-heads` runs the attacks of those rows and names, `--no-proofs` leaves out the tests in which each
attack works, `--windows 0` tries the noisy ones without measuring others, `--keep DIR` keeps the logs of the stacks.

The last line is one JSON object: attacks, held, broken, others_p99_ratio_max (the worst ratio among noisy attacks
beyond the 25 ms which a bound allows, else the worst of all), tracebacks (in the logs of the stacks), proofs (tests in
which an attack works because its protection is substituted) and rows. The exit status is 0 where nothing broke. The
verdict of each attack and what was found go to stderr.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import signal
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
from tests.attacks.stage import Stage
from tests.attacks.tenants import RATE, unplaced
from tests.attacks.windows import GROUP, WINDOWS, Felt, measure
from tests.support.stacks import RunningStack

_ROOT: Final = Path(__file__).resolve().parents[2]
_ATTACK_SECONDS: Final = 60.0
_UNMEASURED_SECONDS: Final = 3.0  # of a noisy attack that is tried and not measured
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
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the stack is ended too
    chosen = _chosen(given.only)
    report = Report()
    for kind in StackKind:
        asked = [each for each in chosen if each.stack is kind]
        if asked:
            _on_stack(kind, asked, report, given)
    if not given.no_proofs:
        _prove(chosen, report)
    _tell(report)
    print(json.dumps(report.summary()))
    return 0 if report.clean else 1


def _chosen(only: str) -> list[Attack]:
    """The attacks of the rows and names in a list with commas; all where it is empty. Exits for an unknown one."""
    wanted = {word for word in only.split(",") if word}
    known = attacks()
    if unknown := wanted - {name for each in known for name in (each.row, each.name)}:
        sys.exit(f"--only: no attack has the row or the name {', '.join(sorted(unknown))}")
    return [each for each in known if not wanted or wanted & {each.row, each.name}]


def _on_stack(kind: StackKind, asked: Sequence[Attack], report: Report, given: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="muster-attack-") as folder:
        _say(f"attack: {len(asked)} attacks on a stack, {kind.value}")
        with opening.stack_of(kind, Path(folder) / "stack") as stack:
            try:
                asyncio.run(_try_all(stack, kind, asked, report, given))
            finally:
                report.tracebacks += tracebacks(stack.layout.logs)
                if given.keep:
                    shutil.copytree(stack.layout.logs, given.keep / kind.value, dirs_exist_ok=True)


async def _try_all(
    stack: RunningStack, kind: StackKind, asked: Sequence[Attack], report: Report, given: argparse.Namespace
) -> None:
    opened = await opening.open_stage(stack, kind)
    measured = [each for each in asked if each.noisy and given.windows]
    for attack in [each for each in asked if each not in measured]:
        begun = time.monotonic()
        _note(report, attack, await _tried(attack, opened.stage), f"{time.monotonic() - begun:.1f} s")
    for group in (measured[at : at + GROUP] for at in range(0, len(measured), GROUP)):
        await _measured(group, opened, report, given)
    report.lost += await unplaced(opened.tenants)


async def _measured(group: Sequence[Attack], opened: opening.Opened, report: Report, given: argparse.Namespace) -> None:
    begun = time.monotonic()
    try:
        found = await measure(group, opened.stage, opened.tenants, windows=given.windows, rate=given.rate)
    except Exception as problem:  # noqa: BLE001 - the others are still to be tried
        for attack in group:
            _note(report, attack, broken(f"{type(problem).__name__}: {problem}"), "the measurement itself failed")
        return
    _say(f"{len(group)} attacks were measured in {time.monotonic() - begun:.0f} s")
    for attack, felt in found.items():
        report.felt[attack.name] = felt
        _note(report, attack, felt.verdict, f"others p99 {felt.before_p99_ms} to {felt.during_p99_ms} ms")


async def _tried(attack: Attack, stage: Stage) -> Verdict:
    """The verdict of one attack; one that fails by itself proves nothing and counts as broken."""
    try:
        async with asyncio.timeout(_ATTACK_SECONDS):
            return await attack.run(stage.lasting(time.monotonic() + _UNMEASURED_SECONDS))
    except Exception as problem:  # noqa: BLE001 - the others are still to be tried
        return broken(f"the attack itself failed: {type(problem).__name__}: {problem}")


def _note(report: Report, attack: Attack, verdict: Verdict, figure: str) -> None:
    report.verdicts[attack.name] = (attack, verdict)
    word = "held" if verdict.held else "BROKEN"
    _say(f"{word:6} {attack.row:3} {attack.name} ({attack.actor.value}), {figure}: {verdict.evidence}")


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
    parser.add_argument("--only", default="", help="rows such as B1 and names of attacks, with commas between them")
    parser.add_argument("--keep", type=Path, help="a folder for the logs of the stacks")
    parser.add_argument("--no-proofs", action="store_true", help="do not run the tests that prove each attack")
    parser.add_argument("--windows", type=int, default=WINDOWS, help="pairs of windows; 0 measures nothing")
    parser.add_argument("--rate", type=float, default=RATE, help="calls a second of each of three tenants")
    parser.add_argument("--json", action="store_true", help="accepted for symmetry: the last line is always JSON")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

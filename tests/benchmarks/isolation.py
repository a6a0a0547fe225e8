"""How little one tenant disturbs the others: `uv run python tests/benchmarks/isolation.py --json`.

Three tenants submit, trigger, watch and list at a steady rate on a stack with `--auth`, while a fourth does the worst
of each finding of isolation: the noisy attacks of `tests/attacks`. For each attack five windows without any attack
alternate with five windows under it, of at least 1,000 calls each (up to four attacks share the quiet window of a
round); the figures are medians of the windows' 99th percentile.

The last line is one JSON object: by row {before_p99_ms, during_p99_ms, ratio, calls, refused} of its worst attack, and
`unplaced`: what the three tenants submitted or triggered that was not placed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.attacks import opening
from tests.attacks.attack import Attack, StackKind
from tests.attacks.catalogue import attacks
from tests.attacks.tenants import unplaced
from tests.attacks.windows import GROUP, Felt, measure


def main() -> int:
    """Measures every noisy attack and prints the object; 0 where all bounds are kept."""
    given = _arguments()
    chosen = [each for each in attacks() if each.noisy and given.only in (None, each.row)]
    result, kept = asyncio.run(_measured(chosen))
    if not given.json:
        for name, row in result.items():
            print(f"{name:10} {row}")
    print(json.dumps(result))
    return 0 if kept else 1


async def _measured(chosen: list[Attack]) -> tuple[dict[str, object], bool]:
    with (
        tempfile.TemporaryDirectory(prefix="muster-isolation-") as folder,
        opening.stack_of(StackKind.AUTH, Path(folder) / "stack") as stack,
    ):
        opened = await opening.open_stage(stack, StackKind.AUTH)
        felt: dict[Attack, Felt] = {}
        for at in range(0, len(chosen), GROUP):
            felt |= await measure(chosen[at : at + GROUP], opened.stage, opened.tenants)
        missing = await unplaced(opened.tenants)
    rows: dict[str, object] = {row: _figures(row, felt) for row in sorted({each.row for each in felt})}
    return {**rows, "unplaced": len(missing)}, not missing and all(each.kept for each in felt.values())


def _figures(row: str, felt: dict[Attack, Felt]) -> dict[str, object]:
    worst = max((each for attack, each in felt.items() if attack.row == row), key=lambda each: each.ratio)
    return {
        "before_p99_ms": worst.before_p99_ms,
        "during_p99_ms": worst.during_p99_ms,
        "ratio": worst.ratio,
        "calls": worst.calls,
        "refused": len(worst.refused),
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="a row such as B4")
    parser.add_argument("--json", action="store_true", help="print nothing but the JSON object")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

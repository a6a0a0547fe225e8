"""The process of one noisy attack: `python tests/attacks/noise.py NAME`, its stage as a line of JSON on stdin.

Started by `tests/attacks/windows.py`. The last line of stdout is the verdict as JSON. It runs at a lower priority and
ends by itself some seconds after the stage's `until`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.attacks.attack import Attack, Verdict, broken
from tests.attacks.catalogue import attacks
from tests.attacks.stage import Stage

_GRACE_SECONDS = 15.0


def main() -> int:
    """Runs the attack; 0 where it held."""
    os.nice(5)
    stage = Stage.from_json(sys.stdin.readline())
    attack = next(each for each in attacks() if each.name == sys.argv[1])
    verdict = asyncio.run(_bounded(attack, stage))
    print(json.dumps(asdict(verdict)))
    return 0 if verdict.held else 1


async def _bounded(attack: Attack, stage: Stage) -> Verdict:
    """The verdict; an attack that fails by itself or goes on too long proves nothing and counts as broken."""
    try:
        async with asyncio.timeout(stage.until - time.monotonic() + _GRACE_SECONDS):
            return await attack.run(stage)
    except Exception as problem:  # noqa: BLE001 - the reader of this process expects a verdict
        return broken(f"the attack itself failed: {type(problem).__name__}: {problem}")


if __name__ == "__main__":
    sys.exit(main())

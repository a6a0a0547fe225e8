"""The process of one noisy attack: `python tests/attacks/noise.py NAME`.

Started by `tests/attacks/windows.py`. It prints `ready`; then for each line of stdin, which is a stage as JSON, it
attacks until some seconds after the stage's `until` at most, and prints the verdict as a line of JSON. It runs at a
lower priority, in a session of its own: where the kernel groups processes by session, priorities count within one.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from muster_chassis import priority
from tests.attacks.attack import Attack, Verdict, broken
from tests.attacks.catalogue import attacks
from tests.attacks.stage import Stage

READY = "ready"
_GRACE_SECONDS = 15.0


def main() -> int:
    """Attacks once for each stage; 0 at the end of stdin."""
    priority.lower()
    attack = next(each for each in attacks() if each.name == sys.argv[1])
    print(READY, flush=True)
    with asyncio.Runner() as runner:  # one loop: gRPC complains on and on of calls whose loop was closed
        for line in sys.stdin:
            verdict = runner.run(_bounded(attack, Stage.from_json(line)))
            print(json.dumps(asdict(verdict)), flush=True)
    return 0


async def _bounded(attack: Attack, stage: Stage) -> Verdict:
    """The verdict; an attack that fails by itself or goes on too long proves nothing and counts as broken."""
    try:
        async with asyncio.timeout(stage.until - time.monotonic() + _GRACE_SECONDS):
            return await attack.run(stage)
    except Exception as problem:  # noqa: BLE001 - the reader of this process expects a verdict
        return broken(f"the attack itself failed: {type(problem).__name__}: {problem}")
    finally:
        left = asyncio.all_tasks() - {asyncio.current_task()}  # nothing of it goes on in the next, quiet window
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


if __name__ == "__main__":
    sys.exit(main())

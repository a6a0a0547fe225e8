"""Law 7 over instances: processes that hash differently give the same bytes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import hashlib
from tests.support.policy_cells import case, composed, in_table
from muster_policy_engine.judging.judge import Admitted, Context, judge

seen = hashlib.sha256()
for cell in list(in_table())[::9]:
    made = case(cell)
    for own in (made.accepted, made.refused):
        verdict = judge(own, None, composed(cell, made.policy), Context())
        if isinstance(verdict, Admitted):
            seen.update(verdict.effective.SerializeToString())
            seen.update(repr((verdict.sources, verdict.warnings)).encode())
        else:
            seen.update(repr([(each.path, each.rule, each.given, each.details) for each in verdict.issues]).encode())
print(seen.hexdigest())
"""


def digest(seed: int) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, check=True, capture_output=True, text=True, timeout=120
    )
    return done.stdout.strip()


def test_the_seed_of_hashes_does_not_matter() -> None:
    first = digest(1)
    assert len(first) == 64
    assert digest(2) == first

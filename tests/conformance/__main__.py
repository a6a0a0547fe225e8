"""`make conformance BACKEND=local|fake|apiserver|node`: the suite on one back end; the last line is one JSON object.

{"backend", "cases", "passed", "failed", "skipped", "played_again", "seconds"}. The exit status is 0 only if at least
120 cases were played, nothing failed, and what was skipped is the committed list.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
LEAST: Final = 120  # cases
BACKENDS: Final = ("local", "fake", "apiserver", "node")


class Count:
    """Counts the cases of a run."""

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called by pytest for each phase of a test."""
        if "::test_case[" in report.nodeid and (report.when == "call" or report.outcome != "passed"):
            self.found[report.outcome] += 1


def main() -> int:
    """Runs it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=BACKENDS, default="fake")
    backend = parser.parse_args().backend
    os.environ["MUSTER_CONFORMANCE"] = "whole"
    count, began = Count(), time.monotonic()
    file = ROOT / "tests" / "conformance" / f"test_{backend}.py"
    code = pytest.main(["-q", "--reruns", "1", "-raR", str(file)], plugins=[count])
    found = {word: count.found[word] for word in ("passed", "failed", "skipped")}
    seconds = round(time.monotonic() - began, 1)
    again = count.found["rerun"]
    total = sum(found.values())
    print(json.dumps({"backend": backend, "cases": total, **found, "played_again": again, "seconds": seconds}))
    return int(code) or int(found["passed"] == 0 or total < LEAST)


if __name__ == "__main__":
    sys.exit(main())

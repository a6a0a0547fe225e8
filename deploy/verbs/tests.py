"""`test`, `test-node`, `conformance`, `chaos`, `soak`, `attack` and `bench`: what runs the code.

Called by people and by .ci/run. Holds: the pure rooms keep their line coverage, and the last line of `test` is
pytest's own.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from verbs.bootstrap import setup, setup_with_torch
from verbs.lanes import Step, run_lanes
from verbs.paths import BIN, PYTHON, ROOT, SERVICES
from verbs.shell import VerbFailed, become, run, say

PURE_SUITES: Final = ("unit", "contracts", "simulation")  # in process, in seconds
PROPERTIES: Final = ("properties",)  # in process, in minutes
LONG_TESTS: Final = ("-o", "faulthandler_timeout=1800")  # the state machine alone takes minutes of one core
REAL_SUITES: Final = (
    "end_to_end",
    "rules",
    "conformance",
    "integration",
)  # on a real Kafka and PostgreSQL; the longest files first
# Real processes on a busy machine sometimes miss a deadline of a test. One more try, named RERUN in the output, tells
# that from a fault; two failures in a row are one (docs/decisions/0004).
PATIENCE: Final = ("--reruns", "1", "-raR")  # `-ra` alone counts those that were run again and names none
# Tests on real servers wait as much as they compute. Each process has servers of its own; a file stays in one of them.
TWO_AT_A_TIME: Final = ("--numprocesses", "2", "--dist", "loadfile")
COVERAGE: Final = ("-m", "coverage", "run", "--parallel-mode")
COVERED: Final = 95  # percent of the lines of the kernel and of every domain package


def test() -> int:
    """Runs every test, the short pure ones under coverage.

    One process uses one core, and tests on real servers wait as much as they compute. Two lanes use both cores: in the
    first the real suites follow the short pure ones, in the second the properties take what the first one leaves. The
    properties are not measured: it would make them twice as long, and the lines are covered without them.
    """
    setup_with_torch(needed=False)
    packages = [folder.relative_to(ROOT).as_posix() for folder in pure_packages()]
    measured: list[str | Path] = [PYTHON, *COVERAGE, f"--source={','.join(packages)}", "-m", "pytest"]
    pure = Step("the pure suites", [*measured, *existing(PURE_SUITES)])
    properties = Step("the properties", [BIN / "pytest", *LONG_TESTS, *existing(PROPERTIES)], yields=True)
    real = Step("the suites on real servers", [BIN / "pytest", *PATIENCE, *TWO_AT_A_TIME, *existing(REAL_SUITES)])
    run_lanes([[pure, real], [properties]], shown=[pure, partial(judge_coverage, packages), properties, real])
    return 0


def judge_coverage(packages: Sequence[str]) -> None:
    """Shows the line coverage of each pure package and ends the verb where one of them has too little."""
    run([PYTHON, "-m", "coverage", "combine", "--quiet"])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "coverage.json"
        run([PYTHON, "-m", "coverage", "json", "--quiet", "-o", file])
        report = json.loads(file.read_text(encoding="utf-8"))
    covered = coverage_by_package(report["files"], packages)
    for package, percent in covered.items():
        say(f"{percent:6.2f} % of the lines of {package}")
    poor = [package for package, percent in covered.items() if percent < COVERED]
    if poor:
        run([PYTHON, "-m", "coverage", "report", "--show-missing", "--skip-covered"])
        raise VerbFailed(f"less than {COVERED} % of the lines are covered in {', '.join(poor)}; see the table above")


def coverage_by_package(files: Mapping[str, Any], packages: Sequence[str]) -> dict[str, float]:
    """Percent of the lines of each package that ran; 100 for one without a statement.

    files: the `files` of coverage's JSON report, by path relative to the root.
    """
    percents = {}
    for package in packages:
        found = [entry["summary"] for path, entry in files.items() if path.startswith(f"{package}/")]
        lines = sum(summary["num_statements"] for summary in found)
        percents[package] = 100 * sum(summary["covered_lines"] for summary in found) / lines if lines else 100.0
    return percents


def chaos() -> int:
    """Kills services, agents and brokers under load and judges what was lost.

    SEED, KILLS, INSTANCES, UPGRADE and BACKEND are variables.
    """
    setup()
    given = [name for name in ("SEED", "KILLS", "INSTANCES", "UPGRADE", "BACKEND") if os.environ.get(name)]
    flags = [f"--{name.lower()}={os.environ[name]}" for name in given]
    become([PYTHON, ROOT / "tests" / "chaos" / "run.py", *flags])


def soak() -> int:
    """Runs a stack under steady load and says what of it grows; MINUTES=60 is how long."""
    setup()
    minutes = os.environ.get("MINUTES")
    become([PYTHON, ROOT / "tests" / "ageing" / "soak.py", *([f"--minutes={minutes}"] if minutes else [])])


def attack() -> int:
    """Tries every scripted attack on running stacks and judges whether they held; ONLY=B4 limits it to a row."""
    setup()
    only = os.environ.get("ONLY")
    become([PYTHON, ROOT / "tests" / "attacks" / "run.py", *([f"--only={only}"] if only else [])])


def conformance() -> int:
    """Plays the conformance suite of the cluster agent on one back end; BACKEND=local, fake, apiserver or node."""
    setup()
    become([PYTHON, "-m", "tests.conformance", f"--backend={os.environ.get('BACKEND', 'fake')}"])


def test_node() -> int:
    """Runs Muster on two real kubelets of this machine; it takes root, and what `testbed` builds."""
    setup_with_torch(needed=True)
    become([PYTHON, "-m", "tests.nodes.run"])


def bench() -> int:
    """Runs each benchmark; the last line of each is a JSON object."""
    setup()
    scripts = sorted(
        path for path in (ROOT / "tests" / "benchmarks").glob("*.py") if not path.name.startswith(("_", "test_"))
    )
    if not scripts:
        raise VerbFailed("there is no benchmark under tests/benchmarks")
    for script in scripts:
        say(f"{script.relative_to(ROOT)} --json")
        run([PYTHON, script, "--json"])
    return 0


def existing(suites: tuple[str, ...]) -> list[str]:
    """The folders of those suites that hold tests, in the given order."""
    return [f"tests/{suite}" for suite in suites if any((ROOT / "tests" / suite).rglob("test_*.py"))]


def pure_packages(services: Path = SERVICES) -> list[Path]:
    """The kernel and each service's domain package."""
    return [
        services / "kernel" / "muster_kernel",
        *sorted(path for path in services.glob("*/muster_*/domain") if path.is_dir()),
    ]

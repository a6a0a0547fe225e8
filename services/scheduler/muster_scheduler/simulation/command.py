"""`muster simulate`: a scenario or a trace in virtual time, on this machine; no control plane is asked.

The `muster` command finds it by entry point (docs/decisions/0003). Results go to stdout, progress and what is wrong to
stderr. Exit codes: 0 done, 1 the results cannot be written, 2 the file cannot be used.
"""

from __future__ import annotations

import gc
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import fill
from typing import Annotated, Any, Final

from cyclopts import Parameter
from rich.console import Console

from muster_scheduler.simulation.page import page
from muster_scheduler.simulation.plots import pictures
from muster_scheduler.simulation.problems import Problem, Unusable
from muster_scheduler.simulation.reading import read_scenario, read_text
from muster_scheduler.simulation.record import Record
from muster_scheduler.simulation.report import headline, summary, table
from muster_scheduler.simulation.running import Simulation
from muster_scheduler.simulation.scenario import DAY, Scenario
from muster_scheduler.simulation.traces import read_trace

_EVERY: Final = 2.0  # seconds between two words of progress
_FAILED: Final = 1
_WIDE: Final = 110
_INVALID: Final = 2


def simulate(
    file: Path,
    *,
    nodes: Annotated[Path | None, Parameter(help="The nodes of a trace (default: *node_list*.csv beside it).")] = None,
    days: Annotated[float | None, Parameter(help="How many days, instead of what the file says.")] = None,
    out: Annotated[Path | None, Parameter(help="A folder for figures.json, report.html and the pictures.")] = None,
    as_json: Annotated[bool, Parameter(name=["--json"], help="All figures as JSON.", negative="")] = False,
) -> int:
    """Simulate a fleet: a scenario (YAML) or a trace (CSV) through the scheduler's own decisions, in virtual time.

    Args:
        file: A scenario, or a trace of pods with its list of nodes beside it.
        nodes: The nodes of a trace.
        days: How many days.
        out: A folder for the results.
        as_json: All figures as JSON on stdout.
    """
    try:
        scenario = load(file, nodes, days)
    except Unusable as error:
        return _refuse(error, as_json=as_json)
    if out is not None and not _written(out, lambda: prepare(out)):
        return _FAILED  # before a run that may take minutes, and whose figures would have no place
    began = time.perf_counter()
    with without_collector():
        figures = Simulation(scenario, _Teller()).run()
    told = summary(figures) | {"seconds": round(time.perf_counter() - began, 3)}
    written = out is None or _written(out, lambda: write(out, told))
    _show(told, out if written else None, as_json=as_json)
    return 0 if written else _FAILED


def _written(out: Path, action: Callable[[], None]) -> bool:
    try:
        action()
    except OSError as error:
        sys.stderr.write(f"muster: {out}: cannot be written: {error.strerror or error}\n")
        return False
    return True


def load(file: Path, nodes: Path | None, days: float | None) -> Scenario:
    """The scenario in a file of either form. Raises Unusable."""
    if days is not None and not 0 < days <= 400:  # noqa: PLR2004 - as the file's own `days`
        raise Unusable([Problem("--days", 0, "", f"{days:g}: a number above 0 and up to 400 is allowed")])
    if file.suffix != ".csv":
        return read_scenario(file, days=days)
    beside = nodes or next(iter(sorted(file.parent.glob("*node_list*.csv"))), None)
    if beside is None:
        said = "a trace needs its nodes: name their file with --nodes, or put a *node_list*.csv beside it"
        raise Unusable([Problem(str(file), 0, "", said)])
    return read_trace(file, read_text(file), beside, read_text(beside), days=days)


def prepare(out: Path) -> None:
    """Makes the folder for the results and tries whether files can be made in it. Raises OSError."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=out):
        pass


def write(out: Path, told: dict[str, Any]) -> None:
    """Writes the results into a folder. Raises OSError."""
    drawn = pictures(told)
    for name, text in drawn.items():
        (out / name).write_text(text, encoding="utf-8")
    (out / "report.html").write_text(page(told, drawn), encoding="utf-8")
    (out / "figures.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


@contextmanager
def without_collector() -> Iterator[None]:
    """Without the garbage collector, which walks millions of objects again and again: a run makes no circle of them."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Teller:
    """Says how far a long run is: on a terminal, and not more often than anybody reads."""

    def __init__(self) -> None:
        self._told = time.monotonic()

    def __call__(self, moment: int, record: Record) -> None:
        """Called at every sample."""
        if sys.stderr.isatty() and time.monotonic() - self._told >= _EVERY:
            self._told = time.monotonic()
            part = moment / record.scenario.pace.length
            sys.stderr.write(
                f"muster: {part:.0%} (day {moment / DAY:.2f}), {record.running:,} run, {record.waiting:,} wait\n"
            )


def _show(told: dict[str, Any], out: Path | None, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(told) + "\n")
        return
    # What is not a terminal has no width of its own: a table that is cut to 80 columns would lose its numbers.
    known = shutil.get_terminal_size((0, 0)).columns
    said = headline(told).splitlines()
    sys.stdout.write("\n".join(fill(line, known) for line in said) if known else "\n".join(said))
    sys.stdout.write("\n\n")
    width = known or _WIDE
    Console(file=sys.stdout, highlight=False, width=width).print(table(told, width=width))
    if out is not None:
        sys.stdout.write(f"\n{out / 'report.html'} shows it with pictures.\n")


def _refuse(error: Unusable, *, as_json: bool) -> int:
    count = len(error.problems)
    said = f"{count} error{'' if count == 1 else 's'}, nothing was simulated"
    if as_json:
        told = [
            {"path": each.path, "message": each.text, "file": each.file, "line": each.line} for each in error.problems
        ]
        found = {"code": "INVALID_ARGUMENT", "message": said, "violations": told}
        sys.stderr.write(json.dumps({"error": found, "exit": _INVALID}) + "\n")
    else:
        sys.stderr.write(f"{error}\n{said}\n")
    return _INVALID

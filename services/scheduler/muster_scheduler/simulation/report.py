"""The figures of a run in the words of people who plan: numbers for a program, and tables for a terminal.

Called by the command and by page.py. Pure: nothing here measures, everything follows from the record.
"""

from __future__ import annotations

from typing import Any, Final

from rich.table import Table

from muster_scheduler.domain.asked.workloads import SECOND
from muster_scheduler.simulation.record import Figures, Sample, Standing, capacity_units
from muster_scheduler.simulation.scenario import DAY, whole_gpus

_HOUR: Final = 3600 * SECOND
PERCENTILES: Final = (50, 90, 99)
MOST_SERIES: Final = 6


def percentile(ordered: tuple[int, ...], percent: int) -> int:
    """The smallest value that `percent` per cent of the values do not exceed (nearest rank); 0 of none."""
    if not ordered:
        return 0
    return ordered[max(0, -(-percent * len(ordered) // 100) - 1)]


def utilisation(sample: Sample, capacity: int) -> float:
    """What is held, as a part of the whole fleet."""
    return sample.held / capacity if capacity else 0.0


def fairness(sample: Sample) -> float:
    """What projects hold of that which they deserve and want: 1.0, nobody who is in his right goes short."""
    return sample.served / sample.entitled if sample.entitled else 1.0


def fragmentation(sample: Sample) -> float:
    """The part of the free GPUs that is not on wholly free nodes: 0.0, every free GPU can go to a whole-node job."""
    return 1 - sample.whole / sample.free if sample.free else 0.0


def summary(figures: Figures) -> dict[str, Any]:
    """Everything as JSON; times in seconds, amounts in GPUs."""
    scenario, samples = figures.scenario, figures.samples
    capacity = capacity_units(scenario)
    used = [utilisation(sample, capacity) for sample in samples]
    return {
        "scenario": scenario.name,
        "days": round(scenario.pace.length / DAY, 4),
        "gpus": scenario.gpus,
        "nodes": sum(group.nodes for group in scenario.fleet),
        "workloads": _counts(figures),
        "utilisation": {"mean": _part(_mean(used)), "peak": _part(max(used, default=0.0))},
        "waits": _waits(tuple(sorted(wait for project in figures.projects for wait in project.waits))),
        "fairness": _part(_mean([fairness(sample) for sample in samples])),
        "fragmentation": _part(_mean([fragmentation(sample) for sample in samples])),
        "preemptions": sum(project.preempted for project in figures.projects),
        "projects": [_project(project) for project in figures.projects],
        "held": {project.project: [whole_gpus(units) for units in project.series] for project in _largest(figures)},
        "series": {
            "hours": [round(sample.at / _HOUR, 3) for sample in samples],
            "utilisation": [_part(each) for each in used],
            "wanted": [whole_gpus(sample.wanted) for sample in samples],
            "fairness": [_part(fairness(sample)) for sample in samples],
            "fragmentation": [_part(fragmentation(sample)) for sample in samples],
            "running": [sample.running for sample in samples],
            "waiting": [sample.waiting for sample in samples],
        },
    }


def _counts(figures: Figures) -> dict[str, int]:
    last = figures.samples[-1] if figures.samples else None
    return {
        "arrived": sum(project.arrived for project in figures.projects),
        "placed": sum(len(project.waits) for project in figures.projects),
        "completed": sum(project.completed for project in figures.projects),
        "failed": sum(project.failed for project in figures.projects),
        "running": last.running if last else 0,
        "waiting": last.waiting if last else 0,
    }


def _largest(figures: Figures) -> list[Standing]:
    """The projects that hold most, by name: what they held is told moment by moment."""
    by_size = sorted(figures.projects, key=lambda project: (-project.held, project.project))
    return sorted(by_size[:MOST_SERIES], key=lambda project: project.project)


def _waits(ordered: tuple[int, ...]) -> dict[str, float]:
    told = {f"p{percent}": percentile(ordered, percent) / SECOND for percent in PERCENTILES}
    return told | {"max": (ordered[-1] if ordered else 0) / SECOND}


def _project(project: Standing) -> dict[str, Any]:
    return {
        "project": project.project,
        "department": project.department,
        "deserved": whole_gpus(project.deserved),
        "wanted": whole_gpus(project.wanted),
        "held": whole_gpus(project.held),
        "arrived": project.arrived,
        "completed": project.completed,
        "failed": project.failed,
        "preempted": project.preempted,
        "unplaced": project.unplaced,
        "waits": _waits(project.waits),
    }


def _part(number: float) -> float:
    return round(number, 4)


def _mean(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0


def headline(told: dict[str, Any]) -> str:
    """The run in a few sentences."""
    counts, used, waits = told["workloads"], told["utilisation"], told["waits"]
    return (
        f"{told['scenario']}: {counted(told['days'], 'day')} on {counted(told['gpus'], 'GPU')} "
        f"({counted(told['nodes'], 'node')}).\n"
        f"{counted(counts['arrived'], 'workload')} came: {counts['completed']:,} completed, "
        f"{counts['failed']:,} failed, {counts['running']:,} run and {counts['waiting']:,} wait at the end.\n"
        f"GPUs held: {used['mean']:.1%} in the mean, {used['peak']:.1%} at most. "
        f"Waits: {_waits_told(counts['placed'], waits)}.\n"
        f"Fairness {told['fairness']:.1%} (of what projects deserve and want, they hold this). "
        f"Fragmentation {told['fragmentation']:.1%} (of the free GPUs, this is on nodes that are used in part). "
        f"Preemptions {told['preemptions']:,}."
    )


def _waits_told(placed: int, waits: dict[str, float]) -> str:
    if not placed:
        return "-, since nothing was placed"
    half, most, nearly_all = (words(waits[f"p{percent}"]) for percent in PERCENTILES)
    return f"half under {half}, 9 of 10 under {most}, 99 of 100 under {nearly_all}"


def counted(number: float, what: str) -> str:
    """`1 day`, `2.5 days`, `12,500 GPUs`."""
    shown = f"{number:,}".removesuffix(".0")
    return f"{shown} {what}" if number == 1 else f"{shown} {what}s"


def words(seconds: float) -> str:
    """A time as people say it: `8 s`, `4 min`, `2.5 h`."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.0f} s"


_HEADS: Final = ("project", "deserved", "wanted", "held", "came", "done", "failed", "preempted", "p50", "p90", "p99")
_FEWEST: Final = ("project", "wanted", "held", "came", "p50", "p90")
_ALL_NUMBERS: Final = 96  # columns of a terminal


def table(told: dict[str, Any], most: int = 40, width: int = _ALL_NUMBERS) -> Table:
    """The projects, one a line; those that hold most where there are more than `most`.

    width: columns of the terminal; where they are few, only the numbers that say most are shown, and those whole.
    """
    columns = [at for at, head in enumerate(_HEADS) if width >= _ALL_NUMBERS or head in _FEWEST]
    made = Table(box=None, pad_edge=False)
    for at in columns:
        made.add_column(_HEADS[at], justify="right" if at else "left", no_wrap=at > 0, overflow="fold")
    for row in rows(told, most):
        made.add_row(*(row[at] for at in columns))
    return made


def rows(told: dict[str, Any], most: int) -> list[tuple[str, ...]]:
    """The lines of the table of projects."""
    projects = sorted(told["projects"], key=lambda each: (-each["held"], each["project"]))
    return [
        (
            each["project"],
            *(f"{each[name]:,.1f}" for name in ("deserved", "wanted", "held")),
            *(f"{each[name]:,}" for name in ("arrived", "completed", "failed", "preempted")),
            *(_wait(each, percent) for percent in PERCENTILES),
        )
        for each in projects[:most]
    ]


def _wait(project: dict[str, Any], percent: int) -> str:
    placed = project["arrived"] - project["unplaced"]
    return words(project["waits"][f"p{percent}"]) if placed else "-"


def heads() -> tuple[str, ...]:
    """The heads of the table of projects."""
    return _HEADS

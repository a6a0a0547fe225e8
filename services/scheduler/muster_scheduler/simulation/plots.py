"""Pictures of a run as SVG, written by hand: lines over time, and bars of what projects deserve, want and hold.

Called by page.py. Pure, and the same bytes for the same figures, so that pictures in the documentation can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from xml.sax.saxutils import escape

WIDTH: Final = 720
HEIGHT: Final = 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 34, 34
COLOURS: Final = ("#2563a8", "#c2571a", "#2e8b57", "#8b5fa8", "#a8862b", "#4f5b66")
_TICKS: Final = 5
_MOST_BARS: Final = 24
_LEGEND: Final = 80


class Line(NamedTuple):
    """One line of a plot."""

    name: str
    values: Sequence[float]


def nice(most: float) -> float:
    """The smallest of 1, 2, 2.5, 5 times a power of ten that is not below `most`; 1 for nothing."""
    if most <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(most))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if most <= step * power * (1 + 1e-9))


def over_time(title: str, unit: str, hours: Sequence[float], lines: Sequence[Line]) -> str:
    """Lines over hours. An SVG document."""
    top = nice(max((value for line in lines for value in line.values), default=0.0))
    last = max(hours, default=0.0) or 1.0
    parts = [*_frame(title, unit, top), *_hours(last)]
    for number, line in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join(
            f"{_x(hour / last):.1f},{_y(value / top):.1f}" for hour, value in zip(hours, line.values, strict=True)
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts += _legend(len(lines) - number, line.name, colour)
    return _document(title, parts)


def bars(title: str, unit: str, names: Sequence[str], groups: Sequence[Line]) -> str:
    """Bars side by side, a group a name. An SVG document."""
    shown = len(names)
    top = nice(max((value for group in groups for value in group.values[:shown]), default=0.0))
    parts = _frame(title, unit, top)
    slot = 1 / max(1, shown)
    wide = (WIDTH - _LEFT - _RIGHT) * slot * 0.8 / max(1, len(groups))
    for number, group in enumerate(groups):
        colour = COLOURS[number % len(COLOURS)]
        for place, value in enumerate(group.values[:shown]):
            left, height = _x((place + 0.1) * slot) + number * wide, _y(0) - _y(value / top)
            parts.append(
                f'<rect x="{left:.1f}" y="{_y(value / top):.1f}" width="{wide:.1f}" height="{height:.1f}" '
                f'fill="{colour}"/>'
            )
        parts += _legend(len(groups) - number, group.name, colour)
    for place, name in enumerate(names):
        parts.append(_text(_x((place + 0.5) * slot), HEIGHT - _BOTTOM + 15, _short(name, shown), "middle"))
    return _document(title, parts)


def pictures(told: dict[str, Any]) -> dict[str, str]:
    """All pictures of a run, by the name of their file."""
    series = told["series"]
    hours = series["hours"]
    held = [part * told["gpus"] for part in series["utilisation"]]
    projects = sorted(told["projects"], key=lambda each: (-each["held"], each["project"]))[:_MOST_BARS]
    names = [each["project"] for each in projects]
    groups = [Line(key, [each[key] for each in projects]) for key in ("deserved", "wanted", "held")]
    waits = [Line(key, [each["waits"][key] / 60 for each in projects]) for key in ("p50", "p90", "p99")]
    percent = {name: [100 * part for part in series[name]] for name in ("fairness", "fragmentation")}
    return {
        "utilisation.svg": over_time(
            "GPUs held and wanted", "GPUs", hours, [Line("held", held), Line("wanted", series["wanted"])]
        ),
        "held.svg": over_time(
            "GPUs held by project", "GPUs", hours, [Line(name, values) for name, values in told["held"].items()]
        ),
        "queue.svg": over_time(
            "Workloads", "", hours, [Line("running", series["running"]), Line("waiting", series["waiting"])]
        ),
        "fairness.svg": over_time(
            "Fairness and fragmentation", "%", hours, [Line(name, values) for name, values in percent.items()]
        ),
        "projects.svg": bars("What projects deserve, want and hold (mean)", "GPUs", names, groups),
        "waits.svg": bars("Waits until the first placement", "minutes", names, waits),
    }


def _x(part: float) -> float:
    return _LEFT + part * (WIDTH - _LEFT - _RIGHT)


def _y(part: float) -> float:
    return HEIGHT - _BOTTOM - part * (HEIGHT - _TOP - _BOTTOM)


def _frame(title: str, unit: str, top: float) -> list[str]:
    parts = [f'<text x="{_LEFT}" y="18" font-size="13" font-weight="bold" fill="#222">{escape(title)}</text>']
    for tick in range(_TICKS + 1):
        height = _y(tick / _TICKS)
        parts.append(f'<path d="M{_LEFT} {height:.1f}H{WIDTH - _RIGHT}" stroke="#ddd"/>')
        parts.append(_text(_LEFT - 6, height + 4, f"{top * tick / _TICKS:,.4g}", "end"))
    parts.append(_text(_LEFT - 6, _TOP - 8, unit, "end"))
    return parts


def _hours(last: float) -> list[str]:
    step = nice(last / 8)
    if 1 < step < 24:  # noqa: PLR2004 - a day has 24 hours, and people count it in these
        step = next(hours for hours in (2, 3, 4, 6, 12, 24) if step <= hours)
    ticks = [number * step for number in range(int(last / step + 1e-9) + 1)]
    return [_text(_x(tick / last), HEIGHT - _BOTTOM + 15, f"{tick:g} h", "middle") for tick in ticks]


def _legend(place: int, name: str, colour: str) -> list[str]:
    """An entry of the legend; `place`: counted from the right."""
    left = WIDTH - _RIGHT - _LEGEND * place
    return [
        f'<rect x="{left}" y="9" width="10" height="10" fill="{colour}"/>',
        _text(left + 14, 18, _short(name, 8), "start"),
    ]


def _short(name: str, shown: int) -> str:
    most = max(3, 100 // max(1, shown))
    return name if len(name) <= most else f"{name[: most - 1]}\u2026"


def _text(left: float, top: float, text: str, anchor: str) -> str:
    return f'<text x="{left:.1f}" y="{top:.1f}" font-size="11" text-anchor="{anchor}" fill="#444">{escape(text)}</text>'


def _document(title: str, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'font-family="sans-serif" role="img" aria-label="{escape(title)}">'
    )
    return "\n".join([head, f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>', *parts, "</svg>"]) + "\n"

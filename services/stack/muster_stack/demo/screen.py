"""What a person sees: first the stack coming up, then a table that lives, at the end the checks.

Called by the command. Where stdout is no terminal, every change is a line instead. Holds: 80 columns are enough.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from muster_client.cli.render.tables import coloured
from muster_stack.demo.acts import Act
from muster_stack.demo.diary import Diary, Entry

_SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_TEXT_WIDTH: Final = 34


@dataclass(slots=True)
class Outcome:
    """How an act ended: its proof, or what went wrong; explained: why there is nothing to show."""

    title: str
    told: str
    seconds: float
    happened: bool
    explained: bool = False


class Screen:
    """The screen of one run."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._live = Live(console=console, refresh_per_second=8, transient=True, auto_refresh=False)
        self._shown = 0
        self._begun = time.monotonic()
        self._said: dict[str, str] = {}

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.console.is_terminal:
            self._live.stop()

    def say(self, text: str) -> None:
        """A line that stays."""
        self.console.print(text, markup=False, highlight=False)

    def starting(self, services: Mapping[str, Any]) -> None:
        """The stack as it comes up."""
        states = {name: str(row["state"]) for name, row in services.items()}
        if self.console.is_terminal:
            self._draw(Group(Text(f"{self._turn()} starting the stack"), self._services(states)))
            return
        for name, state in states.items():
            if self._said.get(name) != state and state == "ready":
                self.say(f"  {self._clock()}  {name} is ready")
            self._said[name] = state

    def playing(self, acts: Sequence[Act], diary: Diary, outcomes: Mapping[str, Outcome]) -> None:
        """The acts as they go on."""
        if self.console.is_terminal:
            self._draw(self._acts(acts, diary, outcomes))
            return
        for line in diary.lines[self._shown :]:
            self.say(f"  {self._clock()}  {line}")
        self._shown = len(diary.lines)

    def _draw(self, what: RenderableType) -> None:
        self._live.update(what, refresh=True)

    def _clock(self) -> str:
        return f"{time.monotonic() - self._begun:5.1f} s"

    def _turn(self) -> str:
        return _SPINNER[int(time.monotonic() * 8) % len(_SPINNER)]

    def _services(self, states: Mapping[str, str]) -> Table:
        table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 2))
        for name, state in states.items():
            table.add_row(name, Text(state, style="green" if state == "ready" else "yellow"))
        return table

    def _acts(self, acts: Sequence[Act], diary: Diary, outcomes: Mapping[str, Outcome]) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        for heading in ("", "WORKLOAD", "PHASE", "PLACE", "WHAT HAPPENS"):
            table.add_column(heading, no_wrap=True, overflow="ellipsis")
        for act in acts:
            mark = _mark(outcomes.get(act.title)) or Text(self._turn(), style="yellow")
            entries = [each for each in diary.entries.values() if _belongs(each, act)]
            table.add_row(mark, Text(act.title, style="bold"), "", "", "")
            for entry in entries:
                place = entry.workload.cluster or "-"
                told = (entry.workload.reason.message or entry.text)[:_TEXT_WIDTH]
                table.add_row("", f"  {entry.workload.name}", coloured(entry.phase), place, Text(told, style="dim"))
        return table

    def checks(self, outcomes: Sequence[Outcome], seconds: float) -> None:
        """The table at the end."""
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        table.add_column("")
        table.add_column("WHAT", no_wrap=True)
        table.add_column("TOOK", justify="right", no_wrap=True)
        table.add_column("PROOF", overflow="fold")
        for outcome in outcomes:
            table.add_row(
                _mark(outcome) or "", outcome.title, f"{outcome.seconds:.0f} s", Text(outcome.told, style="default")
            )
        self.console.print()
        self.console.print(table)
        good = sum(outcome.happened for outcome in outcomes)
        explained = sum(outcome.explained for outcome in outcomes)
        rest = f", {explained} are explained" if explained else ""
        self.say(f"\n{good} of {len(outcomes)} happened{rest}, in {seconds:.0f} s")


def _belongs(entry: Entry, act: Act) -> bool:
    return any(entry.workload.name == name or entry.workload.name.startswith(f"{name}-") for name in act.workloads)


def _mark(outcome: Outcome | None) -> Text | None:
    if outcome is None:
        return None
    if outcome.explained:
        return Text("–", style="yellow")  # noqa: RUF001 - a mark, not a minus
    return Text("✔", style="green") if outcome.happened else Text("✘", style="red")

"""What goes to the terminal: tables and text on stdout, notes on stderr, JSON for programs.

Called by the verbs. Holds: with --json, stdout carries JSON and nothing else; notes never go to stdout; what is not a
terminal gets no colours, and lines of 80 columns.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

from google.protobuf.message import Message
from rich.console import Console, RenderableType

from muster_client.cli.render.plain import plain


def console() -> Console:
    """Stdout. Made anew each time, because tests and pipes replace sys.stdout."""
    return Console(file=sys.stdout, highlight=False, soft_wrap=False)


def notes() -> Console:
    """Stderr."""
    return Console(file=sys.stderr, highlight=False)


def say(text: RenderableType) -> None:
    """One thing for a person, on stdout."""
    if isinstance(text, str):
        # Written as it is: a name in square brackets is a name and no markup, and a line is not broken to the width.
        console().print(text, markup=False, soft_wrap=True)
        return
    shown = console()
    if shown.is_terminal:
        shown.print(text)
        return
    with shown.capture() as captured:
        shown.print(text)
    # A table fills its lines with spaces up to the width: of no use to whoever pastes or compares it.
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def note(text: str) -> None:
    """A remark beside the result, on stderr."""
    notes().print(f"muster: {text}", markup=False, soft_wrap=True, style="dim")


def emit(value: Message | Iterable[Message] | dict[str, Any] | list[Any]) -> None:
    """JSON on stdout, indented."""
    print(json.dumps(_jsonable(value), indent=2, ensure_ascii=False))  # noqa: T201  this is what the verb was asked for


def emit_line(value: Message | dict[str, Any]) -> None:
    """JSON on stdout, one object a line: for streams."""
    print(json.dumps(_jsonable(value), ensure_ascii=False), flush=True)  # noqa: T201  as above


def _jsonable(value: Message | Iterable[Message] | dict[str, Any] | list[Any]) -> Any:
    if isinstance(value, Message):
        return plain(value)
    if isinstance(value, dict):
        return value
    return [plain(each) if isinstance(each, Message) else each for each in value]

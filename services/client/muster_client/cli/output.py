"""What goes to the terminal: tables and text on stdout, notes on stderr, JSON for programs.

Called by the verbs; the only module of the client that prints. Holds: with --json, stdout carries JSON and nothing
else; notes never go to stdout; what is not a terminal gets no colours, and lines of 80 columns; control characters of
names, messages and files from outside never reach a terminal, since each piece of text passes `printable` here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final

from google.protobuf.message import Message
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from muster_client.cli.printable import json_safe, printable
from muster_client.cli.render.plain import plain

_WIDEST: Final = 2000


class Terminal(Console):
    """A console whose text is printable: rich itself passes ESC and the bidirectional controls on.

    Text is taken as it is: a name in square brackets is no markup, and `:warning:` is no emoji.
    """

    def __init__(self, *, stderr: bool = False, width: int | None = None) -> None:
        super().__init__(
            file=sys.stderr if stderr else sys.stdout,
            width=width,
            highlight=False,
            markup=False,
            emoji=False,
            soft_wrap=False,
        )

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """The segments of `renderable`, their text cleaned; rich's own controls have no text of others."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


def console() -> Terminal:
    """Stdout. Made for each use, because tests and pipes replace sys.stdout."""
    return Terminal()


def notes() -> Terminal:
    """Stderr."""
    return Terminal(stderr=True)


def say(text: RenderableType, *, wide: bool = False) -> None:
    """One thing for a person, on stdout. `wide`: as wide as it is, whatever the terminal's width."""
    if isinstance(text, str):
        console().print(text, soft_wrap=True)  # a line is not broken to the width
        return
    shown = Terminal(width=_WIDEST) if wide else console()
    if shown.is_terminal and not wide:
        shown.print(text)
        return
    with shown.capture() as captured:
        shown.print(text)
    # A table fills its lines with spaces up to the width, which only disturb a comparison or a paste.
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().split("\n")[:-1]))


def note(text: str) -> None:
    """A remark on stderr, in addition to the result."""
    remark(f"muster: {text}")


def remark(text: str) -> None:
    """A dim line on stderr."""
    notes().print(text, soft_wrap=True, style="dim")


def complain(text: str) -> None:
    """An error on stderr."""
    notes().print(text, soft_wrap=True)


def write(data: bytes) -> None:
    """Bytes on stdout as they are: logs, which their caller has made printable, or which a person wants raw."""
    if data:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def emit(value: Message | Iterable[Message] | dict[str, Any] | list[Any]) -> None:
    """JSON on stdout, indented."""
    print(json_text(_jsonable(value), indent=2))  # noqa: T201  this is what the verb was asked for


def emit_line(value: Message | dict[str, Any]) -> None:
    """JSON on stdout, one object a line: for streams."""
    print(json_text(_jsonable(value)), flush=True)  # noqa: T201  as above


def json_text(value: Any, *, indent: int | None = None) -> str:
    """JSON that a terminal can show: letters as they are, control characters escaped."""
    return json_safe(json.dumps(value, indent=indent, ensure_ascii=False))


def _jsonable(value: Message | Iterable[Message] | dict[str, Any] | list[Any]) -> Any:
    if isinstance(value, Message):
        return plain(value)
    if isinstance(value, dict):
        return value
    return [plain(each) if isinstance(each, Message) else each for each in value]

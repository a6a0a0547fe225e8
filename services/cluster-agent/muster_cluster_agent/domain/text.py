"""Text that a replica wrote, made fit for a reason: one line, no control characters, of a bounded length.

Used for what the agent reads in a replica's files, before it becomes part of a report. Pure.
"""

from __future__ import annotations

from typing import Final

LONGEST: Final = 500  # characters of one text in a reason


def plain_line(text: str, limit: int = LONGEST) -> str:
    """`text` as one line of at most `limit` characters; what is not printable becomes a space, a cut is marked '...'.

    Ends of lines, controls, marks of direction and lone surrogates are not printable.
    """
    printable = "".join(char if char.isprintable() else " " for char in text[: 4 * limit])
    line = " ".join(printable.split())
    return line if len(line) <= limit else f"{line[: limit - 3]}..."

"""Several logs as one text: whole lines, each with the replica that wrote it. Pure.

Called by `muster logs` with pieces as they come. Holds: a line is never mixed with another replica's; a last line
without an end is ended. Unless `raw`, a carriage return ends a line too (a progress bar shows each of its states, and
can overwrite nothing), colours stay, and other control sequences do not reach the terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from muster_client.cli.printable import coloured_line, one_line

_LONGEST: Final = 1 << 20
"""Bytes of a line without an end that are kept; a longer line is shown in parts."""
_ENDS: Final = re.compile(rb"\r*\n\r*|\r+")


class Lines:
    """What has not been shown yet, by replica. `alone`: there is one replica only, so that no prefix is needed."""

    def __init__(self, *, alone: bool, raw: bool = False) -> None:
        self._alone = alone
        self._raw = raw
        self._open: dict[str, bytes] = {}

    def take(self, replica: str, data: bytes) -> bytes:
        """The lines that `data` completes, with their prefix."""
        whole, newline, rest = (self._open.pop(replica, b"") + data).rpartition(b"\n")
        if len(rest) > _LONGEST:
            whole, newline, rest = whole + newline + rest, b"\n", b""
        if rest:
            self._open[replica] = rest
        return b"".join(self._lines(replica, whole)) if newline else b""

    def rest(self) -> bytes:
        """What never got an end of line."""
        found = b"".join(line for replica, text in self._open.items() for line in self._lines(replica, text))
        self._open.clear()
        return found

    def _lines(self, replica: str, text: bytes) -> Iterator[bytes]:
        prefix = b"" if self._alone else f"{replica if self._raw else one_line(replica)}  ".encode()
        for line in text.split(b"\n") if self._raw else _ENDS.split(text.strip(b"\r")):
            yield prefix + (line if self._raw else _shown(line)) + b"\n"


def _shown(line: bytes) -> bytes:
    return coloured_line(line.decode(errors="replace")).encode()

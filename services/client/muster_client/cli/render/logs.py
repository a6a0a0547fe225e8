"""Several logs as one text: whole lines, each with the replica that wrote it. Pure.

Called by `muster logs` with pieces as they come. Holds: a line is never mixed with another replica's; nothing is lost
or added but the prefix, and a last line without an end is ended.
"""

from __future__ import annotations


class Lines:
    """What has not been shown yet, by replica. `alone`: there is one replica only, so that no prefix is needed."""

    def __init__(self, *, alone: bool) -> None:
        self._alone = alone
        self._open: dict[str, bytes] = {}

    def take(self, replica: str, data: bytes) -> bytes:
        """The lines that `data` completes, with their prefix."""
        whole, newline, rest = (self._open.pop(replica, b"") + data).rpartition(b"\n")
        if rest:
            self._open[replica] = rest
        return b"".join(self._line(replica, line) for line in whole.split(b"\n")) if newline else b""

    def rest(self) -> bytes:
        """What never got an end of line."""
        found = b"".join(self._line(replica, line) for replica, line in self._open.items())
        self._open.clear()
        return found

    def _line(self, replica: str, line: bytes) -> bytes:
        return line + b"\n" if self._alone else f"{replica}  ".encode() + line + b"\n"

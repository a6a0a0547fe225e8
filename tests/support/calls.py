"""The context of a gRPC call, for servicers that are called without a server."""

from __future__ import annotations


class Call:
    """A call with ten seconds left and no metadata."""

    def time_remaining(self) -> float | None:
        """Seconds until the caller's deadline."""
        return 10.0

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        """What the caller sent beside the request."""
        return ()

"""The moments that people give to options such as `--since`: a time, or how long ago.

Called by the verbs that take one.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, tzinfo
from typing import Final

from muster_client.errors import InvalidInput

_AGO: Final = re.compile(r"(\d{1,6})([smhd])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def moment(text: str, now: datetime, option: str = "--since", *, zone: tzinfo | None = None) -> datetime:
    """Return a time, or how long ago it was. zone: that of a time without one; None: this machine's.

    Raises InvalidInput, which names the option.
    """
    ago = _AGO.fullmatch(text)
    try:
        if ago:
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        read = datetime.fromisoformat(text)
        if read.tzinfo:
            return read
        return read.replace(tzinfo=zone) if zone else read.astimezone()
    except (ValueError, OverflowError):
        raise InvalidInput(
            f"{option} {text}: 30s, 5m, 12h, 7d or a time such as 2026-01-31T12:00 is expected"
        ) from None

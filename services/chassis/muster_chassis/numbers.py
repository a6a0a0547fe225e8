"""Numbers in the headers of records: one parser for versions, epochs, generations and attempts.

Used by `codec.py`, by the scheduler before a takeover and by agents for tombstones. A number from the bus is a claim:
what is no plain number within its bound raises ValueError, so that no reader takes it into its books or gives it to a
database whose column is smaller.
"""

from __future__ import annotations

from typing import Final

LARGEST_EPOCH: Final = 2**53
"""No epoch of ours comes near it: one a takeover."""
LEAP: Final = 1_000_000
"""How far beyond the last epoch of the database a takeover follows a record."""
LARGEST_LEAP: Final = LEAP + 1000
"""How far beyond the last epoch of an agent a record is obeyed: further than a takeover leaps, since an agent may have
missed a few, and not much further, so that what it obeys the next takeover exceeds."""
LARGEST_RUN: Final = 2**31 - 1
"""The largest generation or attempt."""
_SHOWN: Final = 40


def number(raw: str | bytes | None, largest: int, name: str) -> int:
    """The number from 0 to `largest` that `raw` writes in ASCII digits. Raises ValueError, which calls it `name`."""
    text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
    if text is None:
        raise ValueError(f"{name} is missing: expected a number from 0 to {largest}")
    # isdecimal() lets other scripts' digits pass, and int() reads them; only ASCII digits are ours. The length comes
    # first: int() of a megabyte of digits takes minutes.
    if len(text) > len(str(largest)) or not (text.isascii() and text.isdecimal()) or int(text) > largest:
        raise ValueError(f"{name} is {text[:_SHOWN]!r}: expected a number from 0 to {largest}")
    return int(text)


def epoch_after(epoch: int, last: int, leap: int) -> int:
    """`epoch` where it may follow `last`. Raises ValueError for one that no takeover can have led to."""
    if not 0 <= epoch <= min(LARGEST_EPOCH, last + leap):
        raise ValueError(
            f"epoch {epoch} is none of ours: the last known one is {last}, and no takeover leads beyond "
            f"{min(LARGEST_EPOCH, last + leap)}"
        )
    return epoch

"""Parts of a request that several routes read the same way: keys, ids, and what stands in a query.

Called by the routes. Holds: whatever of a query cannot be read is refused by its name, with what is allowed there. The
vendor's client sends words of its own enums as `Class.MEMBER` and a plus sign as a space: both are read.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from starlette.requests import Request

from muster_chassis.errors import Violation
from muster_chassis.rpc import LONGEST_KEY
from muster_submission.rest.errors import BadBody

_LARGEST: Final = (1 << 63) - 1
_SHOWN: Final = 40  # characters of a refused value that an error repeats
_TRUTHS: Final[Mapping[str, bool]] = {"true": True, "false": False, "": False}


def own_key(request: Request) -> str | None:
    """The caller's Idempotency-Key; None without one."""
    given = request.headers.get("idempotency-key", "")
    if len(given) > LONGEST_KEY:
        raise bad("Idempotency-Key", f"Idempotency-Key has {len(given)} characters; it has 1 to {LONGEST_KEY}")
    return given or None


def idempotency_key(request: Request) -> str:
    """The key that makes a repeated request harmless: the caller's, else one of its own."""
    return own_key(request) or str(uuid.uuid4())


def number_of(text: str) -> int | None:
    """The number that an id is; None where it is none, and so names nothing."""
    plain = text.isascii() and text.isdigit() and len(text) <= len(str(_LARGEST))
    return int(text) if plain and int(text) <= _LARGEST else None


def bad(name: str, said: str) -> BadBody:
    """One member of a query or a body that cannot be read."""
    return BadBody(said, violations=[Violation(name, said)])


def whole(request: Request, name: str, low: int, high: int, otherwise: int) -> int:
    """A whole number of the query."""
    given = request.query_params.get(name)
    if given is None:
        return otherwise
    if given.isascii() and given.isdigit() and len(given) <= len(str(high)) and low <= int(given) <= high:
        return int(given)
    raise bad(name, f"{name} is {given[:_SHOWN]!r}; it is a whole number from {low} to {high}")


def whole_schema(low: int, high: int, otherwise: int) -> dict[str, Any]:
    """The schema of what `whole` reads."""
    return {"type": "integer", "minimum": low, "maximum": high, "default": otherwise}


def flag(request: Request, name: str) -> bool:
    """Whether something is wanted; in any case of the letters, false where nothing is said."""
    given = request.query_params.get(name, "")
    known = _TRUTHS.get(given.lower())
    if known is None:
        raise bad(name, f"{name} is {given[:_SHOWN]!r}; it is true or false")
    return known


def one_of(request: Request, name: str, known: Sequence[str], otherwise: str = "") -> str:
    """A word of the query, in any case of the letters."""
    given = request.query_params.get(name, otherwise)
    plain = given.rpartition(".")[2]
    found = next((word for word in known if word.lower() in {given.lower(), plain.lower()}), None)
    if found is None:
        raise bad(name, f"{name} is {given[:_SHOWN]!r}; it is one of {', '.join(word for word in known if word)}")
    return found


def words(request: Request, name: str, known: Sequence[str], *, least: int, most: int) -> list[str]:
    """Words of the query, repeated or with commas between, in any case of the letters; each of them once."""
    given = [part.strip() for text in request.query_params.getlist(name) for part in text.split(",") if part.strip()]
    by_word = {word.lower(): word for word in known}
    found = [by_word.get(one.rpartition(".")[2].lower()) for one in given]
    strange = next((one for one, word in zip(given, found, strict=True) if word is None), None)
    if strange is not None or not least <= len(given) <= most:
        what = f"{len(given)} are given" if strange is None else f"{strange[:_SHOWN]!r} is not known"
        raise bad(name, f"{name}: {what}; expected {least} to {most} of {', '.join(known)}")
    return list(dict.fromkeys(word for word in found if word is not None))


def moment(request: Request, name: str) -> datetime | None:
    """A time of the query, in UTC, which one without a zone is taken to be in; None where there is none."""
    given = request.query_params.get(name, "").strip()
    if not given:
        return None
    try:
        read = datetime.fromisoformat(given.replace(" ", "+"))
        read = read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)
        if read < datetime.fromtimestamp(0, UTC):
            raise ValueError(given)
    except (ValueError, OverflowError):
        said = f"{name} is {given[:_SHOWN]!r}; a time after 1970 is expected, such as 2026-01-31T13:00:00Z"
        raise bad(name, said) from None
    return read


def stretch_of_time(request: Request) -> tuple[datetime, datetime]:
    """From `start` to `end`, which both have to be there."""
    start, end = moment(request, "start"), moment(request, "end")
    if start is None or end is None:
        name = "end" if start is not None else "start"
        raise bad(name, f"{name} is missing; a time such as 2026-01-31T13:00:00Z is expected")
    if end < start:
        raise bad("end", "end lies before start")
    return start, end

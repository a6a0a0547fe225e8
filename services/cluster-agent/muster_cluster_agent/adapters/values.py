"""Single values of a cluster file: each is read strictly, and what is wrong says what is allowed.

Called by cluster_file.py, which adds the place. Every reader raises ValueError or TypeError and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final, TypeVar

from muster_kernel.quantities import parse_bytes, parse_count, parse_milli_cpu

_MOST_OF_A_NODE: Final = 1_024  # devices; a count with some zeros too many would fill the agent's memory

_LARGEST_COUNT: Final = 2**31 - 1
_LONGEST_SECONDS: Final = 10 * 366 * 86_400  # ten years; infinity and NaN are not durations

E = TypeVar("E", bound=Enum)


def text(value: Any) -> str:
    """A word, also where YAML took it for a number."""
    if isinstance(value, (dict, list)):
        raise TypeError(f"expected a text, not {value!r}")
    return str(value)


def texts(value: Any) -> dict[str, str]:
    """Names with words, such as labels."""
    if not isinstance(value, dict):
        raise TypeError(f"expected names with values, not {value!r}")
    return {text(name): text(given) for name, given in value.items()}


def words(value: Any) -> tuple[str, ...]:
    """A list of words."""
    if not isinstance(value, list):
        raise TypeError(f"expected a list, not {value!r}")
    return tuple(text(one) for one in value)


def flag(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise TypeError(f"expected true or false, not {value!r}")
    return value


def count(value: Any) -> int:
    """A whole number."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LARGEST_COUNT:
        raise ValueError(f"expected a whole number from 0 to {_LARGEST_COUNT}, not {value!r}")
    return value


def seconds(value: Any) -> float:
    """A time in seconds."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LONGEST_SECONDS:
        raise ValueError(f"expected seconds from 0 to {_LONGEST_SECONDS}, not {value!r}")
    return float(value)


def slots(value: Any) -> int:
    """How many devices a node has."""
    given = count(value)
    if given > _MOST_OF_A_NODE:
        raise ValueError(f"{given} devices on one node; at most {_MOST_OF_A_NODE}")
    return given


def in_bytes(value: Any) -> int:
    """Bytes of a quantity such as 32Gi."""
    return parse_bytes(str(value))


def amount(value: Any) -> int:
    """A number, or a quantity such as 100Gi."""
    return parse_count(str(value))


def in_milli_cpu(value: Any) -> int:
    """Milli-CPU of `8` or `500m`."""
    return parse_milli_cpu(str(value))


def moment(value: Any) -> float:
    """Seconds since 1970 of a time as ISO 8601 writes it; one without a zone is UTC."""
    given = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return (given if given.tzinfo is not None else given.replace(tzinfo=UTC)).timestamp()


def member(among: type[E]) -> Callable[[Any], E]:
    """A word of an enumeration, in capitals or not."""
    choose = choice(*among.__members__)
    return lambda value: among[choose(text(value).upper())]


def choice(*allowed: str) -> Callable[[Any], str]:
    """One of these words."""

    def convert(value: Any) -> str:
        if value not in allowed:
            raise ValueError(f"{value!r} is not one of {', '.join(allowed)}")
        return str(value)

    return convert

"""How many processes of each service a stack has, and how they are called: `--instances submission=2,scheduler=2`.

Called by the verbs, the keeper and parts.py. Every instance of a service has the same identity on Kafka, in PostgreSQL
and towards other services; its name, its ports and its log are its own. A second scheduler follows the first one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from muster_stack.errors import StackError

SUBMISSION: Final = "submission"
POLICY: Final = "policy"
SCHEDULER: Final = "scheduler"
TELEMETRY: Final = "telemetry"
SERVICES: Final = (SUBMISSION, POLICY, SCHEDULER, TELEMETRY)
_MOST: Final = 9
_EXAMPLE: Final = "submission=2,scheduler=2"


@dataclass(frozen=True, slots=True)
class Instance:
    """One process of a service; the first has the number 1."""

    service: str
    number: int = 1

    @property
    def name(self) -> str:
        """The name of its part: `submission`, `submission-2`, .."""
        return self.service if self.number == 1 else f"{self.service}-{self.number}"


def all_instances(counts: Mapping[str, int]) -> list[Instance]:
    """The instances of a stack; one of each service that `counts` does not name."""
    return [Instance(service, number) for service in SERVICES for number in range(1, counts.get(service, 1) + 1)]


def read_counts(text: str) -> dict[str, int]:
    """The counts in an option such as `submission=2,policy=2`. Raises StackError."""
    counts: dict[str, int] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        service, _, number = part.partition("=")
        if service not in SERVICES or not (number.isascii() and number.isdecimal()) or not 1 <= int(number) <= _MOST:
            raise StackError(
                f"--instances: {part!r} is not SERVICE=COUNT; services are {', '.join(SERVICES)}, each with 1 to "
                f"{_MOST} instances: --instances {_EXAMPLE}"
            )
        if service in counts:
            raise StackError(f"--instances: {service} is given twice, {counts[service]} and {number}: give it once")
        counts[service] = int(number)
    return counts


def write_counts(counts: Mapping[str, int]) -> str:
    """The option that `read_counts` reads."""
    return ",".join(f"{service}={number}" for service, number in counts.items())

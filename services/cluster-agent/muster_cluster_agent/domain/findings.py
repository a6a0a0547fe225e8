"""What a check of a cluster finds, one line each, for the people who run the cluster."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """How much a finding matters."""

    OK = "ok"
    WARNING = "warning"
    """Workloads run, but perhaps not as intended."""
    ERROR = "error"
    """Something that Muster needs is missing."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line. subject: what was looked at. text: what was found and, where it is not in order, what to do."""

    severity: Severity
    subject: str
    text: str


def ok(subject: str, text: str) -> Finding:
    """A finding that is in order."""
    return Finding(Severity.OK, subject, text)


def warning(subject: str, text: str) -> Finding:
    """A finding that may not be intended."""
    return Finding(Severity.WARNING, subject, text)


def error(subject: str, text: str) -> Finding:
    """A finding that keeps work from running."""
    return Finding(Severity.ERROR, subject, text)

"""Whose bindings hold for whom: access rules, and the applications that were revoked since.

Called by handlers/access.py. Holds: a rule speaks of a subject or a group of one issuer (or of every one, where it
names none) or of one application; an application never has the rules of a person of its name, nor the other way round.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from muster_submission.domain.access import Binding, Grants


class HolderKind(StrEnum):
    """Of whom a rule speaks."""

    SUBJECT = "subject"
    GROUP = "group"
    APPLICATION = "application"


@dataclass(frozen=True, slots=True)
class Holder:
    """A subject, a group or an application; `issuer` empty: whoever vouches for it."""

    kind: HolderKind
    name: str
    issuer: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """A binding and who holds it."""

    holder: Holder
    binding: Binding


@dataclass(frozen=True, slots=True)
class State:
    """Everything that decides about calls, as it was at `version` of the books.

    departments: project -> its department. credentials: application -> the version of its secret that is in force.
    """

    version: int
    rules: Mapping[Holder, tuple[Binding, ...]] = field(default_factory=dict)
    departments: Mapping[str, str] = field(default_factory=dict)
    credentials: Mapping[str, int] = field(default_factory=dict)

    def of_person(self, subject: str, groups: Iterable[str], issuer: str) -> Grants:
        """What a person may do, by their own rules and those of their groups."""
        named = [(HolderKind.SUBJECT, subject), *((HolderKind.GROUP, group) for group in groups)]
        holders = [Holder(kind, name, by) for kind, name in named for by in (issuer, "")]
        return self._of(holders)

    def of_application(self, application: str, credential: int) -> Grants | None:
        """What an application may do; None where that version of its secret is no longer in force."""
        if self.credentials.get(application) != credential:
            return None
        return self._of([Holder(HolderKind.APPLICATION, application)])

    def _of(self, holders: Iterable[Holder]) -> Grants:
        # dict.fromkeys: an empty issuer would give a rule twice
        return Grants([one for who in dict.fromkeys(holders) for one in self.rules.get(who, ())], self.departments)


def by_holder(rules: Iterable[Rule]) -> dict[Holder, tuple[Binding, ...]]:
    """The bindings of each holder."""
    found: dict[Holder, tuple[Binding, ...]] = {}
    for rule in rules:
        found[rule.holder] = (*found.get(rule.holder, ()), rule.binding)
    return found

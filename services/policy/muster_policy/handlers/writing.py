"""Writes of policies: load, decide, write. One transaction for all documents of a call, with the store to itself.

Called by the rpc within the unit of the call.
Holds: a write that is answered is used by every verdict that is committed later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from muster_chassis.unit import Unit
from muster_policy.domain.changes import Change, Forbidden, Outcome, Refused, Wanted, changes, removal
from muster_policy.domain.standing import Key, Shelf, Standing
from muster_policy.errors import (
    NoSuchPolicy,
    NoSuchUnit,
    PolicyChanged,
    PolicyForbidden,
    PolicyRefused,
)
from muster_policy.handlers.standing import Loading
from muster_policy.ports import Books, Directory, PolicyStore, Written
from muster_policy_engine.levels import Tenancy
from muster_policy_engine.policy import Level, Scope


@dataclass(frozen=True, slots=True)
class Done:
    """What a write has done, or would do. revision: of all policies, afterwards."""

    changes: Sequence[Change]
    revision: int


class Writing:
    """Writes of one instance."""

    def __init__(self, loading: Loading, store: PolicyStore, books: Books) -> None:
        self._loading = loading
        self._store = store
        self._books = books

    async def apply(self, unit: Unit, wanted: Wanted, channel: str, reason: str, *, dry: bool = False) -> Done:
        """Makes and changes policies. Raises the errors of `errors.py`."""
        shelf = await self._loading.taken(unit)
        directory = await self._books.tenancy(unit)
        for each in wanted.given:
            _check_unit(each.policy.scope, directory)
        if wanted.expected:
            _check_version(shelf.find(wanted.given[0].policy.key), wanted.expected)
        found = changes(wanted, shelf, tenancy_of(directory))
        if isinstance(found, Refused):
            raise PolicyRefused(found.problems)
        if isinstance(found, Forbidden):
            raise PolicyForbidden(found.scopes)
        return await self._write(unit, shelf, found, channel, reason, dry=dry)

    async def remove(
        self, unit: Unit, key: str | Key, wanted: Wanted, channel: str, reason: str, *, dry: bool = False
    ) -> Done:
        """Removes a policy. key: its id, or its kind and scope. Raises the errors of `errors.py`."""
        shelf = await self._loading.taken(unit)
        standing = found_by(shelf, key)
        if wanted.expected:
            _check_version(standing, wanted.expected)
        change = removal(standing, wanted, tenancy_of(await self._books.tenancy(unit)))
        if isinstance(change, Forbidden):
            raise PolicyForbidden(change.scopes)
        return await self._write(unit, shelf, [change], channel, reason, dry=dry)

    async def _write(
        self, unit: Unit, shelf: Shelf, found: Sequence[Change], channel: str, reason: str, *, dry: bool
    ) -> Done:
        writes = [each for each in found if each.outcome is not Outcome.UNCHANGED]
        if dry or not writes:
            return Done(found, shelf.revision)
        revision = shelf.revision + 1
        rows = {each.row.id: replace(each.row, revision=revision) for each in writes}
        await self._store.write(
            unit, revision, [Written(row, row.updated_by, channel, reason) for row in rows.values()]
        )
        done = [Change(rows.get(each.row.id, each.row), each.outcome) for each in found]
        return Done(done, revision)


def found_by(shelf: Shelf, key: str | Key) -> Standing:
    """The policy of an id, or of a kind and scope. Raises NoSuchPolicy."""
    standing = shelf.by_id(key) if isinstance(key, str) else shelf.find(key)
    if standing is None:
        raise NoSuchPolicy(key if isinstance(key, str) else f"{key[0].word} of the {key[1]}")
    return standing


def tenancy_of(directory: Directory) -> Tenancy:
    """The organisation as the levels need it."""
    departments = {each.name: each.department for each in directory.projects.values()}
    ids = {Scope(Level.PROJECT, each.name): str(each.id) for each in directory.projects.values()}
    ids |= {Scope(Level.DEPARTMENT, each.name): str(each.id) for each in directory.departments.values()}
    return Tenancy(departments, ids)


def _check_unit(scope: Scope, directory: Directory) -> None:
    known = {Level.PROJECT: directory.projects, Level.DEPARTMENT: directory.departments}.get(scope.level)
    if known is not None and scope.unit not in known:
        raise NoSuchUnit(scope)


def _check_version(standing: Standing | None, expected: int) -> None:
    now = standing.row.version if standing is not None else 0
    if now != expected:
        raise PolicyChanged(expected, now)

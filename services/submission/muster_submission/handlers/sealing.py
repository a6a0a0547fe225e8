"""Credentials on their way in: each literal is sealed and replaced by a reference before anything else sees the spec.

Called where workloads and templates are made and changed, within their transaction. Holds: a spec that goes into a row,
an event or an answer has no literal of a sensitive field; `***` keeps what is stored, and where nothing is stored it is
refused; a workload has its own copy of what its template holds, so that it goes with the workload.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from muster.workload.v1 import workload_pb2 as wl
from muster_chassis import identity, logs
from muster_chassis.unit import Unit
from muster_language.sensitive import MASK, Place, has_sensitive, places
from muster_submission.domain.problems import Problem
from muster_submission.domain.secrets import Sealed, SecretRef, nothing_kept, read_ref
from muster_submission.errors import DraftRefused, NoSealingKey
from muster_submission.handlers.drafts import Checked, Refusal, refused
from muster_submission.ports import Base

FIRST: Final = 1
_STRETCH: Final = 500
_log = logs.get(__name__)


class Seals(Protocol):
    """What seals and opens."""

    def seal(self, ref: SecretRef, holder: str, value: str) -> Sealed:
        """Seals a value for its holder. Raises NoSealingKey."""
        ...

    def open(self, sealed: Sealed) -> str:
        """The value. Raises NoSealingKey."""
        ...


class SecretBooks(Protocol):
    """Sealed credentials, within a transaction."""

    async def keep(self, unit: Unit, sealed: Sequence[Sealed]) -> None:
        """Writes new ones."""
        ...

    async def find(self, unit: Unit, refs: Sequence[SecretRef]) -> Mapping[SecretRef, Sealed]:
        """Those of the references that are there."""
        ...

    async def keep_only(self, unit: Unit, holder: str, refs: Sequence[SecretRef]) -> None:
        """Removes what a holder has besides these."""
        ...

    async def spec_of(self, unit: Unit, workload_id: str) -> bytes | None:
        """The own layer of a workload as it is kept."""
        ...


class KeyedSeals(Seals, Protocol):
    """What seals and opens, and says with which key it seals."""

    @property
    def current(self) -> str:
        """The id of that key."""
        ...


class RotatedBooks(Protocol):
    """Sealed credentials by the key that sealed them, within a transaction."""

    async def old(self, unit: Unit, current: str, at_most: int) -> Sequence[Sealed]:
        """Some that are sealed with another key than the current one, locked."""
        ...

    async def renew(self, unit: Unit, sealed: Sequence[Sealed]) -> None:
        """Writes locked ones that were sealed anew."""
        ...


@dataclass(slots=True)
class _Batch:
    """What one call seals."""

    made: list[Sealed]


@dataclass(frozen=True, slots=True)
class New:
    """Drafts of new workloads with references, in order, or why one is refused; and what the references name."""

    drafts: Sequence[Checked | Refusal]
    sealed: Sequence[Sealed]


class Sealing:
    """Seals specs."""

    def __init__(self, seals: Seals, books: SecretBooks) -> None:
        self._seals = seals
        self._books = books

    async def new(self, unit: Unit, ids: Sequence[str], drafts: Sequence[Checked]) -> New:
        """The drafts of new workloads without literals. Raises NoSealingKey where there is a literal and no key."""
        if not any(_touched(draft) for draft in drafts):
            return New(drafts, ())
        kept = await self._inherited(unit, drafts)
        batch = _Batch([])
        sealed = [self._one(batch, at, draft, kept) for at, draft in zip(ids, drafts, strict=True)]
        return New(sealed, batch.made)

    async def keep(self, unit: Unit, sealed: Sequence[Sealed], made: Container[str]) -> None:
        """Writes what those hold that were made: a name that was taken leaves nothing behind."""
        kept = [one for one in sealed if one.holder in made]
        if kept:
            await self._books.keep(unit, kept)

    async def against(self, unit: Unit, workload_id: str, draft: Checked) -> Checked:
        """A draft that changes a workload, with `***` where it says what is stored already.

        Compared with the workload as it is shown, only what is really another credential differs then. Raises
        DraftRefused where it keeps what is not stored.
        """
        if not has_sensitive(draft.spec):
            return draft
        spec = _copy(draft.spec)
        stored = await self._stored(unit, workload_id)
        opened = await self._books.find(unit, [ref for ref in stored.values() if ref is not None])
        problems = [said for place in places(spec) for said in self._compared(place, stored, opened)]
        if problems:
            raise DraftRefused("the change", problems)
        return replace(draft, spec=spec)

    async def change(self, unit: Unit, workload_id: str, draft: Checked) -> Checked:
        """The draft of a change without literals: kept ones by their reference, new ones under the next version."""
        if not _touched(draft):
            return draft
        stored = await self._stored(unit, workload_id)
        batch = _Batch([])
        spec = self._sealed(batch, workload_id, _copy(draft.spec), stored)
        base = draft.base
        if base is not None and has_sensitive(base.spec):
            kept = await self._inherited(unit, [draft])
            base = self._own_base(batch, workload_id, base, kept)
        if batch.made:
            await self._books.keep(unit, batch.made)
        return replace(draft, spec=spec, base=base)

    async def template(self, unit: Unit, before: Base | None, wanted: Base) -> Base:
        """A template without literals; what it held and holds no more is removed. Raises DraftRefused.

        A credential that is stored already keeps its reference, so that a template that says the same is the same.
        """
        if not has_sensitive(wanted.spec) and not (before and has_sensitive(before.spec)):
            return wanted
        stored = _refs(before.spec) if before else {}
        opened = await self._books.find(unit, [ref for ref in stored.values() if ref is not None])
        asked = _copy(wanted.spec)
        problems = [said for place in places(asked) for said in self._compared(place, stored, opened)]
        if problems:
            raise DraftRefused("the template", problems)
        batch = _Batch([])
        holder = before.template_id if before else wanted.template_id
        spec = self._sealed(batch, holder, asked, stored)
        if batch.made:
            await self._books.keep(unit, batch.made)
        await self._books.keep_only(unit, holder, [ref for ref in _refs(spec).values() if ref is not None])
        return replace(wanted, template_id=holder, spec=spec)

    async def forget(self, unit: Unit, holder: str) -> None:
        """Removes what a template held that is removed."""
        await self._books.keep_only(unit, holder, ())

    def _one(
        self, batch: _Batch, workload_id: str, draft: Checked, kept: Mapping[SecretRef, Sealed]
    ) -> Checked | Refusal:
        problems = [said for place in places(draft.spec) for said in _kept(place, {})]
        if problems:
            return refused(problems)
        base = draft.base
        if base is not None and has_sensitive(base.spec):
            base = self._own_base(batch, workload_id, base, kept)
        return replace(draft, spec=self._sealed(batch, workload_id, _copy(draft.spec), {}), base=base)

    def _own_base(self, batch: _Batch, workload_id: str, base: Base, kept: Mapping[SecretRef, Sealed]) -> Base:
        """The template's layer with copies of its credentials that belong to the workload."""
        spec = _copy(base.spec)
        for place in places(spec):
            ref = read_ref(place.text)
            if ref is not None and ref in kept:
                self._seal(batch, workload_id, place, self._seals.open(kept[ref]), None)
        return replace(base, spec=spec)

    def _sealed(
        self, batch: _Batch, holder: str, spec: wl.WorkloadSpec, stored: Mapping[tuple[str, ...], SecretRef | None]
    ) -> wl.WorkloadSpec:
        for place in places(spec):
            before = stored.get(place.path)
            if place.text == MASK and before is not None:
                place.put(before.text)
            elif place.literal:
                self._seal(batch, holder, place, place.text, before)
        return spec

    def _seal(self, batch: _Batch, holder: str, place: Place, value: str, before: SecretRef | None) -> None:
        ref = SecretRef(before.id, before.version + 1) if before else SecretRef(identity.event_id(), FIRST)
        batch.made.append(self._seals.seal(ref, holder, value))
        place.put(ref.text)

    def _compared(
        self, place: Place, stored: Mapping[tuple[str, ...], SecretRef | None], opened: Mapping[SecretRef, Sealed]
    ) -> Sequence[Problem]:
        before = stored.get(place.path)
        known = opened.get(before) if before else None
        if place.literal and known and self._seals.open(known) == place.text:
            place.put(MASK)
        return _kept(place, stored)

    async def _stored(self, unit: Unit, workload_id: str) -> Mapping[tuple[str, ...], SecretRef | None]:
        raw = await self._books.spec_of(unit, workload_id)
        return {} if raw is None else _refs(wl.WorkloadSpec.FromString(raw))

    async def _inherited(self, unit: Unit, drafts: Sequence[Checked]) -> Mapping[SecretRef, Sealed]:
        """What the drafts' templates hold."""
        bases = {draft.base.template_id: draft.base for draft in drafts if draft.base is not None}
        refs = [ref for base in bases.values() for ref in _refs(base.spec).values() if ref is not None]
        return await self._books.find(unit, refs) if refs else {}


class Rotation:
    """Seals anew what an older key has sealed, a stretch at a time. One that no key opens stays as it is."""

    def __init__(self, seals: KeyedSeals, books: RotatedBooks) -> None:
        self._seals = seals
        self._books = books

    async def turn(self, unit: Unit) -> bool:
        """One stretch; whether there may be more."""
        found = await self._books.old(unit, self._seals.current, _STRETCH)
        renewed = list[Sealed]()
        for one in found:
            try:
                renewed.append(self._seals.seal(one.ref, one.holder, self._seals.open(one)))
            except NoSealingKey as error:
                _log.error("a credential cannot be sealed anew", holder=one.holder, error=str(error))
        if renewed:
            await self._books.renew(unit, renewed)
        return len(found) == _STRETCH and len(renewed) == len(found)


def _touched(draft: Checked) -> bool:
    return has_sensitive(draft.spec) or (draft.base is not None and has_sensitive(draft.base.spec))


def _kept(place: Place, stored: Mapping[tuple[str, ...], SecretRef | None]) -> Sequence[Problem]:
    why = "" if stored.get(place.path) else nothing_kept(place.text)
    return [Problem(place.where, why)] if why else []


def _refs(spec: wl.WorkloadSpec) -> dict[tuple[str, ...], SecretRef | None]:
    return {place.path: read_ref(place.text) for place in places(spec)}


def _copy(spec: wl.WorkloadSpec) -> wl.WorkloadSpec:
    made = wl.WorkloadSpec()
    made.CopyFrom(spec)
    return made

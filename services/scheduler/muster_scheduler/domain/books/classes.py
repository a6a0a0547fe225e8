"""What makes waiting workloads equal to the scheduler, and who of a project stands before whom.

Used by the queue (waiting.py), which keeps one bucket for each class, and by whoever decides about a class at once.
Holds: classes that differ in amounts alone share one kin object within a queue, so that what hangs on nothing else is
found once for all of them, and two kins are compared by `is`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final, NamedTuple

import msgspec

from muster_scheduler.domain.asked.quotas import Amount
from muster_scheduler.domain.asked.requests import Amounts, Grant, Kind, Role, Shape, total_charge
from muster_scheduler.domain.asked.terms import Terms
from muster_scheduler.domain.asked.workloads import DataLocation, Request, Stretch, Trials, Workload, WorkloadKind
from muster_scheduler.domain.deciding.shapes import own_row
from muster_scheduler.domain.tuples import new

_SPARE: Final = 64  # kins without a class that are kept, beside as many as there are classes
_NOWHERE: Final[frozenset[tuple[str, str]]] = frozenset()
_ASKED: Final = (
    *("priority", "preemptible", "pools", "clusters", "fields", "kind", "trials", "stretch", "terms"),
    *("keeps_data", "data", "mounts", "excluded"),
)
_asked_of: Final = itemgetter(*map(Request._fields.index, _ASKED))
_form_of: Final = itemgetter(*map(Shape._fields.index, ("kind", "profile", "extra")))


class Form(NamedTuple):
    """A role without its amounts."""

    name: str
    size: int
    kind: Kind
    profile: str
    extra: Amounts


@dataclass(frozen=True, slots=True, eq=False)
class Kin:
    """What classes have in common that differ in amounts alone."""

    forms: tuple[Form, ...]
    project: str
    user: str  # where its project limits users; else empty, and users share a class
    avoid: frozenset[tuple[str, str]]
    ran: int
    returning: bool  # was evicted, and so evicts nobody in order to come back
    priority: int
    preemptible: bool
    pools: tuple[str, ...]
    clusters: tuple[str, ...]
    fields: frozenset[str]
    kind: WorkloadKind
    trials: Trials | None  # these and elastic gangs begin otherwise than what asks for the same at first
    stretch: Stretch | None
    terms: Terms
    keeps_data: bool
    data: DataLocation | None  # the reason differs by it: `clusters` has the one with the data already
    mounts: tuple[str, ...]
    excluded: tuple[str, ...]


class ClassKey(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """What makes two waiting workloads equal to the scheduler. amounts: of all roles, as kernels read them.

    Knows its hash: that of its nested roles took longer to find than all else takes that forgets a class.
    """

    kin: Kin
    amounts: bytes
    roles: tuple[Role, ...]

    @property
    def project(self) -> str:
        """Whose it is."""
        return self.kin.project

    @property
    def priority(self) -> int:
        """Of its members."""
        return self.kin.priority

    @property
    def preemptible(self) -> bool:
        """Whether others may take their place."""
        return self.kin.preemptible

    @property
    def pools(self) -> tuple[str, ...]:
        """The node pools that they try, in order."""
        return self.kin.pools

    @property
    def returning(self) -> bool:
        """Whether they were evicted."""
        return self.kin.returning


class Place(NamedTuple):
    """Where a workload stands within its project: the higher priority first, then the older, then by id."""

    rank: int  # -priority
    submitted: int
    id: str


class Kins:
    """The kins of a queue, each once; those that no class has any more are dropped when they are the most."""

    def __init__(self) -> None:
        """Begins with none."""
        self._known: dict[tuple[Any, ...], Kin] = {}

    def key_of(self, workload: Workload, user: str) -> ClassKey:
        """The class of an admitted workload. user: whose, where that counts."""
        request = request_of(workload)
        forms = tuple([(name, size, _form_of(shape)) for name, size, shape, _ in request.roles])
        traits = forms, traits_of(workload, request, user)
        kin = self._known.get(traits)
        if kin is None:
            *own, asked = traits[1]
            named = tuple(Form(name, size, *shape) for name, size, shape in forms)
            kin = self._known[traits] = Kin(named, *own, *asked)
        return ClassKey(kin, amounts_of(request.roles), request.roles)

    def drop_unused(self, classes: Collection[ClassKey]) -> None:
        """Drops those of none of these classes, where they outnumber the classes."""
        if len(self._known) > 2 * len(classes) + _SPARE:
            used = dict.fromkeys(key.kin for key in classes)
            self._known = {traits: kin for traits, kin in self._known.items() if kin in used}


def request_of(workload: Workload) -> Request:
    """What an admitted workload asks for. Raises ValueError where it is not."""
    if workload.request is None:
        raise ValueError(f"workload {workload.id} is not admitted, so it has no class")
    return workload.request


def traits_of(workload: Workload, request: Request, user: str) -> tuple[Any, ...]:
    """What makes its class beside its roles: nested, since it is asked of every arrival. user: as above."""
    avoid = frozenset(workload.avoid) if workload.avoid else _NOWHERE
    return workload.project, user, avoid, workload.ran, workload.preempted_by != "", _asked_of(request)


def amounts_of(roles: tuple[Role, ...]) -> bytes:
    """The amounts of a gang: each role's own part of the row that kernels read."""
    rows = [own_row(shape, charge) for _, _, shape, charge in roles]
    return rows[0] if len(rows) == 1 else b"".join(rows)


def alike(one: Workload, other: Workload, *, by_user: bool) -> bool:
    """Whether two admitted workloads are of one class. by_user: their project limits users."""
    first, second = request_of(one), request_of(other)
    users = (one.owner, other.owner) if by_user else ("", "")
    return first.roles == second.roles and traits_of(one, first, users[0]) == traits_of(other, second, users[1])


def asked_by(key: ClassKey) -> Amount:
    """What one member of a class asks for, before it has a device."""
    roles = key.roles
    if len(roles) == 1:
        _, size, shape, charge = roles[0]
        return new(Amount, (size * charge, size * shape.cpu, size * shape.memory))
    return Amount(
        total_charge(roles),
        sum(role.size * role.shape.cpu for role in roles),
        sum(role.size * role.shape.memory for role in roles),
    )


def grant_of(key: ClassKey) -> Grant | None:
    """What every member of a class gets that is one replica of CPU and memory alone; None: it asks for more."""
    forms, roles = key.kin.forms, key.roles
    if len(forms) != 1 or forms[0].size != 1 or forms[0].kind is not Kind.NONE or forms[0].extra:
        return None
    return new(Grant, (roles[0].shape.cpu, roles[0].shape.memory, (), 0, 0, ()))

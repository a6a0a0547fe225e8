"""What the routes of projects and departments share: both are units with quotas, listed, shown, changed and removed.

Each of the two says in its own file under routes/ what it is called, how it is found, and what of it can change.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from google.protobuf.field_mask_pb2 import FieldMask
from starlette.requests import Request
from starlette.responses import Response

from muster.fleet.v1.fleet_pb2 import Account
from muster.tenancy.v1.tenancy_pb2 import Department, PoolQuota, Project
from muster_chassis.errors import ServiceError
from muster_chassis.rpc import caller
from muster_submission.domain.fleet import ANY_CLUSTER
from muster_submission.handlers.access import Rights
from muster_submission.rest import org_lists, org_shapes, quotas
from muster_submission.rest.answers import answer, nothing
from muster_submission.rest.bodies import read_array, read_object
from muster_submission.rest.fleet_view import Fleet
from muster_submission.rest.members import Findings
from muster_submission.rest.operation import Answer, Body, Operation, Shape, array_of, path_id, refusal
from muster_submission.rest.org_lists import Column, Listing
from muster_submission.rest.org_units import shown_cluster
from muster_submission.rest.parts import Parts
from muster_submission.rest.quotas import Pools
from muster_submission.rest.requests import number_of

Unit = TypeVar("Unit", Department, Project)


class OrgUnits(ABC, Generic[Unit]):
    """The handlers of one kind of unit."""

    noun: ClassVar[str]
    tag: ClassVar[str]
    path: ClassVar[str]
    updatable: ClassVar[Sequence[str]]
    """The members of a body that changes one."""
    shapes: ClassVar[tuple[Shape, Shape, Shape]]
    """One as it is shown, to make, to change."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        columns = list(self._columns())
        columns.extend(self.more_columns())
        self._listing: Listing[Unit] = Listing(columns, lambda one: one.id)

    # -- what a kind says of itself

    @abstractmethod
    def more_columns(self) -> Iterable[Column[Unit]]:
        """By what it is filtered and sorted beside what both have."""

    @abstractmethod
    async def every(self) -> Iterable[Unit]:
        """All of them."""

    @abstractmethod
    async def by_id(self, number: int) -> Unit | None:
        """The one with that number."""

    @abstractmethod
    def seen(self, rights: Rights) -> frozenset[str] | None:
        """The names that the caller may see; None: all."""

    @abstractmethod
    def require(self, rights: Rights, name: str, absent: ServiceError) -> None:
        """Raises `absent` where the caller may not see it: an attempt that the audit hears of."""

    @abstractmethod
    def absent(self, given: str) -> ServiceError:
        """What is said of an id that is not there, or hidden."""

    @abstractmethod
    def read(self, body: Mapping[str, Any], pools: Pools, found: Findings) -> tuple[Unit, list[str]]:
        """What a body says can change, and which parts of the unit that sets."""

    @abstractmethod
    async def make(self, request: Request, body: Mapping[str, Any], asked: Unit, found: Findings) -> Unit:
        """Makes one; the findings are raised first."""

    @abstractmethod
    def like(self, known: Unit, changed: Sequence[PoolQuota], version: int = 0) -> Unit:
        """A unit of that name with these quotas."""

    @abstractmethod
    async def change(self, request: Request, asked: Unit, mask: FieldMask) -> Unit:
        """Changes one."""

    @abstractmethod
    async def remove(self, request: Request, name: str) -> None:
        """Removes one."""

    @abstractmethod
    async def accounts(self, fleet: Fleet, units: Sequence[Unit]) -> Mapping[str, Sequence[Account]]:
        """What is held and asked for in each of them, by name."""

    @abstractmethod
    async def write(self, unit: Unit, pools: Pools, accounts: Sequence[Account]) -> dict[str, Any]:
        """One as it is shown."""

    # -- what both do

    def operations(self) -> list[Operation]:
        """What is served."""
        shape, creation, update = self.shapes
        one, page = Answer(f"The {self.noun}.", shape), org_shapes.page_of(self.tag, f"{self.noun}s", shape)
        taken, busy = (
            refusal("The name is taken, or the namespace."),
            refusal("It holds something, or always is there."),
        )
        some, patched = (Body(array_of(quota)) for quota in (org_shapes.QUOTA, org_shapes.QUOTA_CHANGE))
        conflict = refusal("Another change came first.")
        number, at = [path_id(f"{self.noun}Id", "Its id.", form="")], f"{self.path}/{{{self.noun}Id}}"
        lists, counts = self._listing.parameters(), self._listing.count_parameters()
        found, count = {200: one, 409: conflict}, {200: Answer("The number.", org_shapes.COUNT)}
        gone, made = {204: Answer("Gone."), 409: busy}, {201: one, 409: taken}
        below, what = f"{at}/resources", self.noun
        return [
            self._operation("POST", self.path, f"create_{what}", "Make one", self.create, made, body=Body(creation)),
            self._operation("GET", self.path, f"get_{what}s", "All", self.page, {200: Answer("A page.", page)}, lists),
            self._operation(
                "GET", f"{self.path}/count", f"count_{what}s", "How many", self.count, count, counts, since="muster"
            ),
            self._operation("GET", at, f"get_{what}", "One", self.get, {200: one}, number),
            self._operation("PUT", at, f"update_{what}", "Change it", self.update, found, number, Body(update)),
            self._operation("DELETE", at, f"delete_{what}", "Remove it", self.delete, gone, number),
            self._operation(
                "PUT", below, f"update_{what}_resources", "Replace its quotas", self.replace, found, number, some
            ),
            self._operation(
                "PATCH", below, f"patch_{what}_resources", "Change its quotas", self.patch, found, number, patched
            ),
        ]

    def _operation(self, method: Any, path: str, name: str, summary: str, *rest: Any, **more: Any) -> Operation:
        return Operation(method, path, name, self.tag, f"{summary}: {self.noun}", *rest, **more)

    async def create(self, request: Request) -> Response:
        """201 with the unit."""
        fleet, found = Fleet(self._parts, request), Findings()
        members = self.shapes[1].schema["properties"]
        body = found.object(await read_object(request), "", members)
        asked, _ = self.read(body, await fleet.pools(), found)
        asked.name = found.text(body.get("name"), "name")
        asked.home_cluster = await self._home_cluster(body.get("clusterId"), found)
        made = await self.make(request, body, asked, found)
        return answer((await self._shown(fleet, [made]))[0], 201)

    async def page(self, request: Request) -> Response:
        """A page of what the caller may see."""
        page, following = self._listing.page(request, await self._visible())
        shown = await self._shown(Fleet(self._parts, request), page)
        return answer({f"{self.noun}s": shown, **({} if following is None else {"next": following})})

    async def count(self, request: Request) -> Response:
        """How many of what the caller may see pass."""
        return answer({"count": self._listing.count(request, await self._visible())})

    async def get(self, request: Request) -> Response:
        """One."""
        return await self._answer(request, await self._found(request))

    async def update(self, request: Request) -> Response:
        """The unit as it is now."""
        fleet, found, known = Fleet(self._parts, request), Findings(), await self._found(request)
        body = found.object(await read_object(request), "", self.updatable)
        asked, paths = self.read(body, await fleet.pools(), found)
        found.raise_any(f"the {self.noun}")
        asked.name = known.name
        return await self._answer(request, await self.change(request, asked, FieldMask(paths=paths)))

    async def replace(self, request: Request) -> Response:
        """The unit with these quotas and no others."""
        fleet, found, known = Fleet(self._parts, request), Findings(), await self._found(request)
        asked = self.like(known, quotas.read(await read_array(request), "", await fleet.pools(), found))
        found.raise_any("the quotas")
        return await self._answer(request, await self.change(request, asked, FieldMask(paths=["quotas"])))

    async def patch(self, request: Request) -> Response:
        """The unit with these quotas changed."""
        fleet, found, known = Fleet(self._parts, request), Findings(), await self._found(request)
        after = quotas.patch(await read_array(request), "", await fleet.pools(), known.quotas, found)
        found.raise_any("the quotas")
        # The version says what was patched: a change that came between would otherwise be undone.
        asked = self.like(known, after, known.version)
        return await self._answer(request, await self.change(request, asked, FieldMask(paths=["quotas"])))

    async def delete(self, request: Request) -> Response:
        """204."""
        await self.remove(request, (await self._found(request)).name)
        return nothing()

    async def _answer(self, request: Request, unit: Unit) -> Response:
        return answer((await self._shown(Fleet(self._parts, request), [unit]))[0])

    async def _shown(self, fleet: Fleet, units: Sequence[Unit]) -> list[dict[str, Any]]:
        accounts = await self.accounts(fleet, units)
        return [await self.write(one, await fleet.pools(one.home_cluster), accounts.get(one.name, ())) for one in units]

    async def _found(self, request: Request) -> Unit:
        """The unit of the path, where the caller may see it."""
        given = request.path_params[f"{self.noun}Id"]
        number = number_of(given)
        found = None if number is None else await self.by_id(number)
        absent = self.absent(given[:40])
        if found is None:
            raise absent
        self.require(await self._parts.access.rights(caller()), found.name, absent)
        return found

    async def _visible(self) -> list[Unit]:
        seen = self.seen(await self._parts.access.rights(caller()))
        return [one for one in await self.every() if seen is None or one.name in seen]

    async def _home_cluster(self, value: Any, found: Findings) -> str:
        """The name of the cluster that a body names; '' for the one that means any."""
        uuid = found.text(value, "clusterId")
        if not uuid:
            found.add("clusterId", f"is missing: the id of a cluster, or {ANY_CLUSTER} for all of them")
        if not uuid or uuid == ANY_CLUSTER:
            return ""
        name = await self._parts.fleet.cluster_of_uuid(uuid.lower())
        if name is None:
            found.add("clusterId", f"no cluster has the id {uuid[:80]!r}; GET /api/v1/clusters lists them")
        return name or ""

    def _columns(self) -> Iterable[Column[Unit]]:
        return [
            org_lists.text("id", f"the {self.noun}'s id", lambda one: str(one.id)),
            org_lists.text("name", "its name", lambda one: one.name),
            org_lists.text(
                "clusterId", "the cluster for which it was made", lambda one: shown_cluster(one.home_cluster)
            ),
            org_lists.text("createdBy", "who made it", lambda one: one.created_by),
            org_lists.text("updatedBy", "who changed it last", lambda one: one.updated_by),
            org_lists.time("createdAt", "when it was made", lambda one: one.created_at.ToDatetime()),
            org_lists.time("updatedAt", "when it was changed last", lambda one: one.updated_at.ToDatetime()),
        ]

"""/api/v1/apps: programs with an id and a secret."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from muster_chassis.rpc import caller
from muster_kernel.ids import is_uuid
from muster_submission.access_ports import Application
from muster_submission.domain.access import Verb
from muster_submission.handlers.access import Rights
from muster_submission.handlers.applications import no_application
from muster_submission.rest import iam_shapes as iam
from muster_submission.rest.answers import answer, nothing
from muster_submission.rest.bodies import read_object
from muster_submission.rest.members import Findings
from muster_submission.rest.operation import Answer, Body, Operation, Schema, path_id, refusal
from muster_submission.rest.parts import Parts

PATH: Final = "/api/v1/apps"
_TAG: Final = "Applications"
_ID: Final = path_id("appId", "The application's id.")
_PAGE: Final = 500


def operations(parts: Parts) -> list[Operation]:
    """What is served."""
    here = Applications(parts)
    one, at = Answer("The application.", iam.APPLICATION), f"{PATH}/{{appId}}"
    every: Schema = {"type": "array", "items": iam.APPLICATION}
    made = {201: Answer("The application with its secret.", iam.NEW_APPLICATION), 409: refusal("The name is taken.")}
    secret = Answer("The secret.", iam.NEW_SECRET)
    body, change = Body(iam.APPLICATION_CREATION), Body(iam.APPLICATION_CHANGE)
    return [
        Operation("POST", PATH, "create_application", _TAG, "Make an application", here.create, made, body=body),
        Operation(
            "GET", PATH, "get_applications", _TAG, "The applications", here.all, {200: Answer("All of them.", every)}
        ),
        Operation("GET", at, "get_application", _TAG, "One application", here.get, {200: one}, [_ID]),
        Operation(
            "PATCH", at, "update_application", _TAG, "Switch it on or off", here.change, {200: one}, [_ID], change
        ),
        Operation(
            "DELETE", at, "delete_application", _TAG, "End it for good", here.end, {204: Answer("Ended.")}, [_ID]
        ),
        Operation(
            "POST",
            f"{at}/secret",
            "regenerate_application_secret",
            _TAG,
            "A new secret",
            here.rotate,
            {200: secret},
            [_ID],
        ),
    ]


class Applications:
    """The handlers."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._applications = parts.gates.applications
        self._books = parts.gates.application_books

    async def create(self, request: Request) -> Response:
        """Makes an application."""
        rights = await self._may(Verb.APPLICATIONS_WRITE)
        given = Findings()
        body = given.object(await read_object(request), "", ("name",))
        name = given.text(body.get("name"), "name")
        given.raise_any("the application")
        async with self._parts.database.unit() as unit:
            made, secret = await self._applications.create(unit, name, rights.who.subject)
        return answer(
            {"id": made.id, "clientId": made.id, "name": made.name, "secret": secret},
            201,
            {"Cache-Control": "no-store"},
        )

    async def all(self, request: Request) -> Response:
        """All of them, by name."""
        await self._may(Verb.APPLICATIONS_READ)
        found = await self._books.page(_PAGE, "")
        while len(found) % _PAGE == 0 and found:
            more = await self._books.page(_PAGE, found[-1].name)
            if not more:
                break
            found = [*found, *more]
        return answer([self._shown(one) for one in found])

    async def get(self, request: Request) -> Response:
        """One application."""
        await self._may(Verb.APPLICATIONS_READ)
        found = await self._books.find(_id(request))
        if found is None:
            raise no_application(_id(request))
        return answer(self._shown(found))

    async def change(self, request: Request) -> Response:
        """Switches it on or off."""
        await self._may(Verb.APPLICATIONS_WRITE)
        given = Findings()
        enabled = given.object(await read_object(request), "", ("enabled",)).get("enabled")
        if not isinstance(enabled, bool):
            given.add("enabled", "expected true or false")
        given.raise_any("the change")
        async with self._parts.database.unit() as unit:
            found = await self._applications.enable(unit, _id(request), enabled=bool(enabled))
        return answer(self._shown(found))

    async def rotate(self, request: Request) -> Response:
        """Gives it a new secret."""
        await self._may(Verb.APPLICATIONS_WRITE)
        async with self._parts.database.unit() as unit:
            _, secret = await self._applications.rotate(unit, _id(request))
        return answer({"secret": secret}, headers={"Cache-Control": "no-store"})

    async def end(self, request: Request) -> Response:
        """Ends it."""
        await self._may(Verb.APPLICATIONS_WRITE)
        async with self._parts.database.unit() as unit:
            await self._applications.end(unit, _id(request))
        return nothing()

    async def _may(self, verb: Verb) -> Rights:
        rights = await self._parts.access.rights(caller())
        rights.require(verb)
        return rights

    def _shown(self, one: Application) -> dict[str, Any]:
        return {
            "id": one.id,
            "clientId": one.id,
            "name": one.name,
            "createdBy": one.created_by,
            "createdAt": one.created_at.isoformat(),
            "updatedAt": one.updated_at.isoformat(),
            "enabled": one.enabled,
            "tenantId": str(self._parts.tenant_id),
            "lastLogin": None if one.used_at is None else one.used_at.isoformat(),
        }


def _id(request: Request) -> str:
    """The id in the path. Raises NotFound for what is none: a name is not an id here."""
    given = str(request.path_params["appId"])
    if not is_uuid(given):
        raise no_application(given)
    return given

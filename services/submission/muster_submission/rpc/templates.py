"""TemplatesService: templates, from which workloads inherit."""

from __future__ import annotations

from typing import Any, Final

from muster.api.v1 import templates_pb2 as api
from muster.api.v1 import templates_pb2_grpc
from muster_chassis.database import Database
from muster_chassis.rpc import caller, once
from muster_chassis.unit import Unit
from muster_language.sensitive import masked
from muster_submission.adapters.templates import GLOBAL, PostgresTemplates
from muster_submission.domain.access import Verb
from muster_submission.domain.cursors import page_token
from muster_submission.errors import BadQuestion, NoSuchTemplate
from muster_submission.handlers.access import Access, Rights
from muster_submission.handlers.templates import Library
from muster_submission.ports import Base
from muster_submission.rpc.reading import page_of

_LONGEST: Final = 200


class Templates(templates_pb2_grpc.TemplatesServiceServicer):
    """The servicer."""

    def __init__(self, database: Database, access: Access, books: PostgresTemplates, library: Library) -> None:
        self._database = database
        self._access = access
        self._books = books
        self._library = library

    async def ApplyTemplate(self, request: api.ApplyTemplateRequest, context: Any) -> api.ApplyTemplateResponse:
        """Makes a template or changes it."""
        wanted = await self._library.check(request, await self._access.rights(caller()))

        async def work(unit: Unit) -> api.ApplyTemplateResponse:
            saved, outcome = await self._library.save(unit, wanted)
            return api.ApplyTemplateResponse(template=_shown(saved), outcome=outcome)

        return await once(self._database, "ApplyTemplate", request, api.ApplyTemplateResponse, work)

    async def ListTemplates(self, request: api.ListTemplatesRequest, context: Any) -> api.ListTemplatesResponse:
        """The templates, by name."""
        if "\x00" in request.project:
            raise BadQuestion("project holds a NUL character; no name has one")
        bound = b"templates\x00" + request.project.encode()
        size, after = page_of(request.page_size, request.page_token, bound)
        name, _, project = after.partition("/")
        rights = await self._access.rights(caller())
        if request.project:
            rights.require(Verb.TEMPLATES_READ, project=request.project)
        found = await self._books.page(request.project, _sight(rights), size, (name, project))
        token = page_token(f"{found[-1].name}/{found[-1].project}", bound) if len(found) == size else ""
        return api.ListTemplatesResponse(templates=[_shown(one) for one in found], next_page_token=token)

    async def GetTemplate(self, request: api.GetTemplateRequest, context: Any) -> api.GetTemplateResponse:
        """The template from which a project's workloads inherit under that name."""
        rights = await self._named(Verb.TEMPLATES_READ, request.project, request.name)
        at = (request.project, request.name)
        found = (await self._books.find([at])).get(at)
        seen = _sight(rights)
        if found is None or (seen is not None and found.project not in seen):
            raise NoSuchTemplate.named(*at)
        return api.GetTemplateResponse(template=_shown(found), yaml=await self._library.document(found))

    async def DeleteTemplate(self, request: api.DeleteTemplateRequest, context: Any) -> api.DeleteTemplateResponse:
        """Removes a template."""
        await self._named(Verb.TEMPLATES_WRITE, request.project, request.name)

        async def work(unit: Unit) -> api.DeleteTemplateResponse:
            await self._library.delete(unit, request.project, request.name)
            return api.DeleteTemplateResponse()

        return await once(self._database, "DeleteTemplate", request, api.DeleteTemplateResponse, work)

    async def _named(self, verb: Verb, project: str, name: str) -> Rights:
        """The caller's rights. Raises BadQuestion, NoSuchTemplate and PermissionDenied."""
        if "\x00" in project or "\x00" in name:
            raise BadQuestion("project or name holds a NUL character; no name has one")
        rights = await self._access.rights(caller())
        if project:
            rights.require(verb, project=project, absent=NoSuchTemplate.named(project, name[:_LONGEST]))
        elif verb is not Verb.TEMPLATES_READ:
            rights.require(verb)
        if not name:
            raise BadQuestion("which template is meant? give its name, and its project; no project: one for all")
        return rights


def _sight(rights: Rights) -> frozenset[str] | None:
    """The projects whose templates may be seen; the global ones ('') are for everyone who may see any."""
    seen = rights.projects(Verb.TEMPLATES_READ)
    return seen if seen is None or not seen else seen | {GLOBAL}


def _shown(base: Base) -> api.Template:
    return api.Template(
        id=base.template_id, name=base.name, project=base.project, version=base.version, spec=masked(base.spec)
    )

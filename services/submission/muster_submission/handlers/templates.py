"""Making and changing templates; every change goes out on muster.tenancy.

A template is a layer: what it leaves out stays open for the workloads that inherit from it.
"""

from __future__ import annotations

from muster.api.v1 import templates_pb2 as api
from muster.events.v1 import submission_pb2 as events
from muster_chassis import identity
from muster_chassis.topics import TENANCY
from muster_chassis.unit import Unit
from muster_kernel.ids import check_name
from muster_submission.audit import Entry, audit
from muster_submission.domain.access import Verb
from muster_submission.domain.problems import Problem
from muster_submission.errors import DraftRefused
from muster_submission.handlers.access import Rights
from muster_submission.handlers.drafts import Drafts, Read, Refusal
from muster_submission.handlers.sealing import Sealing
from muster_submission.ports import Base, Templates


class Library:
    """Changes templates."""

    def __init__(self, templates: Templates, drafts: Drafts, sealing: Sealing) -> None:
        self._templates = templates
        self._sealing = sealing
        self._drafts = drafts

    async def check(self, asked: api.ApplyTemplateRequest, rights: Rights) -> Base:
        """The template that somebody wants; its id counts where it is new.

        Raises DraftRefused, NoSuchProject and PermissionDenied.
        """
        layer = self._drafts.read(asked.draft)
        problems = [*layer.problems, *_not_for_templates(layer)]
        project = await self._project(asked, layer, problems, rights)
        if problems:
            raise DraftRefused("the template", problems)
        return Base(identity.event_id(), 1, layer.spec.name, project, layer.spec)

    async def save(self, unit: Unit, wanted: Base) -> Base:
        """Makes the template or changes the one of its name, and says so."""
        before = await self._templates.current(unit, wanted.project, wanted.name)
        saved = await self._templates.save(unit, await self._sealing.template(unit, before, wanted))
        await audit(unit, Entry(Verb.TEMPLATES_WRITE, f"template/{saved.name}", saved.project))
        message = events.TemplateChanged(
            template_id=saved.template_id,
            name=saved.name,
            project=saved.project,
            version=saved.version,
            spec=saved.spec,
        )
        unit.publish(TENANCY, f"template/{saved.template_id}", message)
        return saved

    async def _project(
        self, asked: api.ApplyTemplateRequest, layer: Read, problems: list[Problem], rights: Rights
    ) -> str:
        """The project of the template, '' for a global one."""
        if getattr(asked, "global"):
            rights.require(Verb.TEMPLATES_WRITE)
            if asked.draft.project:
                problems.append(Problem("draft.project", "a global template belongs to no project: leave it empty"))
            return ""
        found = await self._drafts.project(asked.draft.project, layer.namespace, rights, Verb.TEMPLATES_WRITE)
        match found:
            case Problem():
                problems.append(found)
                return ""
            case Refusal():
                if not problems:
                    raise found.error()
                return ""
            case _:
                return found.name


def _not_for_templates(layer: Read) -> list[Problem]:
    spec, problems = layer.spec, []
    if spec.name_prefix:
        problems.append(Problem("spec.namePrefix", "a template needs a name of its own, not a prefix"))
    elif not any("name" in one.path.split(".") for one in layer.problems):
        try:
            check_name(spec.name)
        except ValueError as error:
            problems.append(Problem("spec.name", str(error)))
    if spec.base_workload:
        problems.append(Problem("spec.baseWorkload", "a template inherits from no other template: leave it out"))
    return problems

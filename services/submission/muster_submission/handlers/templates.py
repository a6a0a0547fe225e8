"""Making, changing and removing templates; every change goes out on muster.tenancy.

A template is a layer: what it leaves out stays open for the workloads that inherit from it.
"""

from __future__ import annotations

from typing import Final

from muster.api.v1 import templates_pb2 as api
from muster.api.v1 import workloads_pb2
from muster.events.v1 import submission_pb2 as events
from muster_chassis import identity
from muster_chassis.topics import TENANCY
from muster_chassis.unit import Unit
from muster_kernel.ids import check_name
from muster_language import write
from muster_submission.audit import Entry, audit
from muster_submission.domain.access import Verb
from muster_submission.domain.problems import Problem
from muster_submission.errors import DraftRefused, NoSuchTemplate
from muster_submission.handlers.access import Rights
from muster_submission.handlers.drafts import Drafts, Read, Refusal
from muster_submission.handlers.sealing import Sealing
from muster_submission.ports import Base, Templates

EVERYWHERE: Final = "runai"
"""The namespace that a document of a template for all projects names."""


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

    async def save(self, unit: Unit, wanted: Base) -> tuple[Base, workloads_pb2.ApplyOutcome.ValueType]:
        """Makes the template or changes the one of its name, and says so; one that says the same stays as it is."""
        before = await self._templates.current(unit, wanted.project, wanted.name)
        sealed = await self._sealing.template(unit, before, wanted)
        if before is not None and sealed.spec == before.spec:
            return before, workloads_pb2.APPLY_OUTCOME_UNCHANGED
        saved = await self._templates.save(unit, sealed)
        await audit(unit, Entry(Verb.TEMPLATES_WRITE, f"template/{saved.name}", saved.project))
        _tell(unit, saved)
        return saved, workloads_pb2.APPLY_OUTCOME_CHANGED if before else workloads_pb2.APPLY_OUTCOME_CREATED

    async def delete(self, unit: Unit, project: str, name: str) -> None:
        """Removes a template with its credentials; workloads keep what they got from it. Raises NoSuchTemplate."""
        found = await self._templates.current(unit, project, name)
        if found is None:
            raise NoSuchTemplate.named(project, name)
        await self._sealing.forget(unit, found.template_id)
        await self._templates.remove(unit, found)
        await audit(unit, Entry(Verb.TEMPLATES_WRITE, f"template/{name}", project, detail="deleted"))
        unit.publish(TENANCY, f"template/{found.template_id}", None)

    async def document(self, base: Base) -> str:
        """The document of a template, which applies to where the template is."""
        namespace = await self._drafts.namespace(base.project) if base.project else EVERYWHERE
        return write(base.spec, namespace=namespace, metadata_name=base.name)

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


def _tell(unit: Unit, saved: Base) -> None:
    message = events.TemplateChanged(
        template_id=saved.template_id,
        name=saved.name,
        project=saved.project,
        version=saved.version,
        spec=saved.spec,
    )
    unit.publish(TENANCY, f"template/{saved.template_id}", message)


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

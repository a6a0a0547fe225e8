"""What somebody sent, checked as far as it can be alone: a typed spec or a document becomes a Checked, or is refused.

Called for submissions, templates, updates and validation. Refusals are values, so that a bulk call can answer each
item; a single call raises the same refusal as an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import grpc

from muster.api.v1 import workloads_pb2 as api
from muster.tenancy.v1.tenancy_pb2 import Project
from muster.workload.v1 import workload_pb2 as wl
from muster_chassis.errors import PermissionDenied, ServiceError
from muster_kernel.ids import check_name
from muster_language import Violation, check_clusters, check_layer, read
from muster_language.documents.loading import LONGEST_DOCUMENT
from muster_language.sensitive import places
from muster_language.spec import kind_of
from muster_submission.domain.access import Answer, Verb
from muster_submission.domain.names import Given, Naming, Prefixed, naming
from muster_submission.domain.problems import Problem
from muster_submission.domain.secrets import forged
from muster_submission.domain.tenancy import NAMESPACE_PREFIX, namespace_of
from muster_submission.errors import DraftRefused, NameTaken, NoSuchProject, NoSuchTemplate, violations
from muster_submission.handlers.access import Rights
from muster_submission.ports import Base, Templates, Tenancy

LARGEST_SPEC: Final = 256 << 10
"""Bytes of one layer: three of them and the rest of an event fit into a record."""
_ONE: Final = "a draft holds one document: send the others apart"
_DRAFTED: Final = 2  # documents that are read: the second one shows that there are too many
_NAMED: Final = 10  # projects that an error message lists


@dataclass(frozen=True, slots=True)
class Refusal:
    """A draft that is not taken: its code, a sentence, every problem."""

    code: grpc.StatusCode
    message: str
    problems: tuple[Problem, ...] = ()

    def error(self) -> ServiceError:
        """The refusal as the error of a single call."""
        match self.code:
            case grpc.StatusCode.NOT_FOUND if self.problems:
                return NoSuchTemplate(self.message, violations=violations(self.problems))
            case grpc.StatusCode.NOT_FOUND:
                return NoSuchProject(self.message)
            case grpc.StatusCode.ALREADY_EXISTS:
                return NameTaken(self.message, violations=violations(self.problems))
            case grpc.StatusCode.PERMISSION_DENIED:
                return PermissionDenied(self.message)
            case _:
                return DraftRefused("the workload", self.problems)


@dataclass(frozen=True, slots=True)
class Checked:
    """A draft that stands alone: its project, the user's own layer, how it gets its name, what it inherits from."""

    project: Project
    spec: wl.WorkloadSpec
    naming: Naming
    origin: wl.Origin.ValueType
    cluster: str
    base: Base | None = None
    object_name: str = ""  # metadata.name of its document

    @property
    def desired(self) -> int:
        """The number of the desired phase: Stopped where the user said so from the start."""
        held = self.spec.HasField("active") and not self.spec.active
        return wl.DESIRED_PHASE_STOPPED if held else wl.DESIRED_PHASE_RUNNING


def refused(problems: Sequence[Problem]) -> Refusal:
    """A refusal for rules of the language that the draft breaks."""
    count = len(problems)
    return Refusal(
        grpc.StatusCode.INVALID_ARGUMENT, f"{count} error{'s' if count > 1 else ''}, nothing was made", tuple(problems)
    )


@dataclass(frozen=True, slots=True)
class Read:
    """The layer of a draft, the namespace that its document names, and what is wrong with it."""

    spec: wl.WorkloadSpec
    namespace: str
    origin: wl.Origin.ValueType
    problems: list[Problem]
    object_name: str = ""


def read_draft(draft: api.WorkloadDraft, template_fields: Collection[str] = ()) -> Read:
    """The layer in a draft, checked by the language alone. template_fields: what `read` lets through."""
    match draft.WhichOneof("form"):
        case "spec":
            problems = [_problem(one) for one in check_layer(draft.spec)]
            return Read(draft.spec, "", wl.ORIGIN_GRPC, [*problems, *_too_large(draft.spec), *_forged(draft.spec)])
        case "yaml":
            return _read_yaml(draft.yaml, template_fields)
        case _:
            nothing = Problem("draft", "there is neither a spec nor a document: give one of them")
            return Read(wl.WorkloadSpec(), "", wl.ORIGIN_GRPC, [nothing])


def _read_yaml(text: str, template_fields: Collection[str]) -> Read:
    if len(text) > LONGEST_DOCUMENT:
        told = Problem("", f"the document has {len(text)} characters: at most {LONGEST_DOCUMENT} are allowed")
        return Read(wl.WorkloadSpec(), "", wl.ORIGIN_YAML, [told])
    documents = read(text, template_fields=template_fields, most=_DRAFTED)
    first = documents[0]
    problems = [_problem(one) for one in first.violations]
    problems.extend(Problem("", _ONE, second.line, 1) for second in documents[1:])
    problems.extend((*_too_large(first.spec), *_forged(first.spec)))
    return Read(first.spec, first.namespace or "", wl.ORIGIN_YAML, problems, first.object_name)


def _problem(found: Violation) -> Problem:
    return Problem(found.path, found.text, found.line, found.column)


def _too_large(spec: wl.WorkloadSpec) -> Iterable[Problem]:
    size = spec.ByteSize()
    if size > LARGEST_SPEC:
        yield Problem("spec", f"the spec has {size} bytes; at most {LARGEST_SPEC} are allowed")


def _forged(spec: wl.WorkloadSpec) -> Iterable[Problem]:
    """References to sealed credentials, which nobody may write: they could name somebody else's."""
    for place in places(spec):
        if why := forged(place.text):
            yield Problem(place.where, why)


class Drafts:
    """Checks drafts against what is there: projects and templates."""

    def __init__(self, tenancy: Tenancy, templates: Templates, template_fields: Collection[str] = ()) -> None:
        """template_fields: members of pod templates that the operator lets through without effect."""
        self._tenancy = tenancy
        self._templates = templates
        self._template_fields = template_fields

    def read(self, draft: api.WorkloadDraft) -> Read:
        """The layer in a draft, checked by the language alone."""
        return read_draft(draft, self._template_fields)

    async def check(
        self, drafts: Sequence[api.WorkloadDraft], rights: Rights, verb: Verb = Verb.WORKLOADS_CREATE
    ) -> list[Checked | Refusal]:
        """An answer for each draft, in order. Templates are looked up for all of them at once.

        rights, verb: who wants to do what in the projects of the drafts; a project that they may not see is not there.
        """
        found = []
        for draft in drafts:
            found.append(await self._one(draft, rights, verb))
            if draft.WhichOneof("form") == "yaml":
                await asyncio.sleep(0)  # a document may take 0.2 s of this thread: others come in between
        wanted = {
            (one.project.name, one.spec.base_workload)
            for one in found
            if isinstance(one, Checked) and one.spec.base_workload
        }
        if not wanted:
            return found
        bases = await self._templates.find(wanted)
        return [_with_base(one, bases) if isinstance(one, Checked) else one for one in found]

    async def _one(self, draft: api.WorkloadDraft, rights: Rights, verb: Verb) -> Checked | Refusal:
        layer = self.read(draft)
        spec, problems = layer.spec, list(layer.problems)
        if spec.usage == wl.USAGE_TEMPLATE:
            problems.append(Problem("spec.usage", "this is a template: apply it as one, or leave usage out"))
        named = naming(spec.name or None, spec.name_prefix or None)
        if isinstance(named, Problem) and not _said(problems, ("name", "namePrefix")):
            problems.append(Problem(f"spec.{named.path}", named.message))
        problems.extend(_clusters(draft.cluster, spec))
        project = await self.project(draft.project, layer.namespace, rights, verb)
        if isinstance(project, Problem):
            problems.append(project)
        # What the language says comes first: a person mends the document in one go.
        if problems or isinstance(named, Problem) or isinstance(project, Problem):
            return refused(problems)
        if isinstance(project, Refusal):
            return project
        return Checked(project, spec, named, layer.origin, draft.cluster, object_name=layer.object_name)

    async def project(
        self, name: str, namespace: str, rights: Rights | None = None, verb: Verb = Verb.PROJECTS_READ
    ) -> Project | Refusal | Problem:
        """The project that a draft names, or its document's namespace; without rights the caller judges it himself."""
        if not name and not namespace:
            return Problem("project", "no project is named: give one, or a namespace in the document's metadata")
        found = await self._tenancy.project(name) if name else await self._tenancy.project_of_namespace(namespace)
        judged = None if found is None or rights is None else rights.judge(verb, project=found.name)
        if found is None or judged is Answer.HIDDEN:
            return await self._no_project(name, namespace, rights)
        if rights is not None and judged is Answer.FORBIDDEN:
            return Refusal(grpc.StatusCode.PERMISSION_DENIED, rights.refusal(verb, project=found.name))
        if namespace and found.namespace != namespace:
            return Problem(
                "metadata.namespace",
                f"{namespace!r} is not the namespace of project {found.name}, which is {found.namespace!r}",
            )
        return found

    async def namespace(self, project: str) -> str:
        """The namespace that a document of that project names; empty where there is no such project any more."""
        found = await self._tenancy.project(project)
        return found.namespace if found else ""

    async def _no_project(self, name: str, namespace: str, rights: Rights | None) -> Refusal:
        seen = frozenset[str]() if rights is None else rights.projects(Verb.PROJECTS_READ)
        names = await self._tenancy.some_names() if seen is None else sorted(seen)[:_NAMED]
        there = f"there are {', '.join(names)}" if names else "there is none that you may see"
        hint = f"`{_making(name, namespace)}` makes it"
        if not name and namespace in names:
            hint = f"{namespace!r} is a project's name: its namespace goes here, or its name as the project"
        what = f"project {name!r} does not exist" if name else f"no project has the namespace {namespace!r}"
        return Refusal(grpc.StatusCode.NOT_FOUND, f"{what}; {there}. {hint}")

    async def base(self, project: str, name: str) -> Base | None:
        """The template of that name for a project: its own, else the global one."""
        return (await self._templates.find([(project, name)])).get((project, name))


def _making(name: str, namespace: str) -> str:
    """The command that makes the project that is missing, known by its name or else by its namespace."""
    if name:
        return f"muster projects create {name}"
    short = namespace.removeprefix(NAMESPACE_PREFIX)
    follows = short and namespace_of(short, "") == namespace
    return f"muster projects create {short}" if follows else f"muster projects create NAME --namespace {namespace}"


def _with_base(one: Checked, bases: dict[tuple[str, str], Base]) -> Checked | Refusal:
    name = one.spec.base_workload
    if not name:
        return one
    base = bases.get((one.project.name, name))
    if base is None:
        message = (
            f"template {name!r} does not exist in project {one.project.name}, and no global one does; "
            "`muster templates list` shows what there is"
        )
        return Refusal(grpc.StatusCode.NOT_FOUND, message, (Problem("spec.baseWorkload", message),))
    if base.spec.kind != one.spec.kind:
        message = f"template {name!r} is of kind {kind_word(base.spec)}, the workload of kind {kind_word(one.spec)}"
        return refused([Problem("spec.baseWorkload", f"{message}: they have to be the same")])
    return replace(one, base=base)


def kind_word(spec: wl.WorkloadSpec) -> str:
    """The kind of a spec as documents call it."""
    known = kind_of(spec)
    return known.document if known else str(spec.kind)


def _clusters(cluster: str, spec: wl.WorkloadSpec) -> Iterable[Problem]:
    """What is wrong with the clusters of the draft itself; what defaults and templates say of them is for policy."""
    if cluster:
        try:
            check_name(cluster)
        except ValueError as error:
            yield Problem("cluster", str(error))
    for issue in check_clusters(spec, cluster):
        yield Problem(f"spec.{issue.path}", issue.details)


def _said(problems: Iterable[Problem], fields: Sequence[str]) -> bool:
    """Whether the language has already spoken about one of these fields."""
    return any(field in problem.path.split(".") for problem in problems for field in fields)


__all__ = [
    "LARGEST_SPEC",
    "Checked",
    "Drafts",
    "Given",
    "Prefixed",
    "Read",
    "Refusal",
    "kind_word",
    "read_draft",
    "refused",
]

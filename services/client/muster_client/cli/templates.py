"""Verbs about templates."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from cyclopts import Parameter

from muster_client.cli.documents import Files, Piece, read_files, refused
from muster_client.cli.exits import Exit
from muster_client.cli.options import Common
from muster_client.cli.output import emit, say
from muster_client.cli.render import tables
from muster_client.drafts import AppliedTemplate
from muster_client.errors import MusterError
from muster_client.muster import Muster

_NO_OPTIONS = Common()
Everywhere = Annotated[bool, Parameter(name="--global", negative="")]
GLOBAL: Final = "runai"
"""The namespace of templates that every project may use."""


async def list_templates(*, common: Common = _NO_OPTIONS) -> int:
    """Lists the templates of a project and the global ones."""
    async with common.muster() as muster:
        found = [each async for each in muster.templates.list(project=common.project or "")]
    if common.json:
        emit(found)
    else:
        say(tables.templates(found) if found else "no templates; `muster templates apply -f FILE` makes one")
    return Exit.OK


async def get_template(
    name: str,
    *,
    output: Annotated[Literal["table", "yaml", "json"], Parameter(name=["--output", "-o"])] = "table",
    everywhere: Everywhere = False,
    common: Common = _NO_OPTIONS,
) -> int:
    """Shows the template from which a project's workloads inherit under a name: its own, else the one for all.

    Args:
        name: The template.
        output: A table, its document (yaml), or everything (json).
        everywhere: The one for all projects.
        common: Connection.
    """
    async with common.muster() as muster:
        found = await muster.templates.get(name, project="" if everywhere else await common.project_for(muster))
    if output == "json" or common.json:
        emit(found.template)
    elif output == "yaml":
        say(found.yaml.rstrip("\n"))
    else:
        say(tables.templates([found.template]))
    return Exit.OK


async def delete_template(name: str, *, everywhere: Everywhere = False, common: Common = _NO_OPTIONS) -> int:
    """Removes a template with its credentials. Workloads that were made from it stay as they are.

    Args:
        name: The template.
        everywhere: The one for all projects.
        common: Connection.
    """
    async with common.muster() as muster:
        project = "" if everywhere else await common.project_for(muster)
        await muster.templates.delete(name, project=project)
    if common.json:
        emit({"deleted": name, "project": project})
    else:
        say(f"template {name} of {project or 'all projects'} is gone")
    return Exit.OK


async def apply_templates(
    *,
    file: Files,
    everywhere: Everywhere = False,
    common: Common = _NO_OPTIONS,
) -> int:
    """Makes or changes the templates of the files.

    Args:
        file: Files of documents with `usage: Template`; - reads standard input.
        everywhere: For all projects, as the namespace runai says it too.
        common: Connection.
    """
    made = []
    async with common.muster() as muster:
        for piece in read_files(file, done="no template was applied"):
            try:
                made.append(await apply_template(muster, piece, common, everywhere=everywhere))
            except MusterError as problem:
                raise refused(piece, problem, done="this template was not applied") from None
    if common.json:
        emit([each.template for each in made])
    else:
        for each in made:
            say(line_of(each))
    return Exit.OK


async def apply_template(
    muster: Muster, piece: Piece, common: Common, *, everywhere: bool = False, key: str | None = None
) -> AppliedTemplate:
    """Makes or changes the template of a document: for all projects where it says so, else for its own."""
    everywhere = everywhere or (piece.document.namespace == GLOBAL and not common.project)
    project = "" if everywhere else await common.project_for(muster, piece.document.namespace)
    return await muster.templates.apply(piece.text, project=project, everywhere=everywhere, key=key)


def line_of(made: AppliedTemplate) -> str:
    """What a person is told of a template that was applied."""
    one = made.template
    return f"template {one.name} in {one.project or 'all projects'}: {made.outcome} (version {one.version})"

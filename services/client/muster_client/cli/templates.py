"""Verbs about templates."""

from __future__ import annotations

from typing import Annotated, Final

from cyclopts import Parameter

from muster.api.v1 import templates_pb2
from muster_client.cli.documents import Files, Piece, read_files, refused
from muster_client.cli.exits import Exit
from muster_client.cli.options import Common
from muster_client.cli.output import emit, say
from muster_client.cli.render import tables
from muster_client.errors import MusterError
from muster_client.muster import Muster

_NO_OPTIONS = Common()
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


async def apply_templates(
    *,
    file: Files,
    everywhere: Annotated[bool, Parameter(name="--global", negative="")] = False,
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
        emit(made)
    else:
        for each in made:
            say(line_of(each))
    return Exit.OK


async def apply_template(
    muster: Muster, piece: Piece, common: Common, *, everywhere: bool = False, key: str | None = None
) -> templates_pb2.Template:
    """Makes or changes the template of a document: for all projects where it says so, else for its own."""
    everywhere = everywhere or (piece.document.namespace == GLOBAL and not common.project)
    project = "" if everywhere else await common.project_for(muster, piece.document.namespace)
    return await muster.templates.apply(piece.text, project=project, everywhere=everywhere, key=key)


def line_of(made: templates_pb2.Template) -> str:
    """What a person is told of a template."""
    return f"template {made.name} in {made.project or 'all projects'}: version {made.version}"

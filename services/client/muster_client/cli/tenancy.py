"""Verbs about templates."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from muster_client.cli.documents import read_files, refused
from muster_client.cli.exits import Exit
from muster_client.cli.options import Common
from muster_client.cli.output import emit, say
from muster_client.cli.render import tables
from muster_client.errors import MusterError

_NO_OPTIONS = Common()
Files = Annotated[list[Path], Parameter(name=["--file", "-f"], negative="")]


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
        file: A file of documents with `usage: Template`; - reads standard input. May be given several times.
        everywhere: For all projects.
        common: Connection.
    """
    made = []
    async with common.muster() as muster:
        for piece in read_files(file, done="no template was applied"):
            project = "" if everywhere else await common.project_for(muster, piece.document.namespace)
            try:
                made.append(await muster.templates.apply(piece.text, project=project, everywhere=everywhere))
            except MusterError as problem:
                raise refused(piece, problem, done="this template was not applied") from None
    if common.json:
        emit(made)
    else:
        for each in made:
            say(f"template {each.name} in {each.project or 'all projects'}: version {each.version}")
    return Exit.OK

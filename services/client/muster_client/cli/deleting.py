"""`muster delete`: by name, by the documents of files, by labels, or all.

Holds: each workload is reported; one that cannot be deleted does not keep the others; what is not named one by one is
shown and confirmed first, and a command deletes a bounded number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from cyclopts import Parameter

from muster.workload.v1 import workload_pb2
from muster_client.cli.documents import read_files
from muster_client.cli.exits import Exit, exit_of
from muster_client.cli.failures import failure_json, show_failure
from muster_client.cli.options import Common
from muster_client.cli.output import emit, note, say
from muster_client.cli.render.plain import plain
from muster_client.cli.selecting import Selectors, confirmed, selected, selectors
from muster_client.cli.templates import GLOBAL
from muster_client.errors import InvalidInput, MusterError
from muster_client.muster import Muster
from muster_client.phases import Phase
from muster_client.words import phase_of, phase_word

_NO_OPTIONS = Common()
_MOST: Final = 1000
"""Workloads that one command deletes."""
_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class _Target:
    """What is deleted. project: where `name` is looked up; empty: as the options say.

    id: of a workload that was listed, because another one may take its name meanwhile.
    """

    name: str
    project: str = ""
    template: bool = False
    id: str = ""

    @property
    def said(self) -> str:
        """For the confirmation."""
        return f"{'template ' if self.template else ''}{self.name} in {self.project or 'all projects'}"


async def delete(
    *names: str,
    file: Annotated[list[Path] | None, Parameter(name=["--file", "-f"], consume_multiple=True, negative="")] = None,
    selector: Selectors = None,
    all_workloads: Annotated[bool, Parameter(name="--all", negative="")] = False,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative="")] = False,
    wait: bool = False,
    timeout: float | None = None,
    common: Common = _NO_OPTIONS,
) -> int:
    """Deletes workloads; what still runs of them is stopped.

    Names are deleted at once. What -f, -l or --all means is shown first and has to be confirmed, or --yes be given; at
    most 1,000 at a time.

    Args:
        names: Names or ids.
        file: The workloads and templates of these files, by project and metadata.name; - reads standard input.
        selector: Workloads with these labels: key=value, key!=value, key; several by commas.
        all_workloads: All workloads of the project (-p); without a project of all that you may see.
        yes: Do not ask.
        wait: Wait until nothing of them is left.
        timeout: Seconds to wait at most for each; exit 4 afterwards.
        common: Connection.
    """
    ways = [bool(names), bool(file), bool(selector), all_workloads]
    if ways.count(True) != 1:
        raise InvalidInput("say what to delete in one way: names, -f FILE, -l SELECTOR or --all")
    async with common.muster() as muster:
        if names:
            targets = [_Target(name, common.project or "") for name in names]
        elif file:
            targets = await _of_files(muster, file, common)
        else:
            targets = await _listed(muster, selector, common)
        if not targets:
            note("nothing to delete")
            return _told([], [], common)
        if not names and not yes and not confirmed(f"delete {_counted(targets)}", [each.said for each in targets]):
            raise InvalidInput("nothing was deleted")
        return await _delete(muster, targets, common, wait=wait, timeout=timeout)


def _counted(targets: Sequence[_Target]) -> str:
    templates = sum(each.template for each in targets)
    parts = [(len(targets) - templates, "workload"), (templates, "template")]
    return " and ".join(f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in parts if count)


async def _of_files(muster: Muster, files: Sequence[Path], common: Common) -> list[_Target]:
    """What the documents of files name. Raises InvalidInput for one without a name."""
    targets: list[_Target] = []
    for piece in read_files(files, done="nothing was deleted"):
        document = piece.document
        if not document.object_name:
            place = f"{piece.source}:{document.line}"
            raise InvalidInput(f"{place}: no metadata.name, so it names no workload; nothing was deleted")
        template = document.spec.usage == workload_pb2.USAGE_TEMPLATE
        everywhere = template and document.namespace == GLOBAL and not common.project
        project = "" if everywhere else await _project_of(muster, document.namespace, common)
        targets.append(_Target(document.object_name, project, template))
    return targets


async def _project_of(muster: Muster, namespace: str | None, common: Common) -> str:
    """The project of a document: its namespace's, as where it is applied."""
    project = await common.project_for(muster, namespace)
    if project or not namespace:
        return project
    found = [each.name async for each in muster.projects.list() if each.namespace == namespace]
    return found[0] if found else namespace.removeprefix("runai-")


async def _listed(muster: Muster, texts: Sequence[str] | None, common: Common) -> list[_Target]:
    """The workloads that a selector takes, or all; at most as many as one command deletes."""
    wanted = selectors(texts)
    targets: list[_Target] = []
    async for each in muster.list(project=common.project or ""):
        if not selected(each, wanted):
            continue
        if len(targets) == _MOST:
            note(f"only the newest {_MOST} are deleted by one command: repeat it for the others")
            break
        targets.append(_Target(each.name, each.project, id=each.id))
    return targets


async def _delete(
    muster: Muster, targets: Sequence[_Target], common: Common, *, wait: bool, timeout: float | None
) -> int:
    """Deletes all of them, some at a time, and says each as it is done."""
    done: list[dict[str, Any]] = []
    failed: list[MusterError] = []
    places = asyncio.Semaphore(_AT_ONCE)

    async def one(target: _Target) -> None:
        async with places:
            try:
                text, told = await _gone(muster, target, common, wait=wait, timeout=timeout)
            except MusterError as problem:
                failed.append(problem)
                if not common.json:
                    show_failure(problem, as_json=False)
                return
            done.append(told)
            if not common.json:
                say(text)

    async with asyncio.TaskGroup() as group:
        for target in targets:
            group.create_task(one(target))
    return _told(done, failed, common)


def _told(done: Sequence[dict[str, Any]], failed: Sequence[MusterError], common: Common) -> int:
    if common.json:
        emit([*done, *({"error": failure_json(each)} for each in failed)])
    return exit_of(failed[0]) if failed else Exit.OK


async def _gone(
    muster: Muster, target: _Target, common: Common, *, wait: bool, timeout: float | None
) -> tuple[str, dict[str, Any]]:
    """The line and the JSON of one deletion. Raises MusterError."""
    if target.template:
        await muster.templates.delete(target.name, project=target.project)
        return f"template {target.name}: deleted", {"template": target.name, "project": target.project}
    found = target.id or target.name
    project = target.project
    if not target.id and not project:
        found = await common.id_of(muster, target.name)
    shown = await muster.delete(found, project=project)
    if wait:
        shown = await muster.wait(shown.id, phases={Phase.DELETED}, timeout=timeout)
    reached = phase_of(shown) is Phase.DELETED
    phase = phase_word(shown.phase)
    return f"{shown.name}: {phase if wait or reached else f'deletion requested (it is {phase})'}", plain(shown)

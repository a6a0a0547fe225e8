"""Options that every verb takes, and the session that they open.

Called by every verb. Holds: where the control plane is and which project is meant is decided here alone, in this
order: the option, the environment, what the document or the machine says.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Final

from cyclopts import Group, Parameter

from muster_client.calls import Patience
from muster_client.cli.output import note
from muster_client.errors import InvalidInput, MusterError, NotFound
from muster_client.muster import Muster
from muster_kernel.ids import is_uuid

CONNECTION: Final = Group("Connection", sort_key=90)
DEFAULT_PROJECT: Final = "default"
_SHOWN: Final = 10  # names of projects in an error


@Parameter(name="*", group=CONNECTION)
@dataclass(frozen=True, slots=True)
class Common:
    """Options of every verb."""

    server: Annotated[str | None, Parameter(name="--server", env_var="MUSTER_SERVER")] = None
    """Address of the control plane, HOST:PORT, or https://HOST:PORT for TLS; else the stack on this machine."""
    token: Annotated[str | None, Parameter(name="--token", env_var="MUSTER_TOKEN")] = None
    """Bearer token; a local stack asks for none."""
    project: Annotated[str | None, Parameter(name=["--project", "-p"], env_var="MUSTER_PROJECT")] = None
    """Project; else what the document's namespace says, or the only one there is."""
    retry: Annotated[float, Parameter(name="--retry")] = 15.0
    """Seconds for which a control plane that does not answer is asked again."""
    json: Annotated[bool, Parameter(name="--json", negative="")] = False
    """Pure JSON for programs, on stdout; errors as JSON on stderr."""

    @asynccontextmanager
    async def muster(self) -> AsyncIterator[Muster]:
        """A client by these options.

        It says on stderr, once, when it waits for a control plane that does not answer.
        """
        told: list[str] = []

        def waiting(problem: MusterError) -> None:
            if not told and not self.json:
                note(f"{problem.message}; asking again for {self.retry:g} s")
            told.append(problem.message)

        async with Muster(self.server, self.token, patience=Patience(whole=self.retry), on_retry=waiting) as muster:
            yield muster

    async def id_of(self, muster: Muster, workload: str) -> str:
        """The id of the workload that a person names.

        Raises NotFound, or InvalidInput where several projects have it.
        """
        if is_uuid(workload):
            return workload
        if self.project:
            return (await muster.get(workload, project=self.project)).id
        found = [each async for each in muster.list(name_prefix=workload) if each.name == workload]
        if not found:
            raise NotFound(f"{workload}: no project has a workload of this name; `muster list` shows what there is")
        if len(found) > 1:
            projects = ", ".join(sorted(each.project for each in found))
            raise InvalidInput(f"{workload}: several projects have one ({projects}); say which with --project")
        return found[0].id

    async def project_for(self, muster: Muster, namespace: str | None = None) -> str:
        """The project for something new; empty where the document's namespace says it.

        Raises InvalidInput where nothing says it and there are several.
        """
        if self.project:
            return self.project
        if namespace:
            return ""
        names = [each.name async for each in muster.projects.list()]
        if not names or DEFAULT_PROJECT in names:
            return DEFAULT_PROJECT  # where there is none at all, the answer is how to make it
        if len(names) > 1:
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            raise InvalidInput(f"no project is named; name one with -p: {', '.join(sorted(names)[:_SHOWN])}{more}")
        return names[0]

"""Making a workload by REST: the body, the rights, one transaction, and up to five seconds for policy's verdict.

Called by routes/workloads.py for all four kinds. Holds: a body that repeats within two minutes without a key makes one
workload as long as that one is there, since the vendor's client sends a create again after 401, 429 and 5xx; nothing
that fails after the commit makes an error of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import asyncpg
import msgspec

from muster.api.v1 import workloads_pb2 as api
from muster.workload.v1 import workload_pb2 as wl
from muster_chassis import logs
from muster_chassis.database import TRANSIENT
from muster_chassis.errors import AlreadyExists, ServiceError, Violation
from muster_chassis.rpc import caller, once
from muster_chassis.text import clean
from muster_chassis.unit import Unit
from muster_language import Kind
from muster_language.rest.bodies import Body, read_body
from muster_submission.domain.fleet import ANY_CLUSTER
from muster_submission.domain.problems import Problem
from muster_submission.domain.progress import REFUSED
from muster_submission.domain.requests import Request as Wish
from muster_submission.errors import DraftRefused
from muster_submission.handlers.drafts import Checked, Refusal
from muster_submission.rest.envelope import is_gone
from muster_submission.rest.errors import PolicyRefuses
from muster_submission.rest.parts import Parts
from muster_submission.rest.requests import number_of
from muster_submission.rpc.applying import creating
from muster_submission.rpc.judging import judged
from muster_submission.rpc.reading import owner

_log = logs.get(__name__)
_WAIT: Final = 5.0  # seconds for policy's verdict
_LOOK: Final = 0.05  # seconds between two looks whether a refused workload is gone
_LOOKS: Final = 40
_DAY: Final = timedelta(hours=24)
_REPEATS: Final = timedelta(minutes=2)
_MOST: Final = 50  # workloads of one body, each deleted before the next, within that time


class Creation:
    """Makes workloads."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def create(self, kind: Kind, said: Mapping[str, Any], key: str | None) -> tuple[wl.Workload, Sequence[str]]:
        """The workload and what of its body was ignored. Raises DraftRefused, PolicyRefuses and what drafts raise."""
        body = read_body(kind, said)
        checked = await self._checked(body)
        draft = api.WorkloadDraft(project=checked.project.name, cluster=checked.cluster, spec=checked.spec)
        made = await self._once(checked, draft, kind, said, key)
        shown, verdict = await judged(self._parts.reading, self._parts.verdicts, made, _WAIT)
        if verdict == REFUSED:
            await self._withdraw(made.id)
            raise PolicyRefuses(shown.issues)
        return shown, body.warnings

    async def _withdraw(self, workload_id: str) -> None:
        """Deletes what policy refused, and waits a little for it: a create that fails leaves nothing in lists.

        The audit and the history keep it. Never fails: the caller is to hear what policy said; what is asked here is
        done as soon as the scheduler is there.
        """
        try:
            async with self._parts.database.unit() as unit:
                await self._parts.intents.ask(unit, Wish.DELETE, workload_id, clean(caller().subject, 500))
            for _ in range(_LOOKS):
                if await self._gone(workload_id):
                    return
                await asyncio.sleep(_LOOK)
        except (*TRANSIENT, asyncpg.PostgresError, ServiceError, TimeoutError) as error:
            _log.warning("a refused workload cannot be deleted", workload=workload_id, error=repr(error))

    async def _gone(self, workload_id: str) -> bool:
        shown = await self._parts.reading.by_id(workload_id)
        return shown is None or shown.phase == wl.PHASE_DELETED

    async def _checked(self, body: Body) -> Checked:
        """The draft with its project and cluster; every error of the body at once."""
        problems = [Problem(one.path, one.text) for one in body.violations]
        project = await self._project(body.project_id) if body.project_id else ""
        if project is None:
            problems.append(Problem("projectId", f"there is no project {body.project_id[:80]!r} that you may see"))
        cluster = await self._cluster(body.cluster_id) if body.cluster_id else ""
        if cluster is None:
            problems.append(Problem("clusterId", f"there is no cluster {body.cluster_id[:80]!r}"))
        if problems or not project:
            raise DraftRefused("the workload", problems)
        rights = await self._parts.access.rights(caller())
        draft = api.WorkloadDraft(project=project, cluster=cluster or "", spec=body.spec)
        (checked,) = await self._parts.drafts.check([draft], rights)
        if isinstance(checked, Refusal):
            raise refusal(checked, body.project_id)
        return replace(checked, origin=wl.ORIGIN_REST)

    async def _project(self, given: str) -> str | None:
        """The project's name: its number is given, or the name itself."""
        number = number_of(given)
        found = None if number is None else await self._parts.tenancy.project_by_id(number)
        found = found or (None if "\x00" in given else await self._parts.tenancy.project(given))
        return None if found is None else found.name

    async def _cluster(self, given: str) -> str | None:
        return "" if given == ANY_CLUSTER else await self._parts.fleet.cluster_of_uuid(given.lower())

    async def _once(
        self, checked: Checked, draft: api.WorkloadDraft, kind: Kind, said: Mapping[str, Any], key: str | None
    ) -> wl.Workload:
        """Makes it, or finds what the same call made before."""
        request = api.SubmitWorkloadRequest(draft=draft)
        if key is not None:
            return await self._make(checked, request, "RestCreate", key, _DAY)
        name = digest = self._parts.database.fingerprints.of(_content(kind, said)).hex()
        for _ in range(_MOST):
            made = await self._make(checked, request, "RestRepeat", name, _REPEATS)
            shown, verdict = await self._parts.reading.with_verdict(made.id)
            if shown is None or not is_gone(shown, verdict):
                return made
            # The one that this body made is gone: it is asked for anew, and not a repetition.
            name = f"{digest}:{made.id}"
        raise AlreadyExists(f"this body made {_MOST} workloads within two minutes; send an Idempotency-Key to go on")

    async def _make(
        self, checked: Checked, request: api.SubmitWorkloadRequest, method: str, key: str, window: timedelta
    ) -> wl.Workload:
        who = owner()

        async def work(unit: Unit) -> api.SubmitWorkloadResponse:
            (answer,) = await self._parts.submit.make(unit, [checked], who)
            if isinstance(answer, Refusal):
                raise refusal(answer, checked.project.name)
            return api.SubmitWorkloadResponse(workload=creating(unit, answer, checked, who))

        response = api.SubmitWorkloadResponse
        made = await once(self._parts.database, method, request, response, work, key=key, window=window)
        return made.workload


def refusal(refused: Refusal, project: str) -> Exception:
    """A refusal in REST's words: a project that is hidden or not there is an error of the body."""
    if refused.code.name == "NOT_FOUND":
        return DraftRefused("the workload", [Problem("projectId", f"there is no project {project!r} that you may see")])
    error = refused.error()
    error.violations = tuple(Violation(_member(one.field), one.description) for one in error.violations)
    return error


def _member(path: str) -> str:
    return "name" if path in {"spec.name", "spec.namePrefix"} else path


def _content(kind: Kind, said: Mapping[str, Any]) -> bytes:
    """What makes two bodies the same."""
    return msgspec.json.encode([kind.word, said], order="deterministic")

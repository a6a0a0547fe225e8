"""A9: a researcher asks `why`, and what if, for the figures of a department that he may not see."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2
from muster_client import Phase
from muster_client.drafts import draft_of
from muster_client.quotas import pool_quota
from tests.attacks.attack import Actor, Attack, Verdict, broken, held
from tests.attacks.stage import Stage, python

_SLEEP: Final = python("import time; time.sleep(600)")
_DESERVED: Final = 29  # GPUs of the department: a number that no other quota of the stack has
_WAITS: Final = 15.0  # seconds
_FIGURES: Final = re.compile(r"department \S+ (holds|uses|wants|deserve[sd] \d)|of the \d+ GPUs that the department")
_PROOF: Final = "tests/rules/test_attacks_seen.py::test_a_departments_figures_are_told_once_nothing_asks_who_reads"


def _training(gpus: int) -> workload_pb2.WorkloadSpec:
    return workload_pb2.WorkloadSpec(
        kind=options_pb2.KIND_TRAINING,
        name=f"a9-{time.time_ns()}",
        image="python",
        command=_SLEEP,
        gpu_devices_request=gpus,
        priority_class="build",  # of a training: not preemptible
    )


@asynccontextmanager
async def _bounded(stage: Stage) -> AsyncIterator[None]:
    """The project's department has a quota while this lasts, and none afterwards."""
    async with stage.admin() as admin:
        department = (await admin.projects.get(stage.project)).department
        before = await admin.departments.get(department)
        await admin.departments.set_quota(department, pool_quota("default", _DESERVED))
        try:
            yield
        finally:
            before.version = (await admin.departments.get(department)).version
            await admin.departments.update(before, ["quotas"])


async def _why(stage: Stage) -> Verdict:
    async with _bounded(stage), stage.client(Actor.RESEARCHER) as muster:
        made = await muster.submit(_training(8), project=stage.project)  # of 4 that the project deserves
        try:
            await muster.wait(made.id, phases=[Phase.PENDING], timeout=_WAITS)
            return _judged(str(await muster.why(made.id)))
        finally:
            await muster.delete(made.id)
            await muster.wait(made.id, phases=[Phase.DELETED], timeout=_WAITS)


async def _what_if(stage: Stage) -> Verdict:
    async with _bounded(stage), stage.client(Actor.RESEARCHER) as muster:
        return _judged(str(await muster.what_if([draft_of(_training(8), stage.project)])))


def _judged(shown: str) -> Verdict:
    found = _FIGURES.search(shown)
    if found or "department: true" in shown:
        return broken(f"the answer tells of the department: {found[0] if found else 'a share'}")
    return held("no figure of the department is in the answer")


ATTACKS: Final = (
    Attack("A9", "department-by-why", Actor.RESEARCHER, _why, _PROOF),
    Attack("A9", "department-by-what-if", Actor.RESEARCHER, _what_if, _PROOF),
)

"""Does what "It would start now if .." says, line by line, on a small fleet: to see whether it is true.

Used by the law of that (tests/properties/scheduler/test_advice.py). A line is all that has to be so together; what
nobody can do (that there was room, that nodes joined) is not done: `undoable`.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from muster_kernel.quantities import GPU
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.quotas import NO_QUOTA, Quota
from muster_scheduler.domain.asked.requests import charge_of
from muster_scheduler.domain.asked.workloads import ReplicaState, Request
from muster_scheduler.domain.books.queues import Department, Project
from tests.support.fleets import Fleet

_AGAIN: Final = 100
_NAMES: Final = r"((?:w\d+|, | and )+)"
_RIVALS: Final = re.compile(_NAMES + r" did not take the place first")
_ENDED: Final = re.compile(r"^" + _NAMES + r"(?: \([^)]*\))? ended")
_ALLOWED: Final = re.compile(r"(department )?(\w+) (deserved|might hold) ([\d.]+) GPUs? in node pool (\w+)")
_WEIGHT: Final = re.compile(r"(department )?(\w+) had a weight above 0 for what nobody deserves in node pool (\w+)")
_FEWER: Final = re.compile(r"it had at most (\d+) replicas?(?: of (\w+))?")
_LESS: Final = re.compile(r"it asked for at most (\d+) GPUs? on one node")
_POOL: Final = re.compile(r"it asked for node pool (\w+)")


class Quotas(NamedTuple):
    """What is deserved and allowed, by pool: of each project, and of each department."""

    projects: dict[str, tuple[str, dict[str, Quota]]]
    departments: dict[str, dict[str, Quota]]

    def told(self) -> list[events.Event]:
        """The events that say so."""
        departments = [events.DepartmentChanged(Department(name, of, 0)) for name, of in self.departments.items()]
        return [*departments, *(events.ProjectChanged(Project(n, d, of, 0)) for n, (d, of) in self.projects.items())]

    def of(self, name: str, *, department: bool) -> dict[str, Quota]:
        """By pool."""
        return self.departments[name] if department else self.projects[name][1]


def undoable(line: str) -> bool:
    """Whether it says something that a test cannot do."""
    return any(words in line for words in ("there was room", " joined node pool", " more ", "none of those"))


def do(fleet: Fleet, quotas: Quotas, number: int, line: str) -> int:
    """Does all that the line says: all at once, and who would come first is deleted.

    The number of the workload that is to start: a new one where it asks for something else, which stands where it did.
    """
    old = fleet.workload(number)
    asked = _asked(old.request, line)
    deleted = [fleet.workload(each) for each in _numbers(_RIVALS, line)] + ([old] if asked else [])
    made: list[events.Event] = [events.DeletionRequested(f"delete-{each.id}", each.id) for each in deleted]
    if asked is not None:
        number += _AGAIN
        made.append(fleet.admitted(number, asked, project=old.project)._replace(submitted=old.submitted))
    fleet.send(*made, *_allowed(quotas, line), *_ended(fleet, _numbers(_ENDED, line)))
    return number


def _allowed(quotas: Quotas, line: str) -> list[events.Event]:
    """The quotas as the line wants them."""
    projects = {name: (department, dict(of)) for name, (department, of) in quotas.projects.items()}
    allowed = Quotas(projects, {name: dict(of) for name, of in quotas.departments.items()})
    for above, name, verb, amount, pool in _ALLOWED.findall(line):
        of, units = allowed.of(name, department=bool(above)), round(float(amount) * GPU)
        quota = of.get(pool, NO_QUOTA)
        of[pool] = quota._replace(deserved=units) if verb == "deserved" else quota._replace(limit=units)
    for above, name, pool in _WEIGHT.findall(line):
        of = allowed.of(name, department=bool(above))
        of[pool] = of.get(pool, NO_QUOTA)._replace(weight=1000)
    return [] if allowed == quotas else allowed.told()


def _numbers(pattern: re.Pattern[str], line: str) -> list[int]:
    found = pattern.search(line)
    return [int(each) for each in re.findall(r"w(\d+)", found[1])] if found else []


def _asked(request: Request | None, line: str) -> Request | None:
    """The request that the line speaks of; None: the one that it has."""
    if request is None:
        return None
    asked = request
    if "it were preemptible" in line:
        asked = asked._replace(preemptible=True)
    for pool in _POOL.findall(line):
        asked = asked._replace(pools=(pool,))
    for most, name in _FEWER.findall(line):
        roles = (r._replace(size=int(most)) if name in {"", r.name} else r for r in asked.roles)
        asked = asked._replace(roles=tuple(roles))
    for most in _LESS.findall(line):
        shapes = [(r, r.shape._replace(devices=min(int(most), r.shape.devices))) for r in asked.roles]
        asked = asked._replace(roles=tuple(r._replace(shape=s, charge=charge_of(s)) for r, s in shapes))
    return None if asked == request else asked


def _ended(fleet: Fleet, numbers: list[int]) -> list[events.Event]:
    """They end, and are gone: who would replace what ends is deleted."""
    replacing = [each for each in map(fleet.workload, numbers) if each.independent]
    each = [(number, at) for number in numbers for at in sorted(fleet.workload(number).replicas)]
    return [
        *(events.DeletionRequested(f"end-{each.id}", each.id) for each in replacing),
        *(fleet.status(n, ReplicaState.SUCCEEDED, rank=r, role_name=name, exit_code=0) for n, (name, r) in each),
        *(fleet.status(n, None, rank=r, role_name=name, gone=True, exit_code=0) for n, (name, r) in each),
    ]

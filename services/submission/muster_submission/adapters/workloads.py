"""The books of workloads in PostgreSQL: made, numbered, locked and kept in sets, a statement a step.

Called by handlers within their transaction. The migrations 0001, 0002 and 0009 define the functions that it calls.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from muster.workload.v1.workload_pb2 import Workload
from muster_chassis.unit import Unit
from muster_submission.adapters import views
from muster_submission.domain import phases
from muster_submission.domain.phases import ENDED
from muster_submission.domain.progress import NO_REASON, Progress, Why
from muster_submission.ports import Base, Batch, Line, NewWorkload

_MAKE: Final = "SELECT make_workloads($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)"
_LOCK: Final = """
SELECT id::text AS id, phase, desired, reason_code, reason_message, coalesce(reason_other::text, '') AS reason_other,
       generation, attempt, cluster, node_pool, gpu_charge, held, verdict, judged, admissions, decisions,
       started_at, finished_at
FROM workloads WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE
"""
_KEEP: Final = """
SELECT keep_progress($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)
"""
_LOG: Final = "SELECT log_changes($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)"
_VERDICTS: Final = "SELECT keep_verdicts($1, $2, $3)"
_SHOW: Final = f"SELECT {views.COLUMNS} FROM {views.SOURCE} WHERE w.id = $1"  # noqa: S608 - constants only
_NEW_SPEC: Final = """
WITH raised AS (UPDATE workloads SET generation = $2 WHERE id = $1)
UPDATE workload_specs SET spec = $3, base_spec = $4, template_id = $5, template_version = $6 WHERE workload_id = $1
"""


class PostgresWorkloads:
    """WorkloadBooks on PostgreSQL."""

    async def make(self, unit: Unit, rows: Sequence[NewWorkload]) -> frozenset[str]:
        """Makes the rows whose name is free and logs them. Returns their ids."""
        made = await unit.connection.fetchval(
            _MAKE,
            unit.now,
            [row.id for row in rows],
            [row.project for row in rows],
            [row.name for row in rows],
            [row.kind for row in rows],
            [row.desired for row in rows],
            [row.spec for row in rows],
            [row.base_spec for row in rows],
            [row.template_id for row in rows],
            [row.template_version for row in rows],
            [row.owner for row in rows],
            [row.origin for row in rows],
            [row.caused_by for row in rows],
            [row.asked_cluster for row in rows],
            [row.submitted_by for row in rows],
        )
        return frozenset(str(one) for one in made)

    async def take_numbers(
        self, unit: Unit, demand: Iterable[tuple[str, str, int]]
    ) -> dict[tuple[str, str], Sequence[int]]:
        """Hands out numbers of name prefixes. `demand` is sorted: rows are locked in that order."""
        return {
            (project, prefix): await unit.connection.fetchval("SELECT take_numbers($1, $2, $3)", project, prefix, count)
            for project, prefix, count in demand
        }

    async def lock(self, unit: Unit, ids: Iterable[str]) -> dict[str, Progress]:
        """The progress of those that exist, locked by id."""
        return {row["id"]: _progress(row) for row in await unit.connection.fetch(_LOCK, list(ids))}

    async def keep(self, unit: Unit, batch: Batch) -> None:
        """Writes a batch back: rows, verdicts, then the log, whose lock is best held briefly."""
        if batch.progress:
            await self._keep_progress(unit, batch)
        if batch.brought:
            brought = list(batch.brought.values())
            await unit.connection.execute(
                _VERDICTS,
                [one.workload_id for one in brought],
                [one.effective_spec for one in brought],
                [json.dumps(one.issues) for one in brought],
            )
        if batch.lines:
            await self._log(unit, batch.lines)

    async def change_spec(self, unit: Unit, workload_id: str, generation: int, spec: bytes, base: Base | None) -> None:
        """Writes a new spec of a locked row and logs it."""
        await unit.connection.execute(
            _NEW_SPEC,
            workload_id,
            generation,
            spec,
            None if base is None else base.spec.SerializeToString(),
            "" if base is None else base.template_id,
            0 if base is None else base.version,
        )
        after = (await self.lock(unit, [workload_id]))[workload_id]
        line = Line(
            workload_id,
            "SpecChanged",
            f"generation {generation} is asked for",
            phases.number(after.phase),
            after,
            unit.now,
        )
        await self._log(unit, [line])

    async def show(self, unit: Unit, workload_id: str) -> Workload | None:
        """A workload as people see it."""
        row = await unit.connection.fetchrow(_SHOW, workload_id)
        return None if row is None else views.workload(row)

    async def _keep_progress(self, unit: Unit, batch: Batch) -> None:
        ids, values = list(batch.progress), list(batch.progress.values())
        unit.mark_ended(name for name, one in batch.progress.items() if one.phase in ENDED)
        await unit.connection.execute(
            _KEEP,
            unit.now,
            ids,
            [one.held for one in values],
            [phases.number(one.phase) for one in values],
            [phases.desired_number(one.desired) for one in values],
            [one.why.code for one in values],
            [one.why.message for one in values],
            [one.why.other or None for one in values],
            [one.attempt for one in values],
            [one.cluster for one in values],
            [one.node_pool for one in values],
            [one.gpu_charge for one in values],
            [one.verdict for one in values],
            [one.judged for one in values],
            [one.admissions for one in values],
            [one.decisions for one in values],
            [batch.status.get(one) for one in ids],
            [batch.pods.get(one) for one in ids],
            [one.started_at for one in values],
            [one.finished_at for one in values],
        )

    async def _log(self, unit: Unit, lines: Sequence[Line]) -> None:
        await unit.connection.execute(
            _LOG,
            unit.now,
            [line.workload_id for line in lines],
            [line.event for line in lines],
            [line.text for line in lines],
            [line.before for line in lines],
            [phases.number(line.after.phase) for line in lines],
            [phases.desired_number(line.after.desired) for line in lines],
            [line.after.why.code for line in lines],
            [line.after.why.message for line in lines],
            [line.other or None for line in lines],
            [line.at for line in lines],
            [line.after.generation for line in lines],
            [line.after.attempt for line in lines],
            [line.after.cluster for line in lines],
            [line.after.node_pool for line in lines],
        )


def _progress(row: Any) -> Progress:
    code, message, other = row["reason_code"], row["reason_message"], row["reason_other"]
    return Progress(
        phase=phases.PHASES[row["phase"] - 1],
        desired=phases.DESIRED[row["desired"] - 1],
        why=Why(code, message, other) if code or message else NO_REASON,
        generation=row["generation"],
        attempt=row["attempt"],
        cluster=row["cluster"],
        node_pool=row["node_pool"],
        gpu_charge=row["gpu_charge"],
        held=row["held"],
        verdict=row["verdict"],
        judged=row["judged"],
        admissions=row["admissions"],
        decisions=row["decisions"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
    )

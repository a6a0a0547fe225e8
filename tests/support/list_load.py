"""A million workloads, and those who read and write them meanwhile: the load of the lists' benchmark.

`fill` writes rows as the service would have. Readers and the writer are processes of their own
(`python -m tests.support.list_load readers|writer ADDRESS..`), so that they take no time from each other's clocks.
Holds: a reader asks at an even pace, as a page that refreshes does, and a late answer does not lower the offer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import aiohttp
import asyncpg
import grpc

from muster.api.v1 import workloads_pb2, workloads_pb2_grpc
from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2 as wl

MILLION: Final = 1_000_000
LIVE: Final = 10_000
"""The newest workloads, which have not ended: those whose phases move."""
SCOPE: Final = tuple(f"scope-{number}" for number in range(30))
BIG: Final = "big"
TINY: Final = "tiny"
TEAMS: Final = tuple(f"team-{number}" for number in range(200))
READERS: Final = 32
A_SECOND: Final = 3.0
"""Questions of one reader."""
_FILL: Final = """
WITH made AS MATERIALIZED (
    SELECT n, (lpad(to_hex($2::bigint + n * 1000), 12, '0') || '70008000' || lpad(to_hex(n), 12, '0'))::uuid AS id,
           to_timestamp(($2::bigint + n * 1000) / 1000.0) AS at, 1 + n % 4 AS kind,
           CASE WHEN n > $1::bigint - $3::bigint THEN (ARRAY[2, 4, 4, 3])[1 + n % 4] WHEN n % 10 < 2 THEN 13
                WHEN n % 10 = 2 THEN 9 ELSE 12 END AS phase,
           n % 20 = 19 AND n <= $1::bigint - $3::bigint AS gone,
           CASE WHEN n % 100000 = 7 THEN 'tiny' WHEN n % 10 = 0 THEN 'big' WHEN n % 33 = 1 THEN 'scope-' || n % 30
                ELSE 'team-' || n * 7919 % 200 END AS project,
           'train-' || md5(n::text) AS name, 'user-' || n % 500 || '@example.com' AS by,
           CASE WHEN n % 3 = 0 THEN 'a100' ELSE 'default' END AS pool, 'cluster-' || n % 7 AS cluster
    FROM generate_series(1, $1::bigint) n
), rows AS (
    INSERT INTO workloads (id, project, name, kind, held, ended, gone, phase, cluster, node_pool, verdict, judged,
                           created_at, started_at, finished_at)
    SELECT id, project, name, kind, NOT gone, phase IN (12, 13) OR gone, gone, CASE WHEN gone THEN 15 ELSE phase END,
           cluster, pool, 1, 1, at, at, CASE WHEN phase IN (12, 13) THEN at + interval '1 hour' END
    FROM made ORDER BY n
), listed AS (
    INSERT INTO workload_list (id, created_at, moved_at, finished_at, deleted_at, gpus, pods, kind, phase, gone,
                               project, name, submitted_by, cluster, node_pool)
    SELECT id, at, at, CASE WHEN phase IN (12, 13) THEN at + interval '1 hour' ELSE '-infinity' END,
           CASE WHEN gone THEN at + interval '2 hours' ELSE '-infinity' END, CASE WHEN phase = 4 THEN 3500 ELSE 0 END,
           0, kind, phase, gone, project, name, by, cluster, pool
    FROM made ORDER BY n
)
INSERT INTO workload_specs (workload_id, spec, template_id, template_version, effective_spec, owner, origin, caused_by,
                            asked_cluster)
SELECT id, $4, '', 0, $4, decode('12' || lpad(to_hex(length(by)), 2, '0'), 'hex') || convert_to(by, 'UTF8'), 1, '', ''
FROM made ORDER BY n
"""
_MOVE: Final = """
SELECT keep_progress(now(), $1::uuid[], $2::boolean[], $3::smallint[], $4::smallint[], $5::text[], $5::text[],
                     NULL::uuid[], $6::integer[], $7::text[], $8::text[], $9::bigint[], $4::smallint[], $10::bigint[],
                     $10::bigint[], $10::bigint[], $11::bytea[], $12::integer[], $13::timestamptz[], $14::timestamptz[])
"""


async def fill(database: str, spec: wl.WorkloadSpec, count: int = MILLION) -> None:
    """Writes `count` workloads, a second apart, the newest of now; then a vacuum, as a quiet hour brings."""
    connection = await asyncpg.connect(database, server_settings={"search_path": "submission"})
    begin = int(time.time() * 1000) - (count + 60) * 1000
    await connection.execute("SET synchronous_commit = off")
    await connection.execute(_FILL, count, begin, LIVE, spec.SerializeToString(), timeout=900)
    # Flushed first: a vacuum marks no page as visible to all while the commit of its rows is not on the disk, and
    # every walk of an index would then look at every row, which it does nowhere else.
    await connection.execute("CHECKPOINT")
    for table in ("workload_list", "workloads", "workload_specs"):
        await connection.execute(f"VACUUM ANALYZE {table}", timeout=900)
    await connection.execute("CHECKPOINT")
    await connection.close()


def pairs(projects: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """The twelve named pairs of filter and sort: whose token asks, and the question. projects: id by name."""

    def asked(*conditions: str, sort: str = "", order: str = "desc") -> str:
        by = f"sortBy={sort}&sortOrder={order}&" if sort else ""
        return f"?{by}" + "&".join(f"filterBy={quote(one)}" for one in conditions)

    return {
        "everything, newest first": ("admin", asked()),
        "everything by name": ("admin", asked(sort="name", order="asc")),
        "project of ten rows by name": ("admin", asked(f"projectId=={projects[TINY]}", sort="name", order="asc")),
        "large project, newest first": ("admin", asked(f"projectName=={BIG}", sort="createdAt")),
        "large project by name": ("admin", asked(f"projectName=={BIG}", sort="name", order="asc")),
        "running, newest first": ("admin", asked("phase==Running", sort="createdAt")),
        "failed in a large project": ("admin", asked(f"projectName=={BIG}", "phase==Failed", sort="createdAt")),
        "one submitter, newest first": ("admin", asked("submittedBy==user-7@example.com", sort="createdAt")),
        "name begins with, by name": ("admin", asked("name=^train-00", sort="name", order="asc")),
        "no match": ("admin", asked("name==ghost", sort="createdAt")),
        "scope of 30 projects, newest first": ("scoped", asked(sort="createdAt")),
        "ended since, latest first": ("admin", asked("completedAt>=2020-01-01T00:00:00Z", sort="completedAt")),
    }


async def read(rest: str, questions: Mapping[str, tuple[str, str]], tokens: Mapping[str, str], seconds: float) -> Any:
    """READERS readers for so long, each question as often as any other: milliseconds of each answer, by name."""
    names = list(questions)
    took: dict[str, list[float]] = {name: [] for name in names}
    begun = time.monotonic() + 0.5

    async def reader(session: aiohttp.ClientSession, number: int) -> None:
        for turn in range(int(seconds * A_SECOND)):
            name = names[(turn + number * 5) % len(names)]
            who, query = questions[name]
            await asyncio.sleep(max(0.0, begun + (turn + number / READERS) / A_SECOND - time.monotonic()))
            at = time.perf_counter()
            async with session.get(f"{rest}/api/v1/workloads{query}", headers=_bearer(tokens[who])) as answer:
                body = await answer.read()
            took[name].append((time.perf_counter() - at) * 1000)
            if answer.status != 200:
                raise RuntimeError(f"{name}: {answer.status} {body[:300]!r}")

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=READERS)) as session:
        await asyncio.gather(*(reader(session, number) for number in range(READERS)))
    return took


async def write(grpc_address: str, database: str, token: str, seconds: float) -> float:
    """250 submissions a second in calls of ten, and 250 moves of phases as the read model writes them."""
    begun, done = time.monotonic(), 0
    connection = await asyncpg.connect(database, server_settings={"search_path": "submission"})
    live = await connection.fetch("SELECT id FROM workload_list WHERE NOT gone ORDER BY id DESC LIMIT $1", LIVE)
    ids = [row["id"] for row in live]

    async def submitting(channel: Any) -> None:
        nonlocal done
        stub = workloads_pb2_grpc.WorkloadsServiceStub(channel)
        for turn in range(int(seconds * 25)):
            await asyncio.sleep(max(0.0, begun + turn / 25 - time.monotonic()))
            drafts = [_draft(f"w-{turn}-{number}-{random.randrange(1 << 40)}") for number in range(10)]
            asked = workloads_pb2.SubmitWorkloadsRequest(drafts=drafts, idempotency_key=str(uuid.uuid4()))
            await stub.SubmitWorkloads(asked, metadata=(("authorization", f"Bearer {token}"),))
            done += len(drafts)

    async def moving() -> None:
        nonlocal done
        for turn in range(int(seconds * 25)):
            await asyncio.sleep(max(0.0, begun + (turn + 0.5) / 25 - time.monotonic()))
            some = sorted(random.sample(ids, 10))
            await connection.execute(_MOVE, *_moved(some, random.choice([2, 3, 4, 8, 9])))
            done += len(some)

    async with grpc.aio.insecure_channel(grpc_address) as channel:
        await asyncio.gather(submitting(channel), moving())
    await connection.close()
    return done / (time.monotonic() - begun)


def _draft(name: str) -> workloads_pb2.WorkloadDraft:
    spec = wl.WorkloadSpec(
        kind=options_pb2.KIND_TRAINING, name=name, image="i", command="true", gpu_portion_request=0.5
    )
    return workloads_pb2.WorkloadDraft(project=BIG, spec=spec)


def _moved(ids: Sequence[Any], phase: int) -> tuple[Any, ...]:
    count = len(ids)
    ones, none = [1] * count, [None] * count
    places = ["cluster-1"] * count
    return (
        ids,
        [True] * count,
        [phase] * count,
        ones,
        [""] * count,
        ones,
        places,
        ["default"] * count,
        [3500] * count,
        ones,
        none,
        none,
        none,
        none,
    )


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def main() -> int:
    """A process of the load: what it needs comes as JSON on its input, what it found goes out as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["readers", "writer"])
    part = parser.parse_args().part
    given: dict[str, Any] = json.load(sys.stdin)
    if part == "readers":
        print(json.dumps(asyncio.run(read(**given))))
    else:
        print(json.dumps(asyncio.run(write(**given))))
    return 0


if __name__ == "__main__":
    sys.exit(main())

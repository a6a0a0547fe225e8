"""Two instances of policy on the real Kafka and PostgreSQL, one of them killed in the middle."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import asyncpg

from muster.events.v1 import policy_pb2
from muster.events.v1.submission_pb2 import ProjectChanged
from muster_chassis.codec import MessageDecoder
from muster_chassis.topics import ADMISSIONS, SUBMISSIONS, TENANCY
from tests.support.instances import feed_until_all_work, handled
from tests.support.policy_books import submission
from tests.support.processes import service
from tests.support.stations import Journal, station
from tests.support.waiting import eventually, until

DECODER = MessageDecoder([policy_pb2.WorkloadAdmitted, policy_pb2.WorkloadRejected])
_AT_ONCE = 20
_AFTER = 300


async def test_each_submission_gets_one_verdict_while_one_of_two_is_killed(
    database: Any, kafka: str, tmp_path: Path
) -> None:
    policy = {"database": database.url("policy"), "kafka": kafka}
    async with (
        station("submission", database.url("submission"), kafka) as sender,
        station("scheduler", database.url("scheduler"), kafka) as listener,
        service("policy", tmp_path, **policy, MUSTER_INSTANCE="policy-0") as first,
        service("policy", tmp_path, **policy, MUSTER_INSTANCE="policy-1") as second,
    ):
        sender.relay()
        heard = Journal()
        listener.consume(heard, ADMISSIONS, decoder=DECODER)
        await first.ready()
        await second.ready()
        asked: list[str] = []

        async def feed() -> None:
            async with sender.database.unit() as unit:
                for number in range(len(asked) + 1, len(asked) + 1 + _AT_ONCE):
                    made = submission(number).submitted
                    unit.publish(SUBMISSIONS, made.workload_id, made)
                    asked.append(made.workload_id)

        await feed()  # before its project is known: these wait
        changed = ProjectChanged()
        changed.project.name, changed.project.version = "team-a", 1
        async with sender.database.unit() as unit:
            unit.publish(TENANCY, "project/team-a", changed)
        await feed_until_all_work(feed, first, second, records=_AT_ONCE)
        await feed()
        first.kill()
        before = await handled(second)
        for _ in range(_AFTER // _AT_ONCE):
            await feed()

        await until(lambda: len(heard.handled) >= len(asked), within=90)
        assert Counter(aggregate for aggregate, _ in heard.handled) == dict.fromkeys(asked, 1)
        assert await handled(second) > before
        assert second.process.poll() is None

        policys = await asyncpg.connect(database.url("policy"))
        try:

            async def waiting() -> int:
                found: int = await policys.fetchval("SELECT count(*) FROM policy.waiting")
                return found

            await eventually(waiting, lambda number: number == 0)
            verdicts = await policys.fetchval("SELECT count(*) FROM policy.verdicts")
            told = await policys.fetchval("SELECT count(*) FROM policy.outbox WHERE topic = $1", ADMISSIONS.name)
            assert (verdicts, told) == (len(asked), len(asked))
        finally:
            await policys.close()

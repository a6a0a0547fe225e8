"""Gangs: who meets whom, in which order they start, and what the end of one means for the others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from muster.fleet.v1 import fleet_pb2
from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2
from tests.conformance import programs
from tests.conformance.registry import case
from tests.conformance.stage import FAILED, GONE, READY, SUCCEEDED, Stage, Work, gang, run

PYTORCH: Final = workload_pb2.FRAMEWORK_PYTORCH
TF: Final = workload_pb2.FRAMEWORK_TF
XGBOOST: Final = workload_pb2.FRAMEWORK_XGBOOST
JAX: Final = workload_pb2.FRAMEWORK_JAX
OURS: Final = fleet_pb2.FAILURE_CLASS_OURS


async def environments(stage: Stage, work: Work, names: list[str]) -> list[Mapping[str, str]]:
    """The environment of each of these replicas. Waits until all of them have ended."""
    for name in names:
        await work.state(GONE, name=name)
    return [await stage.platform.environment(work.id, name) for name in names]


def workers(work: Work, count: int) -> list[str]:
    return [work.name(index=index) for index in range(count)]


@case(given=[2, 4])
async def members_of_a_gang_have_ranks_and_one_master(stage: Stage, count: int) -> None:
    work = stage.work(programs.TELLS, **gang(PYTORCH, count))
    await work.assign()
    told = await environments(stage, work, workers(work, count))
    assert [env["RANK"] for env in told] == [str(rank) for rank in range(count)]
    assert {env["WORLD_SIZE"] for env in told} == {str(count)}
    assert len({(env["MASTER_ADDR"], env["MASTER_PORT"]) for env in told}) == 1
    assert told[0]["MASTER_ADDR"]
    assert int(told[0]["MASTER_PORT"]) > 0


@case()
async def the_master_of_a_gang_is_rank_0(stage: Stage) -> None:
    master = workload_pb2.WorkloadSpec(command=programs.TELLS, image="team/image:1")
    runs = [run("master"), run(count=2, node="n-1")]
    work = stage.work(programs.TELLS, **gang(PYTORCH, 2, master_spec=master))
    await work.assign(runs=runs)
    told = await environments(stage, work, [work.name("master"), *workers(work, 2)])
    assert [env["RANK"] for env in told] == ["0", "1", "2"]
    assert {env["WORLD_SIZE"] for env in told} == {"3"}


@case()
async def tensorflow_is_told_its_cluster_and_its_task(stage: Stage) -> None:
    master = workload_pb2.WorkloadSpec(command=programs.TELLS, image="team/image:1")
    work = stage.work(programs.TELLS, **gang(TF, 2, master_spec=master))
    await work.assign(runs=[run("master"), run(count=2, node="n-1")])
    told = await environments(stage, work, [work.name("master"), *workers(work, 2)])
    found = [json.loads(env["TF_CONFIG"]) for env in told]
    assert [each["task"] for each in found] == [
        {"type": "chief", "index": 0},
        {"type": "worker", "index": 0},
        {"type": "worker", "index": 1},
    ]
    (cluster,) = {json.dumps(each["cluster"], sort_keys=True) for each in found}
    addresses = [address for all_of in json.loads(cluster).values() for address in all_of]
    assert len(set(addresses)) == len(addresses) == 3


@case()
async def xgboost_is_told_its_tracker_and_its_workers(stage: Stage) -> None:
    work = stage.work(programs.TELLS, **gang(XGBOOST, 3))
    await work.assign()
    told = await environments(stage, work, workers(work, 3))
    assert [env["RANK"] for env in told] == ["0", "1", "2"]
    assert {env["WORLD_SIZE"] for env in told} == {"3"}
    assert all(env["MASTER_ADDR"] and env["MASTER_PORT"] and env["WORKER_PORT"] for env in told)
    assert "WORKER_ADDRS" in told[0]


@case()
async def jax_is_told_its_coordinator(stage: Stage) -> None:
    work = stage.work(programs.TELLS, **gang(JAX, 2))
    await work.assign()
    told = await environments(stage, work, workers(work, 2))
    assert [env["PROCESS_ID"] for env in told] == ["0", "1"]
    assert {env["NUM_PROCESSES"] for env in told} == {"2"}
    assert len({(env["COORDINATOR_ADDRESS"], env["COORDINATOR_PORT"]) for env in told}) == 1


@case(
    given=[("RANK", PYTORCH), ("WORLD_SIZE", PYTORCH), ("MASTER_ADDR", PYTORCH), ("TF_CONFIG", TF), ("PROCESS_ID", JAX)]
)
async def what_a_gang_is_told_wins_over_its_user(stage: Stage, variable: str, framework: int) -> None:
    forged = workload_pb2.EnvironmentVariable(label=variable, value="forged")
    work = stage.work(programs.TELLS, **gang(framework, 2, environment=[forged]))
    await work.assign()
    told = await environments(stage, work, workers(work, 2))
    assert "forged" not in {env[variable] for env in told}


@case(given=[1, 3, 7])
async def the_members_of_a_gang_end_each_with_its_code(stage: Stage, code: int) -> None:
    work = stage.work(programs.WAITS, **gang(TF, 3))
    await work.assign()
    for name in workers(work, 3):
        await work.state(READY, name=name)
    for index in range(2):
        await work.finish(0, work.name(index=index))
        assert (await work.state(SUCCEEDED, name=work.name(index=index))).exit_code == 0
    await work.finish(code, work.name(index=2))
    assert (await work.state(FAILED, name=work.name(index=2))).exit_code == code


@case()
async def a_gang_of_which_one_failed_is_stopped_by_its_release(stage: Stage) -> None:
    work = stage.work(programs.WAITS, **gang(PYTORCH, 3))
    await work.assign()
    for name in workers(work, 3):
        await work.state(READY, name=name)
    await work.finish(9, work.name(index=1))
    assert (await work.state(FAILED, name=work.name(index=1))).exit_code == 9
    await work.release()  # as the scheduler answers it
    for index in (0, 2):
        assert (await work.state(GONE, name=work.name(index=index))).failure == OURS
    await work.nothing_left()


def launched(command: str, workers_: int) -> dict[str, Any]:
    runs = [run(count=workers_), run("launcher", node="n-1")]
    return {
        "kind": options_pb2.KIND_DISTRIBUTED,
        "framework": workload_pb2.FRAMEWORK_MPI,
        "workers": workers_,
        "slots_per_worker": 1,
        "runs": runs,
        "command": command,
    }


@case(given=[1, 3])
async def a_launcher_starts_after_all_of_its_workers(stage: Stage, count: int) -> None:
    fields = launched(programs.SUCCEEDS, count)
    work = stage.work(fields.pop("command"), **fields)
    await work.assign()
    launcher = work.name("launcher")
    for name in workers(work, count):
        await work.state(READY, name=name)
    await stage.bus.first(
        lambda m: getattr(m, "status", None) is not None and m.status.name == launcher, workload=work.id
    )
    told = [(message.status.name, message.status.state) for message in work.reports()]
    first = next(place for place, (name, _) in enumerate(told) if name == launcher)
    for name in workers(work, count):
        assert told.index((name, READY)) < first
    await work.release()
    await work.state(GONE, name=launcher)
    for name in workers(work, count):
        await work.state(GONE, name=name)
    await work.nothing_left()


@case()
async def nothing_of_a_gang_starts_where_one_place_is_refused(stage: Stage) -> None:
    fields = launched(programs.SUCCEEDS, 2)
    work = stage.work(fields.pop("command"), **fields)
    await work.assign(runs=[run(), run(first=1, node="none"), run("launcher")])
    assert (await work.refused("UnknownNode")).node == "none"
    assert work.reports() == []
    await work.release()
    await work.nothing_left()
    for name in (*workers(work, 2), work.name("launcher")):
        assert await work.starts(name) == 0

"""One replica from its assignment to the last trace of it: its states, its exit code, and what it is given."""

from __future__ import annotations

import json
from typing import Final

from muster.events.v1 import agent_pb2
from muster.fleet.v1 import fleet_pb2
from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2
from tests.conformance import programs
from tests.conformance.platforms import Capability
from tests.conformance.registry import case
from tests.conformance.stage import FAILED, GONE, READY, SUCCEEDED, Stage, run
from tests.support.waiting import eventually

ORDER: Final = ("CREATED", "STARTING", "READY", "SUCCEEDED", "FAILED", "GONE")
EXIT: Final = fleet_pb2.FAILURE_CLASS_EXIT
RETRYABLE: Final = fleet_pb2.FAILURE_CLASS_RETRYABLE_EXIT
NONE: Final = fleet_pb2.FAILURE_CLASS_UNSPECIFIED


@case()
async def a_training_runs_once_and_leaves_nothing(stage: Stage) -> None:
    work = stage.work(programs.WAITS)
    await work.assign()
    ready = await work.state(READY)
    assert (ready.role, ready.index, ready.k, ready.node, ready.name) == ("worker", 0, 0, "n-0", work.name())
    await work.finish(0)
    done = await work.state(SUCCEEDED)
    assert (done.exit_code, done.failure) == (0, NONE)
    assert done.started_at.ToNanoseconds() <= done.finished_at.ToNanoseconds()
    gone = await work.state(GONE)
    assert gone.gone_evidence == stage.platform.gone
    await work.release()
    await work.nothing_left()
    assert await work.starts() == 1


@case()
async def states_are_told_in_their_order(stage: Stage) -> None:
    work = await stage.running()
    await work.finish(0)
    await work.state(GONE)
    told = work.states()
    assert told == sorted(told, key=ORDER.index)
    assert told[-3:] == ["READY", "SUCCEEDED", "GONE"]
    sequences = [message.order.sequence for message in work.reports()]
    assert sequences == sorted(set(sequences))


@case(
    given=[
        (0, NONE),
        (1, EXIT),
        (2, EXIT),
        (3, EXIT),
        (64, EXIT),
        (126, EXIT),
        (127, EXIT),
        (128, EXIT),
        (130, RETRYABLE),
        (137, RETRYABLE),
        (138, RETRYABLE),
        (143, RETRYABLE),
        (255, EXIT),
    ]
)
async def an_exit_code_is_told_with_its_class(stage: Stage, code: int, failure: int) -> None:
    work = stage.work(programs.ends(code))
    await work.assign()
    ended = await work.state(FAILED if code else SUCCEEDED)
    assert (ended.exit_code, ended.failure) == (code, failure)
    gone = await work.state(GONE)
    assert (gone.exit_code, gone.failure) == (code, failure), "an end is not taken back"
    await work.release()
    await work.nothing_left()


@case(
    Capability.OWN_SIGNALS,
    given=[("HUP", EXIT), ("INT", RETRYABLE), ("ABRT", EXIT), ("KILL", RETRYABLE), ("SEGV", EXIT), ("TERM", RETRYABLE)],
)
async def a_signal_counts_as_128_and_its_number(stage: Stage, signal: str, failure: int) -> None:
    work = stage.work(programs.dies(signal))
    await work.assign()
    ended = await work.state(FAILED)
    assert (ended.exit_code, ended.failure) == (128 + programs.SIGNALS[signal], failure)


@case()
async def a_program_that_does_not_exist_fails_by_itself(stage: Stage) -> None:
    work = stage.work(programs.MISSING)
    await work.assign()
    ended = await work.state(FAILED)
    assert (ended.exit_code in {127, 128}, ended.failure) == (True, EXIT)  # a shell's code, and containerd's
    assert ended.message


@case(Capability.OUTPUT)
async def a_failure_carries_the_last_lines(stage: Stage) -> None:
    work = stage.work("sh -c 'echo the last words; exit 3'")
    await work.assign()
    assert (await work.state(FAILED)).log_tail == "the last words\n"


@case()
async def a_replica_knows_who_it_is(stage: Stage) -> None:
    work = stage.work(programs.TELLS)
    await work.assign(attempt=2)
    await work.state(GONE)
    name = work.name(attempt=2)
    env = await stage.platform.environment(work.id, name)
    assert env["MUSTER_REPLICA"] == name
    assert env["MUSTER_WORKLOAD_ID"] == env["JOB_UUID"] == work.id
    assert env["MUSTER_PROJECT"] == env["RUNAI_PROJECT"] == "p"
    assert env["MUSTER_WORKLOAD"] == env["JOB_NAME"] == env["RUNAI_JOB_NAME"]
    assert (env["MUSTER_ROLE"], env["MUSTER_INDEX"], env["POD_INDEX"]) == ("worker", "0", "0")
    assert (env["MUSTER_ATTEMPT"], env["MUSTER_NODE"]) == ("2", "n-0")


@case(given=["MUSTER_REPLICA", "MUSTER_WORKLOAD_ID", "JOB_UUID", "POD_INDEX", "MUSTER_ROLE"])
async def what_identifies_a_replica_wins_over_its_user(stage: Stage, variable: str) -> None:
    forged = workload_pb2.EnvironmentVariable(label=variable, value="forged")
    work = stage.work(programs.TELLS, environment=[forged])
    await work.assign()
    await work.state(GONE)
    assert (await stage.platform.environment(work.id, work.name()))[variable] != "forged"


@case()
async def variables_of_the_user_reach_the_program(stage: Stage) -> None:
    said = {"PLAIN": "1", "EMPTY": "", "ODD": " a'b\"c $HOME ${X} ü=;\\", "LONG": "x" * 5000}
    items = [workload_pb2.EnvironmentVariable(label=name, value=value) for name, value in said.items()]
    work = stage.work(programs.TELLS, environment=items)
    await work.assign()
    await work.state(GONE)
    env = await stage.platform.environment(work.id, work.name())
    assert {name: env.get(name) for name in said} == said


@case()
async def without_a_device_a_replica_sees_none(stage: Stage) -> None:
    work = stage.work(programs.TELLS)
    await work.assign()
    await work.state(GONE)
    env = await stage.platform.environment(work.id, work.name())
    assert json.loads(env["MUSTER_DEVICES"]) == []
    assert env.get("CUDA_VISIBLE_DEVICES") == "" or env.get("NVIDIA_VISIBLE_DEVICES") == "void"


@case()
async def a_replica_is_told_of_its_device(stage: Stage) -> None:
    work = stage.work(programs.TELLS)
    await work.assign(runs=[stage.platform.device(run(), 0)])
    await work.state(GONE)
    assert await stage.platform.devices(work.id, work.name()) == 1
    env = await stage.platform.environment(work.id, work.name())
    assert len(json.loads(env["MUSTER_DEVICES"])) == 1


@case(Capability.CARDS)
async def a_device_is_given_to_one_replica_at_a_time(stage: Stage) -> None:
    first = stage.work(programs.WAITS)
    await first.assign(runs=[stage.platform.device(run(), 1)])
    await first.state(READY)
    second = stage.work(programs.SUCCEEDS)
    await second.assign(runs=[stage.platform.device(run(), 1)])
    refused = await second.refused("DeviceInUse")
    assert refused.node == "n-0"
    await first.finish(0)
    await first.state(GONE)
    await second.state(SUCCEEDED)  # the agent has tried it again and again
    refusals = [message for message in stage.bus.of(second.id) if isinstance(message, agent_pb2.AssignmentRefused)]
    assert len(refusals) == 1, "and has said so once"


@case()
async def a_server_is_told_its_ports(stage: Stage) -> None:
    ports = [workload_pb2.Port(label="a", container=8080), workload_pb2.Port(label="b", container=9090)]
    work = stage.work(programs.TELLS, ports=ports)
    await work.assign()
    await work.state(GONE)
    env = await stage.platform.environment(work.id, work.name())
    assert env["PORT"] == env["MUSTER_PORT_8080"]
    assert env["MUSTER_PORT_9090"].isdecimal()


@case(given=[options_pb2.KIND_TRAINING, options_pb2.KIND_WORKSPACE])
async def kinds_of_one_replica_end_with_it(stage: Stage, kind: int) -> None:
    work = stage.work(programs.WAITS, kind=kind)
    await work.assign()
    await work.state(READY)
    await work.finish(7)
    assert (await work.state(FAILED)).exit_code == 7


@case(Capability.SHARED_FOLDER)
async def what_a_run_leaves_is_there_for_the_next(stage: Stage) -> None:
    work = stage.work(programs.ends(0))
    await work.assign()
    await work.state(GONE)
    await work.release()
    await work.nothing_left()
    again = "sh -c 'test -s \"$MUSTER_WORKLOAD_DIR/" + work.name() + ".starts\"'"
    await work.assign(attempt=1, command=again)
    assert (await work.state(SUCCEEDED, attempt=1)).exit_code == 0


@case()
async def many_trials_run_each_for_itself(stage: Stage) -> None:
    work = stage.work(programs.WAITS, completions=6, parallelism=6)
    await work.assign(runs=[run(count=3), run(count=3, node="n-1", first=3)])
    for index in range(6):
        await work.state(READY, name=work.name(index=index))
    for index in range(6):
        await work.finish(index % 2, work.name(index=index))
    for index in range(6):
        ended = await work.state(FAILED if index % 2 else SUCCEEDED, name=work.name(index=index))
        assert (ended.index, ended.exit_code) == (index, index % 2)
    await work.release()
    await work.nothing_left()


@case()
async def a_trial_is_told_its_number(stage: Stage) -> None:
    work = stage.work(programs.TELLS, completions=3, parallelism=3)
    await work.assign(runs=[run(count=3)])
    for index in range(3):
        name = work.name(index=index)
        await work.state(GONE, name=name)
        assert (await stage.platform.environment(work.id, name))["POD_INDEX"] == str(index)


@case()
async def a_finished_replica_is_not_started_again(stage: Stage) -> None:
    work = stage.work(programs.ends(3))
    made = await work.assign()
    await work.state(GONE)
    for revision in (1, 2):
        made.revision = revision
        await stage.bus.assign(made)
    await stage.passed()  # the agent has seen what was written before
    assert await eventually(work.starts, lambda count: count == 1) == 1
    await work.release()
    await work.nothing_left()

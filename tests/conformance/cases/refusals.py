"""What an agent does not take: refused in one sentence, with a code, without a failure of the workload."""

from __future__ import annotations

from typing import Final

from muster.events.v1 import agent_pb2
from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2
from tests.conformance import programs
from tests.conformance.registry import case
from tests.conformance.stage import GONE, READY, Stage, gang, run

WORKLOAD: Final = agent_pb2.REFUSAL_SCOPE_WORKLOAD


@case()
async def an_unknown_node_is_refused_until_it_is_known(stage: Stage) -> None:
    work = stage.work(programs.WAITS)
    await work.assign(runs=[run(node="none")])
    refused = await work.refused("UnknownNode")
    assert (refused.node, refused.retry_after_seconds > 0) == ("none", True)
    assert "none" in refused.reason.message
    assert not work.reports()
    await work.assign(attempt=1, revision=1)
    await work.state(READY, attempt=1)


@case(given=["sh -c 'unclosed", 'a "b', "x\\"])
async def a_command_that_cannot_be_split_is_refused_for_good(stage: Stage, command: str) -> None:
    work = stage.work(command)
    await work.assign()
    refused = await work.refused("InvalidCommand")
    assert (refused.retry_after_seconds, refused.scope) == (0, WORKLOAD)


@case(given=[("port", 5432, ""), ("path", 8080, "/a b"), ("path", 8080, "/a\r\nX: y")])
async def a_probe_of_something_else_is_refused(stage: Stage, what: str, port: int, path: str) -> None:
    work = stage.work(
        programs.WAITS,
        kind=options_pb2.KIND_INFERENCE,
        ports=[workload_pb2.Port(label="p", container=8080)],
        readiness_probe=workload_pb2.ReadinessProbe(port=port, path=path),
    )
    await work.assign()
    refused = await stage.bus.first(lambda m: isinstance(m, agent_pb2.AssignmentRefused), workload=work.id)
    assert what in refused.reason.message
    assert refused.retry_after_seconds == 0


@case()
async def a_gang_of_which_one_place_is_refused_names_it(stage: Stage) -> None:
    work = stage.work(programs.WAITS, **gang(workload_pb2.FRAMEWORK_TF, 2))
    await work.assign(runs=[run(), run(first=1, node="none")])
    refused = await work.refused("UnknownNode")
    assert refused.node == "none"
    await work.release()
    await work.nothing_left()


@case()
async def a_trial_that_is_refused_is_named_and_the_others_run(stage: Stage) -> None:
    work = stage.work(programs.WAITS, completions=2, parallelism=2)
    await work.assign(runs=[run(), run(first=1, node="none")])
    await work.state(READY, name=work.name())
    refused = await work.refused("UnknownNode")
    assert (refused.role, refused.index, refused.k) == ("worker", 1, 0)
    await work.assign(revision=1, runs=[run(), run(first=1, node="n-1", k=1)])
    await work.state(READY, name=work.name(index=1, k=1))
    assert await work.starts(work.name()) == 1


@case()
async def a_release_of_what_was_refused_is_answered(stage: Stage) -> None:
    work = stage.work(programs.WAITS)
    await work.assign(runs=[run(node="none")])
    await work.refused("UnknownNode")
    await work.release()
    await work.nothing_left()
    told = await stage.bus.first(lambda m: isinstance(m, agent_pb2.ReplicaStatusChanged), workload=work.id)
    assert told.status.state == GONE


@case()
async def a_kind_that_the_agent_does_not_know_is_refused(stage: Stage) -> None:
    work = stage.work(programs.WAITS, kind=99)
    await work.assign()
    refused = await stage.bus.first(lambda m: isinstance(m, agent_pb2.AssignmentRefused), workload=work.id)
    assert refused.retry_after_seconds == 0

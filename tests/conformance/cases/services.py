"""Services: addresses, copies that come and go, and two revisions side by side."""

from __future__ import annotations

from typing import Any, Final

from muster.fleet.v1 import fleet_pb2
from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2
from muster_kernel.reasons import ChangeReason
from tests.conformance import programs
from tests.conformance.registry import case
from tests.conformance.stage import FAILED, GONE, READY, Stage, run

RETRYABLE: Final = fleet_pb2.FAILURE_CLASS_RETRYABLE_EXIT


def serving(count: int = 2, **fields: Any) -> dict[str, Any]:
    """Copies on n-0, without a port: nothing is asked whether they are ready."""
    return {"kind": options_pb2.KIND_INFERENCE, "runs": [run(count=count)], **fields}


@case()
async def copies_of_a_service_run_until_they_are_released(stage: Stage) -> None:
    work = stage.work(programs.WAITS, **serving())
    await work.assign()
    for index in range(2):
        await work.state(READY, name=work.name(index=index))
    await work.release()
    for index in range(2):
        await work.state(GONE, name=work.name(index=index))
    await work.nothing_left()


@case()
async def a_server_that_ends_has_failed(stage: Stage) -> None:
    work = stage.work(programs.ends(0), **serving(1))
    await work.assign()
    ended = await work.state(FAILED)
    assert (ended.exit_code, ended.failure) == (0, RETRYABLE)


@case()
async def a_copy_that_fails_is_replaced_and_the_others_go_on(stage: Stage) -> None:
    work = stage.work(programs.WAITS, **serving())
    await work.assign()
    for index in range(2):
        await work.state(READY, name=work.name(index=index))
    await work.finish(1, work.name(index=0))
    await work.state(GONE, name=work.name(index=0))
    await work.assign(revision=1, runs=[run(k=1), run(first=1)])
    await work.state(READY, name=work.name(k=1))
    assert work.states(work.name(index=1))[-1] == "READY"
    assert await work.starts(work.name(index=1)) == 1


@case()
async def a_service_grows_and_shrinks(stage: Stage) -> None:
    work = stage.work(programs.WAITS, **serving(1))
    await work.assign()
    await work.state(READY, name=work.name())
    await work.assign(revision=1, runs=[run(count=3)])
    for index in range(3):
        await work.state(READY, name=work.name(index=index))
    await work.assign(revision=2, runs=[run(count=2)])
    await work.state(GONE, name=work.name(index=2))
    for index in range(2):
        assert work.states(work.name(index=index))[-1] == "READY"
        assert await work.starts(work.name(index=index)) == 1


@case()
async def a_copy_that_comes_back_before_the_old_one_is_gone_starts_after_it(stage: Stage) -> None:
    work = stage.work(programs.STUBBORN, **serving())
    await work.assign()
    for index in range(2):
        await work.state(READY, name=work.name(index=index))
        await stage.platform.settled(work.id, work.name(index=index))
    await work.assign(revision=1, runs=[run()])
    await work.assign(revision=2, runs=[run(), run(first=1, k=1)])
    await work.state(READY, name=work.name(index=1, k=1))
    assert work.is_in_turn(work.name(index=1), work.name(index=1, k=1))
    assert await work.starts(work.name(index=0)) == 1


@case()
async def two_revisions_run_side_by_side_while_one_rolls_over(stage: Stage) -> None:
    work = stage.work(programs.WAITS, **serving(1))
    first = await work.assign()
    await work.state(READY, name=work.name())
    await work.assign(generation=2, revision=1, older=first.revisions)
    later = work.name(generation=2)
    await work.state(READY, name=later)
    assert work.states(work.name())[-1] == "READY"
    await work.assign(generation=2, revision=2)
    await work.state(GONE, name=work.name())
    assert work.states(later)[-1] == "READY"
    await work.release(generation=2)
    await work.state(GONE, name=later)
    await work.nothing_left()


@case()
async def a_service_says_where_it_is_reached(stage: Stage) -> None:
    ports = [workload_pb2.Port(label="p", container=8080)]
    work = stage.work(programs.LISTENS, **serving(1, ports=ports))
    await work.assign()
    await work.state(READY)
    told = [address for message in work.reports() for address in message.endpoints]
    assert told
    assert all(address.startswith("http://") for address in told)
    await work.release(reason=ChangeReason.DELETED.value)
    await work.state(GONE)
    await work.nothing_left()

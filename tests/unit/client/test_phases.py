"""One enum of phases: it equals what messages carry, what people read, and what `wait` is asked for."""

from __future__ import annotations

import json

import pytest

from muster.workload.v1 import workload_pb2
from muster_client import TERMINAL, Muster, Phase, phase_of
from muster_client.phases import as_phase
from muster_kernel import lifecycle
from tests.support.plane_world import World


@pytest.mark.parametrize("phase", Phase)
def test_a_phase_equals_its_number_and_its_word(phase: Phase) -> None:
    workload = workload_pb2.Workload(phase=workload_pb2.Phase.Value(f"PHASE_{phase.name}"))
    assert workload.phase == phase
    assert phase == workload.phase
    assert phase == str(phase) == f"{phase}" == lifecycle.Phase[phase.name].value
    assert phase_of(workload) is phase
    assert hash(phase) == hash(workload.phase), "both are one key of a dictionary"
    assert as_phase(str(phase)) is as_phase(int(phase)) is as_phase(lifecycle.Phase[phase.name]) is phase


def test_every_phase_is_there_and_differs_from_the_others() -> None:
    assert {phase.name for phase in Phase} == {phase.name for phase in lifecycle.Phase}
    assert {int(phase) for phase in Phase} == set(workload_pb2.Phase.values()) - {0}
    assert Phase.COMPLETED != Phase.FAILED
    assert Phase.COMPLETED != "Failed"
    assert Phase.COMPLETED != workload_pb2.PHASE_FAILED
    assert {phase.name for phase in TERMINAL} == {phase.name for phase in lifecycle.FINAL}
    assert Phase.COMPLETED.final
    assert not Phase.RUNNING.final
    assert json.dumps(Phase.RUNNING) == str(workload_pb2.PHASE_RUNNING)


def test_what_is_no_phase_says_what_is() -> None:
    with pytest.raises(ValueError, match="'Done' is no phase of a workload; they are Creating, Pending"):
        as_phase("Done")


async def test_a_wait_takes_words_too(server: str, world: World) -> None:
    made = world.add("bert", phase=workload_pb2.PHASE_RUNNING)
    async with Muster(server) as muster:
        word: Phase = "Running"  # type: ignore[assignment]  # what an untyped program passes
        assert (await muster.wait(made.id, phases={word}, timeout=10)).phase == Phase.RUNNING

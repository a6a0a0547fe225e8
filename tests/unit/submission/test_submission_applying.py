"""What applying a document means for what it made before: nothing, a change, a new start, never a second workload."""

from __future__ import annotations

import pytest

from muster.workload.v1 import workload_pb2 as wl
from muster_kernel.lifecycle import DesiredPhase, Phase
from muster_language.spec import Kind, set_kind
from muster_submission.domain.applying import (
    Change,
    Create,
    Fixed,
    Going,
    Keep,
    Known,
    Renew,
    Steer,
    Step,
    check_object_name,
    step,
)
from muster_submission.domain.phases import ENDED
from muster_submission.handlers.intents import fields_fixed, fixed_fields

RUNNING, STOPPED, DELETED = DesiredPhase


def known(phase: Phase = Phase.RUNNING, desired: DesiredPhase = RUNNING) -> Known:
    return Known(phase, desired)


def test_where_there_is_none_one_is_made() -> None:
    assert step(None, [], [], run=None) == Create()
    assert step(known(Phase.DELETED), ["image"], [], run=None) == Create()


@pytest.mark.parametrize("phase", sorted(ENDED - {Phase.DELETED}))
def test_what_has_ended_is_made_anew_even_if_nothing_differs(phase: Phase) -> None:
    assert step(known(phase), [], [], run=None) == Renew()


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase not in ENDED | {Phase.DELETING}])
def test_the_same_document_again_changes_nothing(phase: Phase) -> None:
    assert step(known(phase), [], [], run=None) == Keep()
    assert step(known(phase), [], [], run=True) == Keep()


def test_what_goes_away_is_waited_for() -> None:
    assert step(known(Phase.DELETING), [], [], run=None) == Going()
    assert step(known(Phase.UNKNOWN, DELETED), ["image"], [], run=None) == Going()


@pytest.mark.parametrize(
    ("changed", "fixed", "run", "expected"),
    [
        (["image"], [], None, Change()),
        (["image"], [], True, Change()),
        (["image"], [], False, Change(Steer(run=False))),
        (["image", "gpu_memory_request"], ["gpu_memory_request"], False, Fixed(("gpu_memory_request",))),
    ],
)
def test_what_may_change_does_and_may_be_steered_as_well(
    changed: list[str], fixed: list[str], run: bool | None, expected: Step
) -> None:
    assert step(known(), changed, fixed, run=run) == expected


@pytest.mark.parametrize(
    ("kind", "changed", "fixed"),
    [
        (Kind.INFERENCE, ["image", "min_scale"], []),
        (Kind.INFERENCE, ["image", "gpu_memory_request", "active"], ["gpu_memory_request", "active"]),
        (Kind.TRAINING, ["image", "working_dir"], ["image", "working_dir"]),
        (Kind.WORKSPACE, ["image"], ["image"]),
        (Kind.DISTRIBUTED, ["image"], ["image"]),
    ],
)
def test_only_a_service_changes_and_only_in_fields_that_may(kind: Kind, changed: list[str], fixed: list[str]) -> None:
    spec = wl.WorkloadSpec()
    set_kind(spec, kind)
    assert fixed_fields(spec, changed) == fixed


def test_the_refusal_names_fields_as_documents_do_and_says_what_to_do() -> None:
    shown = wl.Workload(name="one")
    set_kind(shown.spec, Kind.TRAINING)
    error = fields_fixed(shown, ["working_dir", "gpu_memory_request"])
    assert str(error).startswith("workingDir, gpuMemory of one cannot change: only inference services change while")
    assert "delete it and submit it anew" in str(error)
    set_kind(shown.spec, Kind.INFERENCE)
    assert "what only its own form says of" in str(fields_fixed(shown, fixed_fields(shown.spec, ["colossal"])))
    assert "only the fields that `muster explain` says a service takes" in str(fields_fixed(shown, ["active"]))


def test_active_suspends_and_resumes() -> None:
    assert step(known(), [], [], run=False) == Steer(run=False)
    assert step(known(Phase.STOPPED, STOPPED), [], [], run=True) == Steer(run=True)
    assert step(known(Phase.STOPPED, STOPPED), [], [], run=None) == Keep()


@pytest.mark.parametrize("name", ["a", "train-1", "x.y.z", "9", "a" * 253])
def test_names_of_objects(name: str) -> None:
    check_object_name(name)


@pytest.mark.parametrize("name", ["", "A", "-a", "a-", "a_b", "a" * 254, "a\0b", "x" * 10_000])
def test_what_is_no_name_of_an_object(name: str) -> None:
    with pytest.raises(ValueError, match="is not the name of an object"):
        check_object_name(name)

"""Nothing is accepted once the disk that has to keep it is below its reserve."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import grpc
import pytest

from muster.workload.v1 import workload_pb2 as wl
from muster_chassis.rpc import Caller
from muster_submission.adapters.disk_reserve import DiskReserve
from muster_submission.errors import DiskReserveSpent
from muster_submission.handlers.submit import Order, Submit


def test_below_the_reserve_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(DiskReserveSpent, match=r"less than its reserve of 4Ei \(MUSTER_DISK_RESERVE\)") as raised:
        DiskReserve(tmp_path, 4 << 60).check()
    assert raised.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_with_the_reserve_or_without_a_folder_nothing_is_refused(tmp_path: Path) -> None:
    DiskReserve(tmp_path, 1).check()
    DiskReserve(None, 4 << 60).check()


def test_the_disk_is_looked_at_once_a_second(tmp_path: Path) -> None:
    now = [0.0]
    folder = tmp_path / "data"
    folder.mkdir()
    reserve = DiskReserve(folder, 1, clock=lambda: now[0])
    reserve.check()
    folder.rmdir()
    reserve.check()
    now[0] = 1.0
    with pytest.raises(FileNotFoundError):
        reserve.check()


async def test_a_call_is_refused_before_anything_of_it_is_made(tmp_path: Path) -> None:
    nothing: Any = None
    submit = Submit(nothing, nothing, nothing, DiskReserve(tmp_path, 4 << 60))
    order = Order(cast("Any", None), wl.Owner(), Caller("a"))
    with pytest.raises(DiskReserveSpent):
        await submit.make_together(nothing, [order])


async def test_the_run_of_a_trigger_is_refused_as_a_call_is(tmp_path: Path) -> None:
    nothing: Any = None
    submit = Submit(nothing, nothing, nothing, DiskReserve(tmp_path, 4 << 60))
    order = Order(cast("Any", None), wl.Owner(), Caller("a"), caused_by="/source one")
    with pytest.raises(DiskReserveSpent):
        await submit.make_together(nothing, [order])

"""The client without asyncio: the same answers and errors, iterators that are fetched as they are read, a clean end."""

from __future__ import annotations

import inspect
import threading
from itertools import islice

import pytest

from muster.workload.v1 import workload_pb2
from muster_client import Muster, MusterSync, NotFound, Patience, Phase, Unavailable
from tests.support.plane_world import World

DOCUMENT = "metadata:\n  name: bert\n"


def test_calls_answer_and_raise_as_those_of_the_async_client(server: str, world: World) -> None:
    with MusterSync(server) as muster:
        made = muster.submit(DOCUMENT, project="team-a")
        world.workloads[made.id].phase = workload_pb2.PHASE_COMPLETED
        assert muster.wait(made.id, timeout=10).phase == Phase.COMPLETED
        assert muster.get("bert", project="team-a").id == made.id
        assert muster.call(lambda m: m.projects.create("vision")).name == "vision"
        with pytest.raises(NotFound):
            muster.get("nobody", project="team-a")


def test_iterators_end_where_their_reader_ends(server: str, world: World) -> None:
    for number in range(5):
        world.add(f"w-{number}")
    with MusterSync(server) as muster:
        assert len(list(muster.list(page_size=2))) == 5
        assert [item.kind for item in islice(muster.watch(), 6)] == ["snapshot"] * 5 + ["snapshot-end"]
        assert [each.name for each in muster.each(lambda m: m.projects.list())] == world.projects


def test_a_log_as_lines_of_text(server: str, world: World) -> None:
    made = world.add("bert")
    world.log = [("worker-0", b"one\ntw"), ("worker-1", b"\xff\n"), ("worker-0", b"o\n\nend")]
    with MusterSync(server) as muster:
        lines = [(line.replica, line.text) for line in muster.log_lines(made.id)]
    assert lines == [
        ("worker-0", "one"),
        ("worker-1", "\ufffd"),
        ("worker-0", "two"),
        ("worker-0", ""),
        ("worker-0", "end"),
    ]


def test_a_client_that_cannot_begin_or_is_closed_leaves_no_thread(server: str) -> None:
    before = threading.active_count()
    with pytest.raises(Unavailable):
        MusterSync()
    muster = MusterSync(server, patience=Patience(attempt=1, whole=1))
    muster.close()
    muster.close()
    assert threading.active_count() <= before
    with pytest.raises(RuntimeError, match="closed"):
        muster.get("bert")


def test_every_call_has_the_same_parameters() -> None:
    own = {"call", "each", "close"}
    for name, method in inspect.getmembers(MusterSync, inspect.isfunction):
        if name.startswith("_") or name in own:
            continue
        assert inspect.signature(method).parameters == inspect.signature(getattr(Muster, name)).parameters, name
    asynchronous = {name for name, _ in inspect.getmembers(Muster, inspect.isfunction) if not name.startswith("_")}
    assert asynchronous - own <= set(dir(MusterSync))

"""Thread pools that are whole from the start."""

from __future__ import annotations

import threading

from muster_chassis.threads import filled_pool


def test_every_thread_of_a_pool_runs_from_the_start() -> None:
    def count() -> int:
        return sum(thread.name.startswith("of-this-test") for thread in threading.enumerate())

    with filled_pool(5, "of-this-test") as pool:
        assert count() == 5
        assert sorted(pool.map(abs, range(-20, 0))) == list(range(1, 21))
        assert count() == 5
    assert count() == 0

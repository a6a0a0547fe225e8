"""What the soak counts as an open descriptor."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ageing.gauges import descriptors


@pytest.fixture
def watched() -> Iterator[subprocess.Popen[bytes]]:
    """A process that this one watches by a descriptor."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        descriptor = os.pidfd_open(process.pid)
        try:
            yield process
        finally:
            os.close(descriptor)


def test_a_descriptor_counts_once_the_process_that_it_watches_has_ended(watched: subprocess.Popen[bytes]) -> None:
    me = Path("/proc/self")
    alive = descriptors(me)
    watched.kill()
    watched.wait()
    assert descriptors(me) == alive + 1


def test_other_descriptors_count(tmp_path: Path) -> None:
    me = Path("/proc/self")
    before = descriptors(me)
    with (tmp_path / "file").open("wb"):
        assert descriptors(me) == before + 1

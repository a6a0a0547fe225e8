"""A process that lowers its priority yields to others, and takes no other process along."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

LOWERED = """
import json, os
from muster_chassis import priority
priority.lower()
group = open("/proc/self/autogroup").read() if os.path.exists("/proc/self/autogroup") else ""
print(json.dumps({"nice": os.nice(0), "session": os.getsid(0), "pid": os.getpid(), "group": group}))
"""


def lowered(**how: Any) -> dict[str, Any]:
    """What a process says of itself after it has lowered its priority."""
    done = subprocess.run([sys.executable, "-c", LOWERED], check=True, capture_output=True, text=True, **how)
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_the_process_gets_a_lower_priority_and_a_session_of_its_own() -> None:
    told = lowered()
    assert told["nice"] == min(19, os.nice(0) + 10)
    assert told["session"] == told["pid"] != os.getsid(0)
    if told["group"]:
        assert told["group"].split()[-1] == "10"


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="this kernel does not group by session")
def test_without_a_session_of_its_own_the_session_that_it_shares_keeps_its_priority() -> None:
    before = Path("/proc/self/autogroup").read_text()
    told = lowered(process_group=0)  # the leader of a process group cannot open a session
    assert told["session"] == os.getsid(0)
    assert told["group"] == before == Path("/proc/self/autogroup").read_text()

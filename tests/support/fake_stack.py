"""A stack whose services are small scripts, run by the real keeper: `python fake_stack.py --data FOLDER [--servers]`.

Used by the keeper's tests, which kill it. `worker` serves, `crasher` ends at once, `agent-a` leaves a replica running
as a real agent does; with `--servers` there are the real Kafka and PostgreSQL and nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

from muster_stack import kafka
from muster_stack.errors import StackError
from muster_stack.keeper import sweep
from muster_stack.keeper.child import Part
from muster_stack.keeper.house import Keeper, only_one
from muster_stack.keeper.parts import Parts, compose, marks
from muster_stack.keeper.probes import Probe
from muster_stack.keeper.state import State
from muster_stack.layout import Layout
from muster_stack.processes import Command

_WORKER = "import pathlib, signal, sys; pathlib.Path(sys.argv[1]).touch(); signal.pause()"
_AGENT = """
import os, pathlib, signal, subprocess, sys
replicas = pathlib.Path(sys.argv[1] + ".replica")
if not replicas.exists():
    env = {**os.environ, "MUSTER_REPLICA": "w-1"}
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], env=env, start_new_session=True)
    replicas.write_text(str(child.pid))
pathlib.Path(sys.argv[1]).touch()
signal.pause()
"""


def _ready(mark: Path) -> Probe:
    """The script wrote its mark."""

    async def why_not() -> str | None:
        return None if await asyncio.to_thread(mark.exists) else f"{mark.name} is not there"

    return why_not


def _part(layout: Layout, name: str, script: str, *, owns_group: bool = True) -> Part:
    mark = layout.root / f"{name}.ready"

    def command() -> Command:
        mark.unlink(missing_ok=True)
        env = {**os.environ, **marks(layout, name)}
        return Command(argv=(sys.executable, "-c", script, str(mark)), log=layout.log(name), env=env)

    return Part(name=name, command=command, ready=_ready(mark), owns_group=owns_group, calm=0.05)


def _fakes(layout: Layout, *, crasher: bool) -> Parts:
    worker = _part(layout, "worker", _WORKER)
    agent = _part(layout, "agent-a", _AGENT, owns_group=False)
    crashing = (
        [_part(layout, "crasher", "import sys; print('no cheese', file=sys.stderr); sys.exit(3)")] if crasher else []
    )
    return Parts(rows=[[], [worker], [agent, *crashing]])


def _servers(state: State) -> Parts:
    parts = compose(state, kafka.prepare_runtime(), [])
    return Parts(rows=parts.rows[:1], kafka=parts.kafka)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--servers", action="store_true")
    parser.add_argument("--crasher", action="store_true")
    given = parser.parse_args()
    layout = Layout.of(given.data)

    async def keep() -> None:
        state = State.load(layout)
        parts = _servers(state) if given.servers else _fakes(layout, crasher=given.crasher)
        await Keeper(state, parts, say=lambda text: print(text, flush=True)).run()

    try:
        with only_one(layout):
            sweep.end_services(layout)
            asyncio.run(keep())
    except StackError as error:
        print(error, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

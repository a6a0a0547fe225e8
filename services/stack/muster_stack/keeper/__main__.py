"""`python -m muster_stack.keeper --data FOLDER`: the process that `muster up` becomes. It imports no gRPC."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import get_args

from muster_stack import kafka
from muster_stack.clusters import declared, write_defaults
from muster_stack.errors import StackError
from muster_stack.keeper import sweep
from muster_stack.keeper.house import Keeper, only_one
from muster_stack.keeper.instances import read_counts
from muster_stack.keeper.parts import compose
from muster_stack.keeper.state import LogLevel, Options, State
from muster_stack.layout import Layout


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m muster_stack.keeper", description=__doc__)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--instances", default="")
    parser.add_argument("--hold", action="store_true")
    parser.add_argument("--auth", action="store_true")
    parser.add_argument("--empty-kafka", action="store_true")
    parser.add_argument("--log-level", default="info", choices=get_args(LogLevel))
    return parser.parse_args()


async def _keep(layout: Layout, options: Options, *, empty_kafka: bool) -> None:
    runtime = kafka.prepare_runtime(_say)
    write_defaults(layout)
    clusters = declared(layout)
    state = State.load(layout)
    state.options = options
    try:
        parts = compose(state, runtime, clusters)
        if empty_kafka and parts.kafka is not None:
            parts.kafka.wipe()
        await Keeper(state, parts, register=[cluster.name for cluster in clusters], say=_say).run()
    finally:
        state.release()


def main() -> int:
    """Keeps a stack until it is told to stop; 0 when it ended in order."""
    given = _arguments()
    layout = Layout.of(given.data)
    try:
        with only_one(layout):
            if left := sweep.end_services(layout):
                _say(f"ended {left} processes that a killed keeper had left behind")
            options = Options(read_counts(given.instances), given.hold, given.auth, given.log_level)
            asyncio.run(_keep(layout, options, empty_kafka=given.empty_kafka))
    except StackError as error:
        _say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

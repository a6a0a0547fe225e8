"""The verbs `muster keys rotate ...`: new keys and passwords for a running stack.

Each kind of key adds its own verb to `rotate`.
"""

from __future__ import annotations

import sys
from typing import Final

from cyclopts import App

from muster_stack.commands import Data
from muster_stack.errors import StackError
from muster_stack.keeper.control import Stack
from muster_stack.layout import Layout

app: Final = App(name="keys", help="Keys and passwords of a stack.")
rotate: Final = App(name="rotate", help="Replace keys of a running stack.")
app.command(rotate)


@rotate.command(name="kafka")
def rotate_kafka(*, data: Data = None) -> int:
    """Give every user of Kafka a new password.

    Kafka starts again, which ends the connections that were opened with old passwords. Services and agents read the new
    ones by themselves; programs outside have to read their password files again.
    """
    try:
        names = Stack(Layout.of(data)).rotate_kafka()
    except StackError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"new passwords for {', '.join(names)}\n")
    return 0

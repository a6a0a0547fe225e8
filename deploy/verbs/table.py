"""Which verbs there are, and what each says of itself.

Called by deploy/dev.py only. Holds: a verb is a function without arguments that answers an exit code.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Final

from verbs.protos import proto
from verbs.shell import VerbFailed, say

VERBS: Final[dict[str, tuple[Callable[[], int], str]]] = {
    "proto": (proto, "generate the Python code of protos/ into services/contracts"),
}


def usage() -> str:
    """The list of verbs, for a person."""
    width = max(map(len, VERBS))
    lines = [f"  {name:<{width}}  {meaning}" for name, (_, meaning) in VERBS.items()]
    return "\n".join(["usage: make VERB   or   python3 deploy/dev.py VERB", "", *lines])


def main(arguments: Sequence[str]) -> int:
    """Runs one verb and answers its exit code; 2 where there is no such verb."""
    if len(arguments) != 1 or arguments[0] not in VERBS:
        print(usage(), file=sys.stderr)
        return 2
    verb, _ = VERBS[arguments[0]]
    try:
        return verb()
    except VerbFailed as failed:
        if str(failed):
            say(str(failed))
        return failed.code
    except KeyboardInterrupt:
        return 130

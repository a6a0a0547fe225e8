"""Commands that start torchrun: whose torch it is, with which arguments, and whether late replicas can join.

Called by the agent, which gives torchrun its rendezvous, by the scheduler, which lets only such gangs grow whose late
replicas are let in, and by the language and the client, which say so.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from muster_kernel.words import split

_PROGRAM: Final = "torchrun"
_MODULE: Final = "torch.distributed.run"
# Whoever says these has arranged how replicas meet, and for how many; flags win over what the agent sets.
_OWN_MEETING: Final = ("--nnodes", "--standalone", "--rdzv", "--node-rank", "--node_rank", "--master")


class Torch(NamedTuple):
    """A call of torchrun. python: the interpreter, or a path to torchrun beside it; empty: whichever there is."""

    arguments: tuple[str, ...]
    python: str


def torchrun_of(argv: tuple[str, ...]) -> Torch | None:
    """The words of a command as a call of torchrun, or None where it starts something else."""
    program = argv[0].rpartition("/")[2] if argv else ""
    if program == _PROGRAM:
        return Torch(argv[1:], argv[0] if "/" in argv[0] else "")
    if program.startswith("python") and argv[1:3] == ("-m", _MODULE):
        return Torch(argv[3:], argv[0])
    return None


class Between(NamedTuple):
    """With how many workers an elastic gang goes on, and to how many it grows while there is room."""

    least: int
    most: int


def elastic_between(workers: int, least: int, most: int, command: str, args: str) -> Between | None:
    """What a gang of `workers` becomes by its minReplicas and maxReplicas (0: not said); None where it is not elastic.

    A gang whose late replicas could not join runs with all its workers.
    """
    low, high = least or workers, most or workers
    return Between(low, high) if 0 < low < high and lets_late_ones_in(command, args) else None


def lets_late_ones_in(command: str, args: str) -> bool:
    """Whether replicas that start later can join those that run: torchrun by a meeting that is left to the agent."""
    try:
        torch = torchrun_of(split(command) + split(args))
    except ValueError:
        return False
    return torch is not None and not any(word.startswith(_OWN_MEETING) for word in torch.arguments)

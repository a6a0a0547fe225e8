"""Four ranks of MPI add up a vector, and each checks the sum.

A user's program, started by mpirun over the workers. The last line of rank 0 is a JSON summary.
"""

from __future__ import annotations

import json
import os

from mpi4py import MPI

LENGTH = 1000


def main() -> None:
    """Adds, checks, and prints how it went."""
    world = MPI.COMM_WORLD
    rank, size = world.Get_rank(), world.Get_size()
    mine = [float((rank + 1) * (index + 1)) for index in range(LENGTH)]
    total = world.allreduce(mine, op=add)
    ranks = size * (size + 1) // 2
    right = all(value == float(ranks * (index + 1)) for index, value in enumerate(total))
    seen = world.gather((rank, os.environ.get("MUSTER_INDEX", "?"), right), root=0) or []
    if rank == 0:
        workers = {str(each): worker for each, worker, _ in seen}
        summary = {"ranks": size, "right": all(ok for _, _, ok in seen), "sum": total[0], "workers": workers}
        print(json.dumps(summary))


def add(left: list[float], right: list[float]) -> list[float]:
    """The sum of two vectors."""
    return [one + other for one, other in zip(left, right, strict=True)]


if __name__ == "__main__":
    main()

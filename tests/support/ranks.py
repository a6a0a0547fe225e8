"""A stand-in for torch where it is not installed: a few lines that start the ranks of one node, one after the other.

Called by tests of who starts ranks, where, and what becomes of their end; what torch itself does is tested where it is
installed (mark `torch`).
"""

from __future__ import annotations

from pathlib import Path

_RUN = """
import os, subprocess, sys
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

def main(arguments):
    ranks = int(arguments[0].removeprefix("--nproc_per_node="))
    program = arguments[next(at for at, each in enumerate(arguments) if not each.startswith("--")):]
    first = int(os.environ["PET_NODE_RANK"]) * ranks
    world = str(int(os.environ["PET_NNODES"]) * ranks)
    for rank in range(first, first + ranks):
        env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": world}
        code = subprocess.call([sys.executable, *program], env=env)
        if code:
            raise ChildFailedError(rank, code)
"""
_ERRORS = """
class Failure:
    def __init__(self, code):
        self.exitcode = code

class ChildFailedError(Exception):
    def __init__(self, rank, code):
        self.failures = {rank: Failure(code)}
    def get_first_failure(self):
        return next(iter(self.failures.items()))
"""


def torch_stand_in(folder: Path) -> Path:
    """Writes it into a folder; the answer goes into PYTHONPATH."""
    for name, text in (("run.py", _RUN), ("elastic/multiprocessing/errors.py", _ERRORS)):
        file = folder / "site" / "torch" / "distributed" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder / "site"

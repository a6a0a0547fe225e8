"""Kernels: loops over columns, compiled where numba is installed, and the very same Python where it is not.

Used as a decorator by every file with a kernel. Nothing is compiled at import but at the first call, and what has been
compiled is kept on disk; whoever must not stall calls its kernels once beforehand.
Holds: a kernel does integer arithmetic alone, so that both ways give the same answers, bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypeVar, cast

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

_njit: Callable[..., Any] | None
config: Any
try:
    from numba import config
    from numba import njit as _njit
except ImportError:  # everything works without it, only slower
    _njit, config = None, None
_GIVEN: Final = str(config.CACHE_DIR) if config else ""  # NUMBA_CACHE_DIR, where somebody has set it


def compiled(kernel: Kernel) -> Kernel:
    """The kernel, to be compiled when it is first called. Its Python twin stays reachable through `python_of`."""
    return _compiled(kernel)


def lean(kernel: Kernel) -> Kernel:
    """`compiled` for a kernel that makes no array and no list, and whose callees make none either.

    Its arrays are not counted at every call, and it becomes a part of the kernels that call it: between small ones that
    hand tuples of arrays to one another the counting costs fifteen times what they do, and the handing up to thirty.
    """
    return _compiled(kernel, _nrt=False, forceinline=True)


def _compiled(kernel: Kernel, **options: bool) -> Kernel:
    if _njit is None:
        return kernel
    config.CACHE_DIR = str(_folder(Path(kernel.__code__.co_filename).parent))
    try:
        return cast("Kernel", _njit(cache=True, **options)(kernel))
    except RuntimeError:  # no folder to keep it in: compiled anew by every process
        return cast("Kernel", _njit(**options)(kernel))


@cache
def _folder(room: Path) -> Path:
    """Where the kernels of one folder of sources are kept: another place whenever one of its files has changed.

    By itself numba looks only at the file of the kernel that is called, and would go on with old callees of it, or with
    what was compiled otherwise.
    """
    stamp = sha256(Path(__file__).read_bytes())
    for source in sorted(room.glob("*.py")):
        text = source.read_bytes()
        if b"compiling import" in text:
            stamp.update(text)
    return Path(_GIVEN or room / "__pycache__") / f"kernels-{stamp.hexdigest()[:12]}"


def python_of(kernel: Kernel) -> Kernel:
    """The kernel as plain Python: the oracle of the compiled one."""
    return cast("Kernel", getattr(kernel, "py_func", kernel))

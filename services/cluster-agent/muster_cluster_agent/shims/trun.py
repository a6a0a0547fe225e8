"""Runs torchrun and keeps what it loses: the child's true exit code, its rank, and every failure (replicas.md 3.3).

    python trun.py <arguments of torchrun>

Writes a JSON record to $MUSTER_RECORD and exits with the code of the first child that failed; 128 + n for signal n.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

_LARGEST_RECORD = 4096  # bytes: what a pod's termination message can hold


def main() -> int:
    """Runs torchrun's own main in this process."""
    from torch.distributed import run  # noqa: PLC0415  only here is torch needed, and its absence is an answer, not a crash
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError  # noqa: PLC0415

    try:
        run.main(sys.argv[1:])
    except ChildFailedError as failed:
        rank, first = failed.get_first_failure()
        code = _code(first.exitcode)
        failures = {str(each): _code(failure.exitcode) for each, failure in failed.failures.items()}
        record({"ok": False, "rank": rank, "exit_code": code, "all": failures})
        return code
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        record({"ok": code == 0, "exit_code": code})
        return code
    except BaseException as failure:  # noqa: BLE001  whatever ended torchrun is the record
        record({"ok": False, "exit_code": 1, "error": repr(failure)[:1000]})
        return 1
    record({"ok": True, "exit_code": 0})
    return 0


def _code(exit_code: int) -> int:
    return 128 - exit_code if exit_code < 0 else exit_code


def record(content: dict[str, Any]) -> None:
    """Leaves the record where it is looked for."""
    path = os.environ.get("MUSTER_RECORD")
    if not path:
        return
    text = json.dumps(content)
    if len(text) > _LARGEST_RECORD:
        text = json.dumps({key: value for key, value in content.items() if key != "all"})
    draft = f"{path}.new"
    try:
        _write(draft, text)
        os.replace(draft, path)
    except OSError:  # a pod's termination message is a mounted file, which is written in its place
        _write(path, text)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    sys.exit(main())

"""Several trials one after the other in one replica, where a training has more completions than parallelism.

    python -I -S series.py <first> <end> <step> <words of the command>

Each trial runs with its own number as POD_INDEX, in its environment and wherever its words say ${POD_INDEX} or
$(POD_INDEX). Ends with the code of the first trial that failed, 128 + n for signal n; the trials after it do not run.
"""

from __future__ import annotations

import os
import subprocess
import sys

_NAMES = ("${POD_INDEX}", "$(POD_INDEX)")
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126


def run(words: list[str], index: int) -> int:
    """One trial."""
    for name in _NAMES:
        words = [word.replace(name, str(index)) for word in words]
    try:
        code = subprocess.call(words, env={**os.environ, "POD_INDEX": str(index)})
    except FileNotFoundError as error:
        sys.stderr.write(f"muster: {error}\n")
        return _NOT_FOUND
    except OSError as error:
        sys.stderr.write(f"muster: {error}\n")
        return _NOT_EXECUTABLE
    return 128 - code if code < 0 else code


def main() -> int:
    """The trials in the order of their numbers."""
    first, end, step = (int(word) for word in sys.argv[1:4])
    for index in range(first, end, step):
        code = run(sys.argv[4:], index)
        if code:
            sys.stderr.write(f"muster: trial {index} ended with {code}\n")
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())

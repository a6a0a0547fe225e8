"""The verbs of this repository: `python3 deploy/dev.py VERB`, or `make VERB`, which does the same.

Standard library only: it runs on a machine that has nothing but Python 3.11 and pip, and installs the rest.
"""

from __future__ import annotations

import sys

if sys.version_info < (3, 11):  # noqa: UP036  said in words: an older Python would end in a traceback about syntax
    sys.exit(
        f"muster: Python 3.11 or newer is needed, this is {sys.version.split()[0]}; try `python3.11 deploy/dev.py`"
    )

from verbs.table import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""A user's program that calls a service: it asks for squares at the address of its argument and says who answered.

Standard library only. Each question has a connection of its own. The last line is a JSON summary.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.request

QUESTIONS = 40
SECONDS = 5.0
PAUSE = 0.05  # seconds between two questions


def main() -> None:
    """Asks, and prints how it went."""
    address = sys.argv[1]
    replicas, wrong = set(), 0
    for number in range(QUESTIONS):
        with urllib.request.urlopen(f"{address}/square?n={number}", timeout=SECONDS) as answer:  # noqa: S310
            told = json.loads(answer.read())
        replicas.add(told["replica"])
        time.sleep(PAUSE)
        wrong += told["square"] != number * number
    print(json.dumps({"questions": QUESTIONS, "wrong": wrong, "replicas": sorted(replicas)}))


if __name__ == "__main__":
    main()

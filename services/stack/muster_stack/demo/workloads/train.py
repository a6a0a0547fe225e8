"""A small training: a line is fitted to noisy points, step by step, and every step is kept.

A user's program: standard library only, it knows nothing of Muster but its environment. Its last line is a JSON
summary. Stopped and started again it goes on where it was, if CHECKPOINT names a file: it lies in the folder that the
workload keeps over all its starts.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

RATE = 0.02


def main() -> None:
    """Fits the line and prints how it went."""
    # The first process of a container gets no signal that it does not handle.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--pause", type=float, default=0.05, help="seconds a step takes at least")
    asked = parser.parse_args()
    points = [(x, 3.0 * x - 1.0 + random.Random(x).uniform(-0.1, 0.1)) for x in range(-5, 6)]  # noqa: S311
    state = load()
    resumed_at = state["step"]
    print(f"training on {os.environ.get('CUDA_VISIBLE_DEVICES') or 'the slots that the cluster pins'}")
    if resumed_at:
        print(f"going on at step {resumed_at}")
    while state["step"] < asked.steps:
        step(state, points)
        save(state)
        if state["step"] % 10 == 0:
            print(f"step {state['step']:4d}  loss {state['loss']:.5f}")
        time.sleep(asked.pause)
    summary = {
        "steps": state["step"],
        "resumed_at": resumed_at,
        "first_loss": state["first_loss"],
        "last_loss": state["loss"],
        "devices": json.loads(os.environ.get("MUSTER_DEVICES", "[]")),
        "dataset": os.environ.get("DATASET", ""),
        "attempt": os.environ.get("MUSTER_ATTEMPT", ""),
    }
    print(json.dumps(summary))


def step(state: dict[str, float], points: list[tuple[int, float]]) -> None:
    """One step of gradient descent over all points."""
    errors = [(x, state["slope"] * x + state["offset"] - y) for x, y in points]
    state["loss"] = sum(error * error for _, error in errors) / len(errors)
    state["first_loss"] = state["first_loss"] or state["loss"]
    state["slope"] -= RATE * 2 * sum(error * x for x, error in errors) / len(errors)
    state["offset"] -= RATE * 2 * sum(error for _, error in errors) / len(errors)
    state["step"] += 1


def load() -> dict[str, float]:
    """Where an earlier start of this training stopped, or the beginning."""
    kept = checkpoint()
    if kept is not None and kept.exists():
        state: dict[str, float] = json.loads(kept.read_text(encoding="utf-8"))
        return state
    return {"step": 0, "slope": 0.0, "offset": 0.0, "loss": 0.0, "first_loss": 0.0}


def checkpoint() -> Path | None:
    """The file that keeps the state, if the training has one."""
    name = os.environ.get("CHECKPOINT")
    return Path(os.environ.get("MUSTER_WORKLOAD_DIR", "."), name) if name else None


def save(state: dict[str, float]) -> None:
    """Keeps this step; whoever is stopped in the middle of it finds the one before."""
    kept = checkpoint()
    if kept is not None:
        partial = kept.with_name(f"{kept.name}.partial")
        partial.write_text(json.dumps(state), encoding="utf-8")
        partial.replace(kept)


if __name__ == "__main__":
    main()

"""A user's program for an elastic gang: each start of the training processes prints how many there are, and goes on."""

from __future__ import annotations

import time

import torch.distributed as dist


def main() -> None:
    """Meets the others again and again, for ever."""
    dist.init_process_group("gloo")
    print("world", dist.get_world_size(), flush=True)
    while True:
        dist.barrier()
        time.sleep(0.2)


if __name__ == "__main__":
    main()

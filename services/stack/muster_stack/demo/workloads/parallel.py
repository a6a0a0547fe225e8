"""A data-parallel training: a small network learns the sine, each process on a part of the points of its own.

A user's program, started by torchrun: two workers with two processes each make a world of four. Gradients meet over
gloo. The last line of rank 0 is a JSON summary.
"""

from __future__ import annotations

import json
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = 120


def main() -> None:
    """Trains, and prints how it went."""
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    print(f"rank {rank} of {world} in worker {os.environ.get('MUSTER_INDEX', '?')}")
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(1, 24), torch.nn.Tanh(), torch.nn.Linear(24, 1))
    model = DistributedDataParallel(network)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    points = torch.linspace(-3.0, 3.0, 64 * world)[rank::world].unsqueeze(1)
    losses = []
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(points), torch.sin(points))
        torch.autograd.backward(loss)
        optimizer.step()
        losses.append(mean(loss.detach(), world))
        if rank == 0 and step % 40 == 0:
            print(f"step {step:4d}  loss {losses[-1]:.5f}")
    same = in_step(network, world)
    if rank == 0:
        summary = {"world": world, "first_loss": losses[0], "last_loss": losses[-1], "in_step": same}
        print(json.dumps(summary))
    dist.destroy_process_group()


def mean(value: torch.Tensor, world: int) -> float:
    """The mean of a number over all ranks."""
    total = value.clone()
    dist.all_reduce(total)
    return float(total) / world


def in_step(network: torch.nn.Module, world: int) -> bool:
    """Whether every rank has come to the very same weights: what data parallelism promises."""
    mine = torch.cat([parameter.detach().flatten() for parameter in network.parameters()])
    sums = mine.clone()
    dist.all_reduce(sums)
    return bool(torch.allclose(sums / world, mine, atol=1e-5))


if __name__ == "__main__":
    main()

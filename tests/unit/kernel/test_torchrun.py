"""Which commands start torchrun, and which of these leave the meeting of replicas to the agent."""

from __future__ import annotations

import pytest

from muster_kernel.torchrun import Torch, lets_late_ones_in, torchrun_of


@pytest.mark.parametrize(
    ("argv", "torch"),
    [
        (("torchrun", "train.py"), Torch(("train.py",), "")),
        (("/venv/bin/torchrun", "train.py"), Torch(("train.py",), "/venv/bin/torchrun")),
        (("python3", "-m", "torch.distributed.run", "t.py"), Torch(("t.py",), "python3")),
        (("python", "train.py"), None),
        (("mytorchrun", "train.py"), None),
        ((), None),
    ],
)
def test_a_call_of_torchrun_is_told_from_other_commands(argv: tuple[str, ...], torch: Torch | None) -> None:
    assert torchrun_of(argv) == torch


@pytest.mark.parametrize(
    ("command", "args", "joins"),
    [
        ("torchrun train.py", "--steps 5", True),
        ("torchrun", "--max-restarts=3 train.py", True),
        ("torchrun --nnodes=4 train.py", "", False),
        ("torchrun", "--standalone train.py", False),
        ("torchrun --rdzv-backend c10d train.py", "", False),
        ("python train.py", "", False),
        ("", "", False),
        ("torchrun 'open", "", False),
    ],
)
def test_late_replicas_join_only_what_leaves_the_meeting_to_the_agent(command: str, args: str, joins: bool) -> None:
    assert lets_late_ones_in(command, args) is joins

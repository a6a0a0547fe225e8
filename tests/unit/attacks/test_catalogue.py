"""Every attack names a test in which it works, and what others feel is judged as the bound says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attacks.attack import Actor, Attack
from tests.attacks.catalogue import attacks
from tests.attacks.run import tracebacks
from tests.attacks.stage import Stage
from tests.attacks.windows import Felt

_ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("attack", attacks(), ids=lambda attack: attack.name)
def test_an_attack_names_the_test_in_which_it_works(attack: Attack) -> None:
    path, _, test = attack.proof.partition("::")
    assert f"def {test.partition('[')[0]}(" in (_ROOT / path).read_text(), attack.proof


def test_names_of_attacks_are_unique_and_their_rows_exist() -> None:
    names = [each.name for each in attacks()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("before", "during", "refused", "kept"),
    [
        (100.0, 150.0, (), True),
        (100.0, 151.0, (), False),
        (10.0, 35.0, (), True),  # 25 ms more are allowed, whatever the ratio
        (10.0, 36.0, (), False),
        (10.0, 10.0, ("Unavailable: busy",), False),
    ],
)
def test_others_may_feel_half_as_much_again_or_25_ms(
    before: float, during: float, refused: tuple[str, ...], kept: bool
) -> None:
    assert Felt(before, during, 1000, refused, ()).kept is kept


def test_tracebacks_are_found_by_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "policy.log").write_text("fine\n")
    (tmp_path / "submission.log").write_text("fine\nTraceback (most recent call last):\n  File\n")
    assert tracebacks(tmp_path) == ["submission.log:2"]


def test_a_stage_travels_to_another_process() -> None:
    stage = Stage("/tmp/x", "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", {"a.grpc": "b"}, {Actor.VIEWER: "t"}, "p", "q")
    assert Stage.from_json(stage.to_json()) == stage

"""The locks hold no address, and hold what every room asks for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from verbs import lock
from verbs.paths import LOCK, ROOT, TORCH_LOCK, rooms
from verbs.shell import VerbFailed

PIN = re.compile(r"^([a-z0-9][a-z0-9._-]*)(?:\[[^]]*\])?==([^ ;\\]+)", re.MULTILINE)


def pins(file: Path) -> dict[str, set[Version]]:
    """The versions of each package in a lock; several where they differ by Python version."""
    found: dict[str, set[Version]] = {}
    for name, version in PIN.findall(file.read_text(encoding="utf-8")):
        found.setdefault(name, set()).add(Version(version))
    return found


def asked_for() -> list[tuple[str, Requirement]]:
    lines: list[tuple[str, str]] = []
    for room in rooms():
        with (room / "pyproject.toml").open("rb") as file:
            lines += [(room.name, line) for line in tomllib.load(file)["project"].get("dependencies", [])]
    with (ROOT / "pyproject.toml").open("rb") as file:
        groups = tomllib.load(file)["dependency-groups"]
    lines += [(group, line) for group in groups if group != "torch" for line in groups[group] if isinstance(line, str)]
    return [(source, Requirement(line)) for source, line in lines]


def test_the_lock_satisfies_every_room() -> None:
    locked = pins(LOCK)
    missing = [
        f"{source}: {wanted}"
        for source, wanted in asked_for()
        if not wanted.name.startswith("muster-")
        and not all(wanted.specifier.contains(v) for v in locked.get(wanted.name.lower(), {Version("0")}))
    ]
    assert not missing, "run `make lock`"


@pytest.mark.parametrize("file", [LOCK, TORCH_LOCK], ids=lambda file: file.name)
def test_a_lock_holds_no_address_and_no_folder(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert not re.findall(r"\w+://\S+|^(?:-e|-i|--\w*index\S*|--find-links).*$", text, re.MULTILINE)


@pytest.mark.parametrize("file", [LOCK, TORCH_LOCK], ids=lambda file: file.name)
def test_each_pin_has_a_hash(file: Path) -> None:
    blocks = re.split(r"\n(?=[a-z0-9])", file.read_text(encoding="utf-8"))
    assert [block for block in blocks if "==" in block.splitlines()[0] and "--hash=sha256:" not in block] == []


def test_both_locks_agree_where_they_overlap() -> None:
    main, torch = pins(LOCK), pins(TORCH_LOCK)
    assert {name: torch[name] for name in main.keys() & torch.keys()} == {
        name: main[name] for name in main.keys() & torch.keys()
    }


def test_an_address_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "requirements.lock"
    with pytest.raises(VerbFailed, match="address"):
        lock.write(target, "a==1 \\\n    --hash=sha256:00\n--index-url https://mirror.example/simple\n")
    assert not target.exists()


def test_our_own_rooms_are_left_out_of_the_lock() -> None:
    assert lock.without_local("-e ./services/kernel\na==1\n") == f"{lock.HEADER}a==1\n"

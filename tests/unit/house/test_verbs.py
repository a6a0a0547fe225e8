"""The verbs' pure parts: what they check, compare and decide before they run anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from verbs import bootstrap, machine, protos, shell, table, tests
from verbs.paths import ROOT

GIB = machine.GIB
NEED = machine.Need("a thing", disk=3 * GIB, memory=2 * GIB)


@pytest.mark.parametrize(
    ("disk", "memory", "says"),
    [
        (4 * GIB, 4 * GIB, None),
        (3 * GIB, 2 * GIB, None),
        (4 * GIB, None, None),
        (3 * GIB - 1, 4 * GIB, "3 GB of disk are needed and 3.0 GB are free under /somewhere"),
        (4 * GIB, GIB, "2 GB of memory are needed and 1.0 GB are available"),
    ],
)
def test_a_shortage_says_what_is_needed_and_what_is_there(disk: int, memory: int | None, says: str | None) -> None:
    sentence = machine.shortage(NEED, disk=disk, memory=memory, folder=Path("/somewhere"))
    assert sentence is None if says is None else sentence is not None and says in sentence


def test_available_memory_is_read_in_kibibytes() -> None:
    assert machine.available_memory_in("MemTotal: 9 kB\nMemAvailable:   2048 kB\n") == 2 << 20
    assert machine.available_memory_in("MemTotal: 9 kB\n") is None


def write_tree(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_generated_code_is_replaced_and_what_is_stale_goes(tmp_path: Path) -> None:
    fresh = write_tree(tmp_path / "fresh", {"same.py": "1", "new/a.py": "2", "changed.py": "3"})
    there = write_tree(
        tmp_path / "there", {"same.py": "1", "changed.py": "old", "gone/b.py": "4", "gone/__pycache__/b.pyc": "5"}
    )
    assert protos.difference(fresh, there) == ["changed.py", "gone/b.py", "new/a.py"]
    assert protos.replace_tree(fresh, there) == ["changed.py", "gone/b.py", "new/a.py"]
    assert protos.tree(there) == protos.tree(fresh)
    assert not (there / "gone").exists()
    assert protos.replace_tree(fresh, there) == []


def test_every_generated_folder_becomes_a_typed_package(tmp_path: Path) -> None:
    write_tree(tmp_path, {"muster/events/v1/events_pb2.py": ""})
    protos.write_packages(tmp_path)
    assert sorted(protos.tree(tmp_path / "muster")) == [
        "__init__.py",
        "events/__init__.py",
        "events/v1/__init__.py",
        "events/v1/events_pb2.py",
        "py.typed",
    ]


@pytest.mark.parametrize(
    ("text", "found"), [("service FleetService {", True), ("// service x", False), ("message A {}", False)]
)
def test_only_protos_with_services_get_stubs(text: str, found: bool) -> None:
    assert bool(protos.SERVICE.search(f'syntax = "proto3";\n{text}\n')) is found


def test_a_stamp_holds_for_its_key_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "PYTHON", Path(sys.executable))
    stamp = tmp_path / "stamp"
    assert not bootstrap.stamped(stamp, "k")
    stamp.write_text("k")
    assert bootstrap.stamped(stamp, "k")
    assert not bootstrap.stamped(stamp, "other")


def test_the_key_changes_with_a_file_and_with_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "ROOT", tmp_path)
    write_tree(tmp_path, {"a": "1", "b": "1"})
    a, b = tmp_path / "a", tmp_path / "b"
    before = bootstrap.digest([a])
    assert before != bootstrap.digest([b])
    assert before != bootstrap.digest([a], "3.12")
    a.write_text("2")
    assert before != bootstrap.digest([a])


def test_a_failed_command_ends_its_verb_with_its_code() -> None:
    with pytest.raises(shell.VerbFailed) as failed:
        shell.run([sys.executable, "-c", "raise SystemExit(7)"])
    assert failed.value.code == 7
    assert shell.code_of([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]) == 137


def test_an_unknown_verb_is_answered_with_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert table.main(["dance"]) == 2
    said = capsys.readouterr().err
    assert all(verb in said for verb in table.VERBS)


def test_no_verb_is_a_question_and_no_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert table.main([]) == 0
    said = capsys.readouterr().out
    assert all(verb in said for verb in table.VERBS)


def test_make_knows_the_same_verbs() -> None:
    verbs = re.search(r"^VERBS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert verbs is not None
    assert set(verbs.group(1).split()) == set(table.VERBS)


def test_the_pure_packages_are_the_kernel_and_every_domain(tmp_path: Path) -> None:
    write_tree(tmp_path, {"scheduler/muster_scheduler/domain/a.py": "", "policy/muster_policy/app.py": ""})
    assert [path.relative_to(tmp_path).as_posix() for path in tests.pure_packages(tmp_path)] == [
        "kernel/muster_kernel",
        "scheduler/muster_scheduler/domain",
    ]


def test_coverage_is_judged_package_by_package() -> None:
    files = {
        "k/a.py": {"summary": {"num_statements": 90, "covered_lines": 90}},
        "k/b.py": {"summary": {"num_statements": 10, "covered_lines": 0}},
        "kk/c.py": {"summary": {"num_statements": 10, "covered_lines": 10}},
    }
    assert tests.coverage_by_package(files, ["k", "kk", "empty"]) == {"k": 90.0, "kk": 100.0, "empty": 100.0}


def test_the_verbs_need_the_standard_library_only() -> None:
    """-I and -S: no site-packages, as on a machine where nothing is installed yet."""
    code = "import sys; sys.path.insert(0, 'deploy'); import verbs.table"
    assert subprocess.run([sys.executable, "-I", "-S", "-c", code], cwd=ROOT, check=False).returncode == 0


def test_make_chaos_with_a_seed_alone_uses_its_own_number_of_kills() -> None:
    """Make exports a variable that is not given as an empty one."""
    here = {**os.environ, "SEED": "2", "KILLS": ""}
    shown = subprocess.run(
        [sys.executable, ROOT / "tests" / "chaos" / "run.py", "--help"], env=here, capture_output=True, check=False
    )
    assert shown.returncode == 0, shown.stderr.decode()

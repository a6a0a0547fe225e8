"""The arrows of docs/architecture.md, section 1, hold, and import-linter would say so where one did not.

A copy of the house is built out of empty packages with the real configuration; then wrong imports are put into it, and
each must be named.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import pytest

from verbs.paths import ROOT

ROOMS: Final = ("app", "rpc", "stream", "adapters", "handlers", "ports", "domain")
SERVICES: Final = ("submission", "policy", "scheduler", "cluster_agent", "telemetry")

# importer -> imported, and the contract that forbids it
FORBIDDEN: Final = (
    ("muster_policy.app", "muster_scheduler.app", "rooms"),
    ("muster_chassis", "muster_policy.app", "rooms"),
    ("muster_kernel", "muster_chassis", "rooms"),
    ("muster_scheduler.app", "muster_language", "language"),
    ("muster_telemetry.app", "muster_language", "language"),
    ("muster_scheduler.app", "muster_policy_engine", "language"),
    ("muster_language", "muster_policy_engine", "rooms"),
    ("muster_policy_engine", "muster_policy.app", "rooms"),
    ("muster_policy_engine", "asyncpg", "engine"),
    ("muster_client", "muster_chassis", "client"),
    ("muster_client", "aiokafka", "client"),
    ("muster_client", "muster_stack", "client"),
    ("muster_stack", "muster_scheduler.app", "stack"),
    ("muster_stack", "muster_chassis", "stack"),
    ("muster_scheduler.domain", "muster_scheduler.ports", "inside"),
    ("muster_scheduler.ports", "muster_scheduler.adapters", "inside"),
    ("muster_scheduler.handlers", "muster_scheduler.adapters", "inside"),
    ("muster_policy.rpc", "muster_policy.stream", "inside"),
    ("muster_policy.adapters", "muster_policy.app", "inside"),
    ("muster_scheduler.domain.fleet", "muster_scheduler.domain.books", "scheduler"),
    ("muster_scheduler.domain.room", "muster_scheduler.domain.turning", "scheduler"),
    ("muster_scheduler.domain.placement", "muster_scheduler.domain.answers", "scheduler"),
    ("muster_kernel", "numpy", "kernel"),
    ("muster_cluster_agent.domain", "asyncio", "pure"),
    ("muster_cluster_agent.domain", "muster_chassis", "pure"),
    ("muster_submission.domain", "google.protobuf", "pure"),
    ("muster_kernel", "uuid", "pure"),
)


def configuration() -> dict[str, object]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return dict(tomllib.load(file)["tool"]["importlinter"])


def rooms_of_the_scheduler() -> list[str]:
    contracts = configuration()["contracts"]
    assert isinstance(contracts, list)
    (layers,) = (contract["layers"] for contract in contracts if contract["id"] == "scheduler")
    return [room.strip() for layer in layers for room in layer.split("|")]


def house(folder: Path) -> Path:
    """Every root package, each service with its rooms, all empty."""
    roots = configuration()["root_packages"]
    assert isinstance(roots, list)
    for package in roots:
        (folder / package).mkdir()
        (folder / package / "__init__.py").touch()
    for service in SERVICES:
        for room in ROOMS:
            (folder / f"muster_{service}" / f"{room}.py").touch()
    (folder / "muster_scheduler" / "domain.py").unlink()
    domain = folder / "muster_scheduler" / "domain"
    domain.mkdir()
    for room in ("__init__", *rooms_of_the_scheduler()):
        (domain / f"{room}.py").touch()
    (folder / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    return folder


def put_import(folder: Path, importer: str, imported: str) -> None:
    path = folder.joinpath(*importer.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    with file.open("a") as source:
        source.write(f"import {imported}\n")


def lint_imports(folder: Path, *contracts: str) -> subprocess.CompletedProcess[str]:
    chosen = [word for contract in contracts for word in ("--contract", contract)]
    return subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-logo", "--no-cache", *chosen],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder), "COLUMNS": "250"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_house_without_a_wrong_import_is_clean(tmp_path: Path) -> None:
    answer = lint_imports(house(tmp_path))
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "0 broken" in answer.stdout


@pytest.mark.parametrize("contract", sorted({contract for _, _, contract in FORBIDDEN}))
def test_each_wrong_import_is_named(tmp_path: Path, contract: str) -> None:
    folder = house(tmp_path)
    wrong = [(importer, imported) for importer, imported, forbids in FORBIDDEN if forbids == contract]
    for importer, imported in wrong:
        put_import(folder, importer, imported)
    answer = lint_imports(folder, contract)
    assert answer.returncode != 0, answer.stdout + answer.stderr
    for importer, imported in wrong:
        named = imported if imported.startswith("muster_scheduler.domain.") else imported.split(".")[0]
        assert f"{importer} -> {named}" in answer.stdout, answer.stdout


def test_every_contract_has_a_wrong_import_here() -> None:
    contracts = configuration()["contracts"]
    assert isinstance(contracts, list)
    assert {contract["id"] for contract in contracts} == {contract for _, _, contract in FORBIDDEN}

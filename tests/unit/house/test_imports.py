"""What the source itself says about imports: the kernel needs nothing, and each room declares what it uses.

import-linter can forbid named libraries only; reading the source finds those that nobody thought of.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from verbs.paths import ROOT, rooms


def imported(package: Path) -> Iterator[tuple[str, str]]:
    """(file and line, full name) of each import of a package that is not relative."""
    for file in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            place = f"{file.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Import):
                yield from ((place, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                yield place, node.module


def package_of(room: Path) -> Path:
    with (room / "pyproject.toml").open("rb") as file:
        packages = tomllib.load(file)["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    return room / str(packages[0])


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(room: Path) -> set[str]:
    with (room / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    extras = project.get("optional-dependencies", {}).values()
    lines = [*project.get("dependencies", []), *(line for extra in extras for line in extra)]
    return {normal(Requirement(line).name) for line in lines} | {normal(project["name"])}


@cache
def distributions() -> dict[str, set[str]]:
    """Which distributions bring a top-level module."""
    return {module: {normal(name) for name in names} for module, names in packages_distributions().items()}


OURS = {package_of(room).name: room for room in rooms()}


def providers(module: str) -> set[str]:
    """The distributions that a declared dependency on any of would cover this import."""
    top = module.partition(".")[0]
    if top in OURS:
        with (OURS[top] / "pyproject.toml").open("rb") as file:
            return {normal(tomllib.load(file)["project"]["name"])}
    if module.startswith("google.protobuf"):
        return {"protobuf"}
    if module.startswith("google.rpc"):
        return {"googleapis-common-protos"}
    return distributions().get(top, set())


def test_the_kernel_imports_the_standard_library_only() -> None:
    kernel = ROOT / "services" / "kernel" / "muster_kernel"
    foreign = [
        f"{place}: {module}"
        for place, module in imported(kernel)
        if module.split(".")[0] not in sys.stdlib_module_names | {"muster_kernel"}
    ]
    assert not foreign


@pytest.mark.parametrize("room", rooms(), ids=lambda room: room.name)
def test_each_room_declares_what_it_imports(room: Path) -> None:
    known = declared(room)
    undeclared = [
        f"{place}: {module}"
        for place, module in imported(package_of(room))
        if module.split(".")[0] not in sys.stdlib_module_names | {"torch"} and not providers(module) & known
    ]
    assert not undeclared, f"add these to {room.name}/pyproject.toml, then `make lock`"

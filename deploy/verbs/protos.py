"""`proto`: Python messages, gRPC stubs and their types out of protos/, into services/contracts.

Called by people after they edit a .proto, and by `lint`, which generates again elsewhere and compares.
Holds: services/contracts/muster contains what was generated and nothing else, and the same protos give the same bytes.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Final

from verbs.paths import BIN, CONTRACTS, PROTOS, PYTHON
from verbs.shell import VerbFailed, run, say

SERVICE: Final = re.compile(r"^service\s+\w+", re.MULTILINE)
PACKAGE_DOC: Final = '"""Generated from protos/{folder} by `make proto`; nothing here is written by hand."""\n'


def proto() -> int:
    """Generates into services/contracts and removes what no .proto stands behind any more."""
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder) / "muster"
        generate(Path(folder))
        changed = replace_tree(fresh, CONTRACTS)
    say(f"{len(changed)} generated files changed" if changed else "the generated code was up to date")
    return 0


def generate(into: Path) -> None:
    """Writes the whole generated tree to `into`/muster; `into` must exist."""
    sources = sorted(str(path.relative_to(PROTOS)) for path in PROTOS.rglob("*.proto"))
    if not sources:
        raise VerbFailed(f"there is no .proto file under {PROTOS}")
    with_services = [source for source in sources if SERVICE.search((PROTOS / source).read_text(encoding="utf-8"))]
    protoc: list[str | Path] = [
        PYTHON,
        "-m",
        "grpc_tools.protoc",
        f"--proto_path={PROTOS}",
    ]  # it adds its own folder of well-known types
    path = {"PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"}  # protoc looks its plugins up there
    run([*protoc, f"--python_out={into}", f"--mypy_out=quiet:{into}", *sources], extra=path)
    if with_services:
        stubs = f"--mypy_grpc_out=quiet,only_async:{into}"
        run([*protoc, f"--grpc_python_out={into}", stubs, *with_services], extra=path)
    write_packages(into)


def write_packages(into: Path) -> None:
    """Makes each generated folder a typed package."""
    top = into / "muster"
    for folder in [top, *sorted(path for path in top.rglob("*") if path.is_dir())]:
        doc = PACKAGE_DOC.format(folder=folder.relative_to(into).as_posix())
        (folder / "__init__.py").write_text(doc, encoding="utf-8")
    (top / "py.typed").write_text("", encoding="utf-8")


def tree(folder: Path) -> dict[str, bytes]:
    """The bytes of each file under `folder` by its relative path, without what Python caches."""
    files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def difference(fresh: Path, committed: Path) -> list[str]:
    """Paths whose bytes differ between two trees, or that only one of them has."""
    left, right = tree(fresh), tree(committed)
    return sorted(path for path in left.keys() | right.keys() if left.get(path) != right.get(path))


def replace_tree(fresh: Path, target: Path) -> list[str]:
    """Makes `target` equal to `fresh`, file by file, and answers which paths changed.

    A file is replaced in one step: somebody's running test never imports half of it.
    """
    changed = difference(fresh, target)
    new = tree(fresh)
    for path in changed:
        there = target / path
        if path not in new:
            there.unlink()
            continue
        there.parent.mkdir(parents=True, exist_ok=True)
        beside = there.with_name(there.name + ".new")
        beside.write_bytes(new[path])
        beside.replace(there)
    remove_empty(target)
    return changed


def remove_empty(target: Path) -> None:
    """Removes folders that hold no file but caches, deepest first."""
    for folder in sorted((path for path in target.rglob("*") if path.is_dir()), reverse=True):
        if folder.name != "__pycache__" and not tree(folder):
            for cached in sorted(folder.rglob("*"), reverse=True):
                cached.rmdir() if cached.is_dir() else cached.unlink()
            folder.rmdir()

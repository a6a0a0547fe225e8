"""Where things are in this repository, and where the verbs put what they make.

Used by every verb. Holds: every path is absolute, so that a verb may be called from any folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
SERVICES: Final = ROOT / "services"
PROTOS: Final = ROOT / "protos"
CONTRACTS: Final = SERVICES / "contracts" / "muster"  # generated code, and nothing else
CRDS: Final = ROOT / "deploy" / "crds"  # written from the workload language's catalogue, and nothing else
LANGUAGE_PAGE: Final = ROOT / "docs" / "workload-language.md"  # the same
LOCK: Final = ROOT / "requirements.lock"
TORCH_LOCK: Final = ROOT / "requirements-torch.lock"

TOOLS: Final = ROOT / ".tools"  # uv, where the machine has none
TESTBED: Final = TOOLS / "testbed"  # a Kubernetes API server for the tests
VENV: Final = ROOT / ".venv"
BIN: Final = VENV / "bin"
PYTHON: Final = BIN / "python"


def rooms() -> list[Path]:
    """The folder of each distribution, in alphabetical order."""
    return sorted(project.parent for project in SERVICES.glob("*/pyproject.toml"))

"""A terminal with the muster command, for tests that use a whole stack as people do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.stacks import RunningStack

COMMAND = str(Path(sys.executable).parent / "muster")
DOCUMENT = """apiVersion: run.ai/v2alpha1
kind: TrainingWorkload
metadata:
  name: {name}
spec:
  image:
    value: python:3.11
  command:
    value: {command}
  {gpu}
"""


@dataclass(frozen=True, slots=True)
class Shell:
    """A terminal: the muster command, and files for it."""

    stack: RunningStack
    folder: Path

    def __call__(self, *arguments: str, code: int = 0, seconds: float = 120.0) -> str:
        """What the command prints; it has to end with `code`."""
        ran = self.run(*arguments, seconds=seconds)
        assert ran.returncode == code, f"muster {' '.join(arguments)}\n{ran.stdout}\n{ran.stderr}"
        return ran.stdout if code == 0 else ran.stderr

    def run(self, *arguments: str, seconds: float = 120.0) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [COMMAND, *arguments], check=False, capture_output=True, text=True, env=self._env(), timeout=seconds
        )

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """The command, while it runs."""
        pipe = subprocess.PIPE
        return subprocess.Popen([COMMAND, *arguments], stdout=pipe, stderr=pipe, text=True, env=self._env())

    def _env(self) -> dict[str, str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
        return env | {"MUSTER_HOME": str(self.stack.layout.root), "COLUMNS": "80"}

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json"))

    def document(self, name: str, command: str, gpu: str = "gpu: {value: 0.5}") -> str:
        return self.file(name, DOCUMENT.format(name=name, command=command, gpu=gpu))

    def file(self, name: str, text: str) -> str:
        path = self.folder / f"{name}.yaml"
        path.write_text(text)
        return str(path)

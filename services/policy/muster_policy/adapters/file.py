"""The policy file: read at start, and again whenever it changes.

Holds: a file that is no policy never replaces one that is; the service keeps judging by the last good one and says so.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from muster_chassis import logs, metrics
from muster_policy.domain.bench import Bench
from muster_policy_engine.documents.document import BadDocument, parse
from muster_policy_engine.policy import Policy

_log = logs.get(__name__)
_INTERVAL: Final = 1.0
_LARGEST: Final = 1 << 20

BAD: Final = metrics.gauge(
    "muster_policy_file_bad",
    unit="1 = bad",
    meaning="Whether the policy file as it is now could not be taken, so that the one before is still in force.",
    action="Read the log of policy: it names every line that is wrong.",
)


class PolicyFile:
    """One file, and the bench that judges by it."""

    def __init__(self, path: Path, bench: Bench) -> None:
        self._path = path
        self._bench = bench
        self._read = ""

    async def load(self) -> None:
        """Puts the file in force. Raises BadDocument and OSError."""
        self._read = await asyncio.to_thread(_text, self._path)
        self._bench.replace(self._parse(self._read))

    async def watch(self) -> None:
        """Looks every second whether the text has changed. An eternal task."""
        while True:
            await asyncio.sleep(_INTERVAL)
            await self.look()

    async def look(self) -> None:
        """Takes the file where it has changed and is a policy."""
        try:
            text = await asyncio.to_thread(_text, self._path)
            if text == self._read:
                return
            self._read = text
            policy = self._parse(text)
        except (BadDocument, OSError, ValueError) as error:
            BAD.set(1)
            _log.error("the policy file is not taken, the one before stays", file=str(self._path), error=str(error))
            return
        BAD.set(0)
        self._bench.replace(policy)
        _log.info("another policy is in force", name=policy.name, version=policy.version)

    def _parse(self, text: str) -> Policy:
        return parse(text, name=self._path.stem)


def _text(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise ValueError(f"{path} has more than {_LARGEST} bytes")
    return content.decode()

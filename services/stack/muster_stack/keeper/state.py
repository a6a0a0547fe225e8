"""`stack.json`: what runs, where, and since when.

Written by the keeper at every change, whole and atomically; read by clients that look for submission's address, by
`muster status` when no keeper answers, and by the next keeper, which takes over the ports. Holds: no secret is in it.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, Literal

from muster_stack.credentials import administrator
from muster_stack.keeper.child import Child
from muster_stack.layout import Layout
from muster_stack.ports import claim, free_ports, is_free, reserve
from muster_stack.processes import Identity, identify

VERSION: Final = 1
_RESERVED: Final = (".grpc", ".rest")
"""Purposes of ports on which secrets and tokens come in."""


LogLevel = Literal["debug", "info", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Options:
    """What `muster up` was asked for. The next start does not have them; `auth` has to be taken back (--no-auth)."""

    instances: Mapping[str, int] = field(default_factory=dict)  # by service, where there is more than one
    hold: bool = False  # agents accept assignments and start nothing
    auth: bool = False  # calls need a token
    log_level: LogLevel = "info"


_OPTIONS: Final = frozenset(each.name for each in fields(Options))


@dataclass(slots=True)
class State:
    """The document. `ports` by purpose, such as `submission.grpc`; `keeper` is who writes it."""

    layout: Layout
    ports: dict[str, int] = field(default_factory=dict)
    keeper: Identity | None = None
    options: Options = field(default_factory=Options)
    claims: dict[int, socket.socket] = field(default_factory=dict)  # held while the keeper lives
    reserved: dict[int, socket.socket] = field(default_factory=dict)  # the same, against other users

    @classmethod
    def load(cls, layout: Layout) -> State:
        """What the last keeper of this folder wrote; an empty one where there is none or it is damaged."""
        document = read(layout)
        keeper = document.get("keeper")
        return cls(
            layout,
            ports={name: int(port) for name, port in document.get("ports", {}).items()},
            keeper=Identity(keeper["pid"], keeper["started"]) if keeper else None,
            # Another release may have options that this one does not know.
            options=Options(**{name: value for name, value in document.get("options", {}).items() if name in _OPTIONS}),
        )

    @property
    def application(self) -> str | None:
        """The file that `muster` logs in with; None where calls need no token."""
        return str(administrator(self.layout)) if self.options.auth else None

    def choose_ports(self, purposes: Sequence[str]) -> None:
        """Gives each purpose a port: the one it had, else, where it had none or somebody sits on it, a new one.

        Claims them all, so that a stack that starts at the same time chooses others.
        """
        lacking = [name for name in purposes if not self._has(name)]
        while lacking:
            fresh = free_ports(len(lacking), but_not=self.ports.values())
            self.ports |= dict(zip(lacking, fresh, strict=True))
            lacking = [name for name in lacking if not self._has(name)]

    def _has(self, purpose: str) -> bool:
        """Whether the purpose has a port of its own; a free one is claimed."""
        port = self.ports.get(purpose)
        if port is None:
            return False
        if port in self.claims:
            return True
        held = claim(port) if is_free(port) else None
        if held is None:
            return False
        if self.reserves and purpose.endswith(_RESERVED):
            own = reserve(port)
            if own is None:
                held.close()
                return False
            self.reserved[port] = own
        self.claims[port] = held
        return True

    @property
    def reserves(self) -> bool:
        """Whether ports are kept from other users. Where replicas are of our own user, they could share such a port."""
        return os.geteuid() == 0

    def release(self) -> None:
        """Gives up the claims: the keeper ends, and the next one takes the same ports."""
        for held in (*self.claims.values(), *self.reserved.values()):
            held.close()
        self.claims.clear()
        self.reserved.clear()

    def write(self, children: Sequence[Child]) -> None:
        """Replaces the file; whoever reads sees the old or the new one, never a part."""
        document = {
            "version": VERSION,
            "stack": self.layout.key,
            "keeper": asdict(self.keeper) if self.keeper else None,
            "options": asdict(self.options),
            "application": self.application,
            "ports": self.ports,
            "services": {child.part.name: describe(child) for child in children},
        }
        partial = self.layout.state.with_suffix(".partial")
        partial.write_text(json.dumps(document, indent=2) + "\n")
        partial.replace(self.layout.state)


def describe(child: Child) -> dict[str, Any]:
    """One part's row: addresses (`grpc`, `metrics`, ..), phase, process and history."""
    identity = child.identity
    return {
        **dict(child.part.addresses),
        "state": child.phase.value,
        "pid": identity.pid if identity else None,
        "started": identity.started if identity else None,
        "since": child.since,
        "restarts": child.restarts,
        "hopeless": child.hopeless,
        "last_exit": child.last_exit,
        "why": child.why,
        "log": child.log,
    }


def read(layout: Layout) -> Mapping[str, Any]:
    """The document as it lies there, or nothing."""
    try:
        document: dict[str, Any] = json.loads(layout.state.read_text())
    except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError):
        return {}
    return document if document.get("version") == VERSION else {}


def ourselves() -> Identity | None:
    """The calling process."""
    return identify(os.getpid())

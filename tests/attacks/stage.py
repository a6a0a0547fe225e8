"""What an attack has to work with: the addresses, folders and tokens of one running stack.

Made by `tests/attacks/run.py`, one for each kind of stack. Holds: every address is on the loopback; a token belongs to
an application with exactly the role that it is asked for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from muster_stack.layout import Layout
from tests.attacks.attack import Actor


@dataclass(slots=True)
class Stage:
    """One stack as an attacker sees it, and a little more to judge by.

    grpc, rest, bootstrap: HOST:PORT of submission's gRPC, its REST API and Kafka. services: HOST:PORT by
    `<service>.<kind>`, such as `scheduler.grpc` and `telemetry.metrics`. tokens: a bearer token for each actor that has
    one; empty on the open stack. project: the project of viewer, researcher and project admin; other_project: one in
    which none of them has a role, with a running workload `victim`. run_replica: submits a Python program as a training
    of `project` (by the researcher), waits for its end and returns its log. admin_token: for judging, never for
    attacking. until: monotonic time at which a noisy attack ends.
    """

    layout: Layout
    grpc: str
    rest: str
    bootstrap: str
    services: Mapping[str, str]
    tokens: Mapping[Actor, str]
    project: str
    other_project: str
    run_replica: Callable[[str], Awaitable[str]]
    admin_token: str = ""
    until: float = 0.0
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def data(self) -> Path:
        """The data folder of the stack."""
        return self.layout.root

    def headers(self, actor: Actor) -> dict[str, str]:
        """The HTTP headers of a caller; empty for one without a token."""
        token = self.tokens.get(actor)
        return {"authorization": f"Bearer {token}"} if token else {}

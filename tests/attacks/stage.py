"""What an attack has to work with: the addresses, folders and tokens of one running stack.

Made by `tests/attacks/opening.py`, one for each kind of stack, and handed to the processes of noisy attacks as JSON.
Holds: every address is on the loopback; a token belongs to an application with exactly the role that it is asked for.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final, Self

from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2
from muster_client import Muster
from muster_stack.layout import Layout
from tests.attacks.attack import Actor

REPLICA_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Stage:
    """One stack as an attacker sees it, and a little more to judge by.

    folder: the data folder. grpc, rest, bootstrap: HOST:PORT of submission's gRPC, its REST API and Kafka. services:
    HOST:PORT by `<service>.<kind>`, such as `scheduler.grpc` and `telemetry.metrics`. tokens: a bearer token for each
    actor that has one; empty on the open stack. project: the project of viewer, researcher and project admin.
    other_project: one in which none of them has a role, with a running workload `victim`. admin_token: for judging,
    never for attacking. until: `time.monotonic()` seconds at which a noisy attack ends.
    """

    folder: str
    grpc: str
    rest: str
    bootstrap: str
    services: Mapping[str, str]
    tokens: Mapping[Actor, str]
    project: str
    other_project: str
    admin_token: str = ""
    until: float = 0.0
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def layout(self) -> Layout:
        """The places of the stack."""
        return Layout.of(Path(self.folder))

    @property
    def data(self) -> Path:
        """The data folder of the stack."""
        return Path(self.folder)

    def headers(self, actor: Actor) -> dict[str, str]:
        """The HTTP headers of a caller; empty for one without a token."""
        token = self.tokens.get(actor)
        return {"authorization": f"Bearer {token}"} if token else {}

    def client(self, actor: Actor) -> Muster:
        """The SDK with the actor's token; on the open stack without one."""
        return Muster(self.grpc, self.tokens.get(actor))

    def admin(self) -> Muster:
        """The SDK with the administrator's token, to judge what an attack did."""
        return Muster(self.grpc, self.admin_token or None)

    async def run_replica(self, program: str) -> str:
        """Runs a Python program as a training of `project`, by the researcher, and returns its log.

        Raises TimeoutError of the SDK where the workload has not ended after 60 s.
        """
        spec = workload_pb2.WorkloadSpec(
            kind=options_pb2.KIND_TRAINING, name=f"attack-{time.time_ns()}", image="python", command=python(program)
        )
        async with self.client(Actor.RESEARCHER) as muster:
            made = await muster.submit(spec, project=self.project)
            await muster.wait(made.id, timeout=REPLICA_SECONDS)
            pieces = [piece.data async for piece in muster.logs(made.id)]
            await muster.delete(made.id)
        return b"".join(pieces).decode(errors="replace")

    def lasting(self, until: float) -> Self:
        """The same stage for a noisy attack that ends at `until`."""
        return replace(self, until=until)

    def to_json(self) -> str:
        """The stage as text, for another process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The stage that `to_json` wrote."""
        found = json.loads(text)
        found["tokens"] = {Actor(name): token for name, token in found["tokens"].items()}
        return cls(**found)


def python(program: str) -> str:
    """A command line that runs a program of any characters without quoting them."""
    encoded = base64.b64encode(program.encode()).decode()
    return f"python -c \"import base64; exec(base64.b64decode('{encoded}'))\""

"""Submission as a process with a durable PostgreSQL and nothing else: what the benchmark of the API measures.

No Kafka runs: what is acknowledged waits in the outbox, as it does while a bus is away. Holds: callers have tokens, so
that rights are looked up and the audit names somebody.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

from muster_stack.embedded import EmbeddedPostgres
from muster_stack.postgres import ADMIN, DATABASE
from tests.support import identities
from tests.support.processes import free_port

START_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class FrontDoor:
    """A running submission: where it serves, its database, and a token of its first administrator."""

    grpc: str
    rest: str
    database: str
    token: str
    pid: int

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What a gRPC call sends along."""
        return (("authorization", f"Bearer {self.token}"),)


@contextmanager
def front_door(*, profile: Path | None = None) -> Iterator[FrontDoor]:
    """Submission on an empty database. profile: where it writes what its functions took, when it ends."""
    with EmbeddedPostgres(durable=True) as postgres, tempfile.TemporaryDirectory(prefix="muster-door-") as folder:
        first = Path(folder) / "first.json"
        application = {"id": str(uuid.uuid4()), "secret": secrets.token_urlsafe(32), "role": "system-admin"}
        first.touch(0o600)
        first.write_text(json.dumps(application))
        ports = {name: f"127.0.0.1:{free_port()}" for name in ("grpc", "rest", "metrics")}
        settings = {
            "MUSTER_INSTANCE": "submission-0",
            "MUSTER_KAFKA_BOOTSTRAP": f"127.0.0.1:{free_port()}",
            "MUSTER_KAFKA_SECURITY": "plaintext",
            "MUSTER_DATABASE_URL": postgres.server.url("submission", DATABASE),
            "MUSTER_DATABASE_SCHEMA": "submission",
            "MUSTER_GRPC_LISTEN": ports["grpc"],
            "MUSTER_REST_LISTEN": ports["rest"],
            "MUSTER_METRICS_LISTEN": ports["metrics"],
            "MUSTER_AUTH": "jwt",
            **identities.environment(),
            "MUSTER_AUTH_FIRST_APPLICATIONS": json.dumps([str(first)]),
        }
        how = ["-m", "cProfile", "-o", str(profile)] if profile else []
        log = Path(folder) / "submission.log"
        with log.open("wb") as output:
            command = [sys.executable, *how, "-m", "muster_submission"]
            process = subprocess.Popen(command, env=os.environ | settings, stdout=output, stderr=output)
        try:
            token = _token(f"http://{ports['rest']}", application, process, log)
            url = postgres.server.url(ADMIN, DATABASE)
            yield FrontDoor(ports["grpc"], f"http://{ports['rest']}", url, token, process.pid)
        finally:
            process.terminate()
            process.wait(30)


def _token(rest: str, application: dict[str, str], process: subprocess.Popen[bytes], log: Path) -> str:
    """A token, once the service answers."""
    asked = {"grantType": "app_token", "appID": application["id"], "appSecret": application["secret"]}
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            answer = httpx.post(f"{rest}/api/v1/token", json=asked, timeout=5)
        except httpx.TransportError:
            time.sleep(0.1)
            continue
        answer.raise_for_status()
        return str(answer.json()["accessToken"])
    raise TimeoutError(f"submission did not start:\n{log.read_text()[-3000:]}")

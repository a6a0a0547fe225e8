"""The attacks of A14 and A15 work once the part of the agent that prevents them is substituted."""

from __future__ import annotations

import asyncio

import pytest

from muster_cluster_agent.adapters.local import readiness
from muster_cluster_agent.domain import plan
from muster_cluster_agent.domain.model import Assignment, Pattern, Probe, Revision, Run, Template

RUN = Run("worker", 0, 1, "n-0")


def probe_of(asked: Probe) -> Probe:
    """The probe of the replica that an agent would start for a template with port 8000."""
    template = Template(command="true", ports=(8000,), probe=asked)
    revision = Revision(1, 1, Pattern.SINGLE, template, (RUN,))
    assignment = Assignment("0190c0de-0000-7000-8000-000000000001", 1, "", 1, (revision,))
    found = plan.replica_plans(assignment, revision)[0].probe
    assert found is not None
    return found


async def received(probe: Probe, port: int, into: asyncio.Queue[bytes]) -> bytes:
    """What arrives at the port when the probe asks there."""
    question = readiness.http(port, probe.path, host=probe.host)
    asking = asyncio.create_task(readiness._ask(question, 5.0))
    got = await asyncio.wait_for(into.get(), 5.0)
    await asking
    return got


async def test_an_unchecked_probe_sends_any_request_to_any_port(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: asyncio.Queue[bytes] = asyncio.Queue()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await seen.put(await reader.readuntil(b"Host: forged\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        forged = Probe(path="/", port=port, host="x\r\n\r\nPOST /forged HTTP/1.1\r\nHost: forged")
        with pytest.raises(plan.InvalidProbe):
            probe_of(forged)
        monkeypatch.setattr(plan, "_check_probe", lambda _probe, _ports: None)
        attack = probe_of(forged)
        assert b"POST /forged" in await received(attack, attack.port, seen)

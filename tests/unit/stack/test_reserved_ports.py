"""Ports that are kept from other users of the machine while a service restarts."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Final

import pytest

from muster_stack.keeper.state import State
from muster_stack.layout import Layout
from muster_stack.ports import LOOPBACK, free_ports, reserve

_OTHER: Final = 65_533
root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@root
def test_another_user_cannot_take_a_reserved_port_and_our_service_can() -> None:
    (port,) = free_ports(1)
    held = reserve(port)
    assert held is not None
    with held:
        assert _taken_by_another(port) == 0, "another user listens there"
        with (
            socket.create_server((LOOPBACK, port), reuse_port=True) as service,
            socket.create_connection((LOOPBACK, port), timeout=5),
        ):
            service.accept()[0].close()
        assert _taken_by_another(port) == 0, "another user listens there once the service has ended"
    assert _taken_by_another(port) == 1, "this test would not see it"


@root
def test_the_keeper_reserves_the_ports_on_which_secrets_come_in(tmp_path: Path) -> None:
    state = State(Layout(tmp_path))
    state.choose_ports(["kafka", "submission.grpc", "submission.rest", "submission.metrics"])
    try:
        assert set(state.reserved) == {state.ports["submission.grpc"], state.ports["submission.rest"]}
        assert _taken_by_another(state.ports["submission.grpc"]) == 0
    finally:
        state.release()
    assert not state.reserved


def _taken_by_another(port: int) -> int:
    """1 where a process of another user could listen on the port in any way."""
    child = os.fork()
    if child == 0:
        code = 2  # an exception must not go on in a second pytest
        try:
            os.setgroups([])
            os.setresgid(_OTHER, _OTHER, _OTHER)
            os.setresuid(_OTHER, _OTHER, _OTHER)
            ways = ((), (socket.SO_REUSEADDR,), (socket.SO_REUSEPORT,), (socket.SO_REUSEADDR, socket.SO_REUSEPORT))
            code = int(any(_taken((host, port), way) for host in (LOOPBACK, "0.0.0.0") for way in ways))
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _taken(address: tuple[str, int], options: tuple[int, ...]) -> bool:
    with socket.socket() as taken:
        for one in options:
            taken.setsockopt(socket.SOL_SOCKET, one, 1)
        try:
            taken.bind(address)
            taken.listen()
        except OSError:
            return False
        return True

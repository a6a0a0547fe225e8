"""A workload's port is its own for its life: over restarts of everything, and given back when it is deleted."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from muster_cluster_agent.adapters.local import service_ports
from muster_cluster_agent.adapters.local.addresses import Ports
from muster_cluster_agent.adapters.local.service_ports import ServicePorts


def test_a_port_is_kept_over_a_new_start(tmp_path: Path) -> None:
    kept = ServicePorts(tmp_path / "ports.json", Ports("a"))
    first, second = kept.of("w-1"), kept.of("w-2")
    kept.save()
    again = ServicePorts(tmp_path / "ports.json", Ports("a"))
    assert [again.of("w-2"), again.of("w-1")] == [second, first]
    assert again.of("w-3") not in {first, second}


def test_a_deleted_workload_gives_its_port_back(tmp_path: Path) -> None:
    ports = Ports("a")
    kept = ServicePorts(tmp_path / "ports.json", ports)
    port = kept.of("w-1")
    assert port in ports._given
    kept.forget("w-1")
    assert port not in ports._given


def test_a_port_that_another_program_took_is_replaced_and_an_open_one_of_ours_is_not(tmp_path: Path) -> None:
    kept = ServicePorts(tmp_path / "ports.json", Ports("a"))
    port = kept.of("w-1")
    with socket.create_server(("127.0.0.1", port)):
        kept.opened.add(port)
        assert kept.of("w-1") == port
        kept.opened.clear()
        assert kept.of("w-1") != port


@pytest.mark.parametrize("content", ["", "[1]", "{", '{"w": "x"}'])
def test_a_file_that_cannot_be_read_is_begun_again(tmp_path: Path, content: str) -> None:
    (tmp_path / "ports.json").write_text(content)
    kept = ServicePorts(tmp_path / "ports.json", Ports("a"))
    port = kept.of("w-1")
    kept.save()
    assert ServicePorts(tmp_path / "ports.json", Ports("b")).of("w-1") == port


def test_the_number_of_kept_ports_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_ports, "KEPT", 2)
    kept = ServicePorts(tmp_path / "ports.json", Ports("a"))
    kept.of("w-1"), kept.of("w-2"), kept.of("w-1"), kept.of("w-3")
    assert list(kept._kept) == ["w-1", "w-3"]

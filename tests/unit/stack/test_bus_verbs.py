"""`muster bus` and `muster keys`: rules for another Kafka are printed, and without a stack the verbs say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster_stack.bus.commands import credentials, revoke, show_acls
from muster_stack.keys import rotate_kafka


def test_the_rules_for_another_kafka_are_arguments_of_its_tool(capsys: pytest.CaptureFixture[str]) -> None:
    assert show_acls(clusters=["north"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("--add --allow-principal User:") for line in lines)
    own = "--topic muster.clusters.north.assignments --resource-pattern-type literal"
    assert f"--add --allow-principal User:agent-north --operation Read {own}" in lines
    prefix = "--transactional-id muster-assignments --resource-pattern-type prefixed"
    assert f"--add --allow-principal User:scheduler --operation Write {prefix}" in lines


def test_a_cluster_id_that_cannot_be_one_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert show_acls(clusters=["North Pole"]) == 1
    assert "'North Pole' is no cluster id" in capsys.readouterr().err


def test_without_a_stack_the_verbs_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert credentials(cluster="north", data=tmp_path) == 1
    assert credentials(topic="muster.triggers", data=tmp_path) == 1
    assert revoke("producer-x", data=tmp_path) == 1
    assert rotate_kafka(data=tmp_path) == 1
    assert capsys.readouterr().err.count("no stack runs in") == 4


def test_an_identity_is_for_a_cluster_or_a_topic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert credentials(data=tmp_path) == 1
    assert credentials(cluster="north", topic="muster.triggers", data=tmp_path) == 1
    assert capsys.readouterr().err.count("name either --cluster ID, or --topic") == 2

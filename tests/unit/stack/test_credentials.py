"""The applications that a stack begins with: written once, for their owner alone, and taken by submission."""

from __future__ import annotations

import json
import stat
from pathlib import Path

from muster_stack import credentials
from muster_stack.keeper.state import Options, State
from muster_stack.layout import Layout
from muster_submission.domain.access import Role
from muster_submission.handlers.bootstrap import read_first


def test_they_are_their_owners_alone_and_written_once(tmp_path: Path) -> None:
    layout = Layout.of(tmp_path)
    first = credentials.ensure(layout)
    written = [path.read_text() for path in first]
    assert [path.read_text() for path in credentials.ensure(layout)] == written
    assert stat.S_IMODE(layout.credentials.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in first} == {0o600}
    assert sorted(path.name for path in layout.credentials.iterdir()) == ["admin.json", "agents.json"]


def test_submission_takes_them_each_with_its_role(tmp_path: Path) -> None:
    layout = Layout.of(tmp_path)
    admin, agents = [read_first(path) for path in credentials.ensure(layout)]
    assert (admin.role, agents.role) == (Role.SYSTEM_ADMIN, Role.CLUSTER_AGENT)
    assert admin.id != agents.id
    assert admin.secret != agents.secret


def test_the_command_is_told_where_to_log_in_only_where_it_has_to(tmp_path: Path) -> None:
    layout = Layout.of(tmp_path)
    state = State(layout)
    state.write([])
    assert json.loads(layout.state.read_text())["application"] is None
    state.options = Options(auth=True)
    state.write([])
    assert json.loads(layout.state.read_text())["application"] == str(credentials.administrator(layout))
    assert State.load(layout).options.auth

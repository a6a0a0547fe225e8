"""The page about a session on a Kubernetes cluster, command by command, on a real API server with played nodes."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support import kubernetes, kwok
from tests.support.kubernetes import KUBECTL, MISSING, Cluster
from tests.support.kubernetes_stack import kubernetes_stack, left_over
from tests.support.pages import Shell, Step, Written, follow, parts

PAGE: Final = "guides/kubernetes-session.md"
NODES: Final = ("n-0", "n-1", "n-2", "n-3")
GPUS: Final = 8  # of each
PATIENCE: Final = 60.0  # seconds
CHANGES: Final = re.compile(r"^muster (submit|delete|projects create)\b")
BUILT: Final = kubernetes.built() and kwok.built() and KUBECTL.exists()
pytestmark = pytest.mark.skipif(not BUILT, reason=MISSING)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Cluster]:
    """The cluster of the page."""
    for parent in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        parent.chmod(0o711)  # root's PostgreSQL runs as another user, who must get through
    with kubernetes.cluster(tmp_path) as found, kwok.nodes(found, tmp_path, NODES, GPUS):
        yield found


def settled(shell: Shell, step: Step) -> str:
    """Types a command, again and again where it changes nothing, until it prints what the page shows."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return follow(shell, step)
        except AssertionError:
            if CHANGES.search(step.command) or time.monotonic() > deadline:
                raise
        time.sleep(1.0)


def test_every_command_says_what_the_page_shows(lab: Cluster, tmp_path: Path) -> None:
    told = parts(PAGE)
    assert sum(isinstance(each, Step) for each in told) > 10
    with kubernetes_stack(tmp_path / "stack", lab, None) as stack, Shell(stack.layout.root) as shell:
        work = tmp_path / "work"
        work.mkdir()
        shell.run(f"cd {work}")
        shell.run(f'kubectl() {{ {" ".join(lab.kubectl())} "$@"; }}')
        for each in told:
            if isinstance(each, Written):
                (work / each.name).write_text(each.text)
            else:
                print(f"$ {each.command}\n{settled(shell, each)}")
        assert left_over(lab) == []

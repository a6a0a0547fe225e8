"""What is written beside the code stays true: links, reasons for ignored rules, the compose file."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from verbs.paths import ROOT

PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page: Path) -> None:
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)  # code is not a link
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", prose)
    assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == []


def test_every_ignored_rule_has_its_reason() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    section = text[text.index("[tool.ruff.lint]") : text.index("[tool.ruff.lint.flake8-builtins]")]
    ignored = [line for line in section.splitlines() if re.match(r'\s+"[A-Z]+[0-9]*",|"[^"]+" = \["', line)]
    assert ignored
    assert [line for line in ignored if "#" not in line] == []


def test_every_room_of_the_architecture_is_there() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    tree = page[page.index("    pyproject.toml") : page.index("Inside a service")]
    top = [name for name in re.findall(r"^ {4}([\w./-]+)", tree, flags=re.MULTILINE) if "/v1/" not in name]
    rooms = re.findall(r"^ {6}([\w-]+)/ ", tree, flags=re.MULTILINE)
    assert len(top) > 5
    assert len(rooms) > 5
    assert [name for name in top if name != "protos/muster/" and not (ROOT / name).exists()] == []
    assert [name for name in rooms if not (ROOT / "services" / name).is_dir()] == []


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    return loaded


def test_compose_keeps_data_and_knows_health() -> None:
    services = compose()["services"]
    assert set(services) == {"kafka", "postgres"}
    for service in services.values():
        assert service["healthcheck"]["test"]
        volume = service["volumes"][0].split(":")[0]
        assert volume in compose()["volumes"]
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])


def docker_compose_answers() -> bool:
    docker = shutil.which("docker")
    if docker is None:
        return False
    return subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not docker_compose_answers(), reason="`docker compose` is not installed on this machine")
def test_docker_reads_the_compose_file() -> None:
    docker = shutil.which("docker")
    assert docker is not None
    answer = subprocess.run(
        [docker, "compose", "--file", "docker-compose.yml", "config", "--quiet"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr

"""The guide to access tells the truth: its table is the domain's, its verbs exist, its settings are taken."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import msgspec
import pytest

from muster_chassis.settings import IssuerSettings
from muster_client.cli.app import build
from muster_submission.domain.access import VERBS, Role, Verb
from muster_submission.rest.iam_shapes import ROLES
from muster_submission.rest.routes.tokens import TOKEN_REQUEST

GUIDE = (Path(__file__).parents[3] / "docs" / "guides" / "access.md").read_text()
_PEOPLE = [role for role in Role if role is not Role.CLUSTER_AGENT]


def _commands() -> list[str]:
    blocks = re.findall(r"^```console\n(.*?)^```", GUIDE, flags=re.DOTALL | re.MULTILINE)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]


def test_the_table_of_roles_is_the_one_that_counts() -> None:
    told = {
        cells[0].strip("` "): [cell.strip() == "x" for cell in cells[1:]]
        for line in GUIDE.splitlines()
        if line.startswith("| `") and len(cells := line.strip("|").split("|")) == len(_PEOPLE) + 1
    }
    assert told == {str(verb): [verb in VERBS[role] for role in _PEOPLE] for verb in Verb}


def test_the_numbers_of_roles_are_those_of_the_api() -> None:
    told = re.findall(r"([1-6]) ([a-z-]+)", GUIDE.rpartition("numbers of the roles are")[2])
    assert [(int(number), word) for number, word in told] == [(number, str(role)) for number, role in ROLES.items()]


@pytest.mark.parametrize("command", [line for line in _commands() if line.startswith("muster ")])
def test_every_command_can_be_typed(command: str) -> None:
    _, called, _ = build().parse_args(shlex.split(command)[1:], exit_on_error=False, print_error=False)[:3]
    assert called.arguments or called.kwargs or any(word in command for word in ("whoami", "list", "rotate"))


def test_the_settings_of_issuers_are_taken() -> None:
    (text,) = re.findall(r"^```json\n(.*?)^```", GUIDE, flags=re.DOTALL | re.MULTILINE)
    issuers = [IssuerSettings.model_validate(one) for one in msgspec.json.decode(text)]
    assert [one.issuer for one in issuers] == ["https://login.example.org/", "ci"]


def test_the_token_request_is_one_that_the_route_takes() -> None:
    (curl,) = [line for line in _commands() if line.startswith("curl ")]
    body = msgspec.json.decode(shlex.split(curl)[-1])
    assert set(body) <= set(TOKEN_REQUEST.schema["properties"])
    assert body["grantType"] in TOKEN_REQUEST.schema["properties"]["grantType"]["enum"]

"""The guide to the REST API tells the truth: its bodies are taken, its routes are served, its documents are valid."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from muster_language import Kind, read
from muster_language.rest.bodies import read_body
from muster_submission.rest.router import Router
from tests.support.served import served

GUIDE = (Path(__file__).parents[3] / "docs" / "guides" / "rest.md").read_text()


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", GUIDE, flags=re.DOTALL | re.MULTILINE)


def kind_of(spec: dict[str, Any]) -> Kind:
    if "numWorkers" in spec:
        return Kind.DISTRIBUTED
    return Kind.INFERENCE if "servingPort" in spec else Kind.TRAINING


@pytest.mark.parametrize("text", [text for text in blocks("json") if "projectId" in text])
def test_every_body_is_taken(text: str) -> None:
    body = json.loads(text)
    assert read_body(kind_of(body["spec"]), body).violations == ()


@pytest.mark.parametrize("line", [line for text in blocks("http") for line in text.splitlines()])
def test_every_route_is_served(line: str) -> None:
    method, path = line.split()
    assert Router(served()).find(method, path)[0].shown


def test_the_document_is_valid() -> None:
    (text,) = blocks("yaml")
    (document,) = read(text)
    assert document.violations == []

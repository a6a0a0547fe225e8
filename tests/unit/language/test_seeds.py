"""Every example of the seed documents is read without an error and survives being written."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster_language import Kind, check_layer, read, write
from tests.support.told import format_violations

SEEDS = sorted((Path(__file__).parents[2] / "data" / "seeds").glob("*.yaml"))


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.stem)
def test_an_example_is_read_and_written(path: Path) -> None:
    documents = read(path.read_text(), source=path.name)
    assert format_violations(documents) == ""
    (document,) = documents
    assert document.namespace == "runai-team-a"
    assert document.name == document.object_name
    text = write(document.spec, namespace=document.namespace, metadata_name=document.object_name)
    (again,) = read(text)
    assert (again.spec, again.violations, check_layer(again.spec)) == (document.spec, [], [])


def test_every_kind_has_an_example() -> None:
    assert {read(path.read_text())[0].kind for path in SEEDS} == set(Kind)

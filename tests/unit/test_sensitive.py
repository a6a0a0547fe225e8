"""Credentials inside specs: found wherever they stand, hidden wherever a spec is shown, quoted by no error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.options.v1 import options_pb2
from muster_kernel.sealed import SEALED
from muster_language import Kind, catalogue, check_layer, read, write
from muster_language.sensitive import MASK, REFERENCE, has_sensitive, masked, places
from muster_language.spec import WorkloadSpec

SEALED_TEXT = f"{SEALED}0192d3c4-0000-7000-8000-000000000000:3"


def spec(text: str = "literal") -> WorkloadSpec:
    made = WorkloadSpec(kind=options_pb2.KIND_WORKSPACE, command="true", notebook_token=text)
    made.git_sync.add(label="code", path="/code", username=text, password=text)
    made.git_sync.add(path="/other", password=text)
    made.s3.add(label="bucket", secret_key=text)
    made.master_spec.s3.add(label="deep", access_key_id=text)
    return made


def test_every_sensitive_row_of_the_catalogue_is_found() -> None:
    rows = {(row.name, member.name) for row in catalogue().rows for member in row.inside if member.sensitive}
    alone = {row.name for row in catalogue().rows if row.sensitive}
    made = spec()
    for row, member in rows:
        holder = getattr(made, row)
        setattr(holder[0] if holder else holder.add(label="x"), member, "literal")
    found = {(place.path[0], place.name) for place in places(made)}
    assert rows | {(name, name) for name in alone} <= found
    assert alone == {"notebook_token"}
    assert {row for row, _ in rows} == {"git_sync", "s3"}


def test_places_are_named_by_labels_and_say_what_stands_there() -> None:
    found = {place.path: place for place in places(spec())}
    assert ("git_sync", "code", "password") in found
    assert ("master_spec", "s3", "deep", "access_key_id") in found
    assert {place.where for place in found.values()} >= {"spec.notebook_token", "spec.git_sync.code.username"}
    assert any(path[:1] == ("git_sync",) and path[1].startswith("git-") for path in found)
    for text, literal in (("x", True), (MASK, False), ("SECRET:name,key", False), (SEALED_TEXT, False), ("", False)):
        (place,) = places(WorkloadSpec(notebook_token=text))
        assert place.literal is literal


def test_a_masked_spec_shows_references_alone() -> None:
    for text in ("literal", SEALED_TEXT):
        shown = masked(spec(text))
        assert {place.text for place in places(shown)} == {MASK}
        assert shown.command == "true"
    named = spec("SECRET:name,key")
    assert masked(named) is named
    written = write(named, metadata_name="n")
    assert MASK not in written
    (read_back,) = read(written)
    assert {place.text for place in places(read_back.spec)} == {"SECRET:name,key"}
    plain = WorkloadSpec(command="true")
    assert masked(plain) is plain
    assert not has_sensitive(plain)
    assert has_sensitive(named)


texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=40)


@given(texts.filter(lambda text: not text.startswith((SEALED, REFERENCE)) and text not in MASK))
def test_no_mask_keeps_anything_of_a_literal(text: str) -> None:
    made = WorkloadSpec(kind=options_pb2.KIND_WORKSPACE, command="true", notebook_token=f"canary{text}")
    assert "canary" not in str(masked(made))
    assert "canary" not in write(masked(made), metadata_name="n")


@pytest.mark.parametrize(
    "value", ["{value: canary canary}", "canary", f"{{value: {'canary' * 700}}}", "{value: {canary: 1}}", "[canary]"]
)
def test_no_error_quotes_a_credential(value: str) -> None:
    head = f"apiVersion: run.ai/v2alpha1\nkind: {Kind.WORKSPACE.document}\nmetadata: {{name: n}}\nspec:\n"
    (document,) = read(f"{head}  command: {{value: x}}\n  notebookToken: {value}\n")
    said = [one.text for one in (*document.violations, *check_layer(document.spec))]
    assert not any("canary" in text for text in said), said

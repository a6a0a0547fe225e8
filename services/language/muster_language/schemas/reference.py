"""The reference page of the workload language, `docs/workload-language.md`, written from the catalogue.

`python -m muster_language.schemas.reference` prints it; a test and `make lint` hold the committed page equal to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from muster_language.catalogue import Row, catalogue
from muster_language.schemas.explain import facts, type_word
from muster_language.schemas.shape import COLOSSAL_KIND, COLOSSAL_VERSION, KIND_TEXTS, Node, colossal
from muster_language.spec import API_VERSION, Kind

_HEAD: Final = f"""# The workload language

One document is one workload: `apiVersion: {API_VERSION}`, a `kind`, `metadata` (`name`, `namespace: runai-<project>`)
and `spec`. Values are wrapped (`gpu: {{value: 0.5}}`), items have labels
(`environment: {{items: {{LR: {{value: "0.1"}}}}}}`), and `deleted: true` takes an inherited item out. Fields marked
bare are written without `value:`. A file may hold several documents. `muster explain KIND.spec.FIELD` shows the same on
the command line.

This page is written from the options in `protos/muster/workload/v1/*.proto`, by
`python -m muster_language.schemas.reference`.
"""
_QUOTED: Final = frozenset({"REST", "Pattern", "Default"})


def reference() -> str:
    """The page, in Markdown."""
    kinds = [f"| {each.word} | `{each.document}` | {KIND_TEXTS[each]} |" for each in Kind]
    job = colossal()
    kinds.append(f"| distributed | `{COLOSSAL_KIND}` | {job.description} |")
    parts = [_HEAD, "| kind | document | |\n|---|---|---|\n" + "\n".join(kinds)]
    for group in dict.fromkeys(row.group for row in catalogue().rows):
        parts.append(f"## {group.capitalize()}")
        parts.extend(_field(row) for row in catalogue().rows if row.group == group and row.yaml)
    parts.append(_job(job))
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _field(row: Row) -> str:
    place = row.yaml if row.beside_spec else f"spec.{row.yaml}"
    said = [f"- {name.lower()}: {_quoted(name, text)}" for name, text in facts(row)]
    lines = [f"### `{place}` ({type_word(row)}{', bare' if row.bare else ''})", "", row.description, "", *said]
    if row.members:
        lines += ["", *(_member(member) for member in row.members if member.yaml)]
    return "\n".join(lines)


def _member(member: Row) -> str:
    told = "; ".join(
        f"{name.lower()} {_quoted(name, text)}" for name, text in facts(member) if name not in {"Policy", "Since"}
    )
    return f"- `{member.yaml}` ({type_word(member)}): {member.description}{f' ({told})' if told else ''}"


def _quoted(name: str, text: str) -> str:
    return f"`{text}`" if name in _QUOTED else text


def _job(job: Node) -> str:
    spec = job.child("spec")
    inner = spec.children if spec is not None else ()
    head = f"## {COLOSSAL_KIND}\n\nA document of its own form, `apiVersion: {COLOSSAL_VERSION}`, without `value:`."
    return "\n".join([head, "", *(line for node in inner for line in _lines(node, 0))])


def _lines(node: Node, depth: int) -> Iterator[str]:
    told = "; ".join(f"{name.lower()} {_quoted(name, text)}" for name, text in facts(node.row)) if node.row else ""
    yield f"{'  ' * depth}- `{node.name}` ({node.form}): {node.description}{f' ({told})' if told else ''}"
    for each in node.children:
        yield from _lines(each, depth + 1)


if __name__ == "__main__":
    print(reference(), end="")  # noqa: T201 - this is what it is called for

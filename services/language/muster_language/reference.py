"""The reference page of the workload language, `docs/workload-language.md`, written from the catalogue.

`python -m muster_language.reference` prints it; a test holds the committed page equal to it.
"""

from __future__ import annotations

from typing import Final

from muster_language.catalogue import Row, catalogue
from muster_language.explain import facts, type_word
from muster_language.spec import API_VERSION, Kind

_HEAD: Final = f"""# The workload language

One document is one workload: `apiVersion: {API_VERSION}`, a `kind`, `metadata` (`name`, `namespace: runai-<project>`)
and `spec`. Values are wrapped (`gpu: {{value: 0.5}}`), items have labels
(`environment: {{items: {{LR: {{value: "0.1"}}}}}}`), and `deleted: true` takes an inherited item out. Fields marked
bare are written without `value:`. A file may hold several documents. `muster explain KIND.spec.FIELD` shows the same on
the command line.

This page is written from the options in `protos/muster/workload/v1/workload.proto`, by
`python -m muster_language.reference`.
"""


def reference() -> str:
    """The page, in Markdown."""
    parts = [
        _HEAD,
        "| kind | document |\n|---|---|\n" + "\n".join(f"| {each.word} | `{each.document}` |" for each in Kind),
    ]
    for group in dict.fromkeys(row.group for row in catalogue().rows):
        parts.append(f"## {group.capitalize()}")
        parts.extend(_field(row) for row in catalogue().rows if row.group == group and row.yaml)
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _field(row: Row) -> str:
    place = row.yaml if row.beside_spec else f"spec.{row.yaml}"
    said = [f"{name.lower()}: {_quoted(name, text)}" for name, text in facts(row)]
    lines = [f"### `{place}` ({type_word(row)}{', bare' if row.bare else ''})", "", row.description, "", *_listed(said)]
    for member in row.members:
        inner = ", ".join(f"{name.lower()} {text}" for name, text in facts(member) if name in {"Range", "Unit"})
        lines.append(f"- `{member.yaml}` ({type_word(member)}{f', {inner}' if inner else ''}): {member.description}")
    return "\n".join(lines)


def _listed(said: list[str]) -> list[str]:
    return [f"- {each}" for each in said]


def _quoted(name: str, text: str) -> str:
    return f"`{text}`" if name in {"REST", "Pattern", "Default"} else text


if __name__ == "__main__":
    print(reference(), end="")  # noqa: T201 - this is what it is called for

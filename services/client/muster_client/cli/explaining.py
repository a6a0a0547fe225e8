"""`muster explain`: the workload language, from its own catalogue. It asks no control plane."""

from __future__ import annotations

from typing import Final

import muster_language as language
from muster_client.cli.exits import Exit
from muster_client.cli.options import Common
from muster_client.cli.output import emit, say
from muster_client.errors import NotFound

_NO_OPTIONS = Common()
_KINDS: Final = (
    language.Kind.TRAINING,
    language.Kind.DISTRIBUTED,
    language.Kind.INFERENCE,
    language.Kind.WORKSPACE,
)
_COLOSSAL: Final = "ColossalAIJob"


def explain(path: str = "", *, common: Common = _NO_OPTIONS) -> int:
    """Explains the workload language: its kinds, the fields of a kind, or one field.

    Args:
        path: A kind (TrainingWorkload, training), a field of it (training.spec.gpu), or a field alone (gpu).
        common: Connection (not used: the language is part of this command).
    """
    text = _text(path) if path else _kinds()
    if common.json:
        emit({"path": path, "text": text})
    else:
        say(text.rstrip("\n"))
    return Exit.OK


def _kinds() -> str:
    lines = ["The kinds of workload:", ""]
    lines += [f"  {name:<22}{_description(name)}" for name in (*(kind.document for kind in _KINDS), _COLOSSAL)]
    return "\n".join([*lines, "", "`muster explain KIND` lists a kind's fields, `muster explain gpu` tells of one."])


def _description(name: str) -> str:
    """The sentence of the kind's own explanation."""
    lines = language.explain(name).splitlines()
    start = next((index for index, line in enumerate(lines) if line.startswith("DESCRIPTION")), len(lines))
    told = lines[start + 1 :]
    end = told.index("") if "" in told else len(told)
    return " ".join(line.strip() for line in told[:end])


def _text(path: str) -> str:
    """The text for a path; a field without a kind is looked up in every kind, the commonest first."""
    documents = [*(kind.document for kind in _KINDS), _COLOSSAL]
    tries = [path, *(f"{name}.spec.{path.removeprefix('spec.')}" for name in documents)]
    problems: list[str] = []
    for each in tries:
        try:
            return language.explain(each)
        except LookupError as found:
            problems.append(str(found.args[0]))
    raise NotFound(_nothing(path, problems))


def _nothing(path: str, problems: list[str]) -> str:
    """The error for a path without a text. problems: of the path as a kind, then as a field of each kind."""
    first, *rest = path.removeprefix("spec.").split(".")
    if not _is_unknown_kind(first) or "did you mean" in problems[0]:
        return problems[0]
    if member := next((each for each in problems if "has no member" in each), ""):
        return member
    unknown = f"{first} is neither a kind of workload nor a field"
    if near := language.field_like(first):
        return f"{unknown}; did you mean {'.'.join([near, *rest])}?"
    return f"{unknown}: `muster explain` lists the kinds, `muster explain KIND` its fields"


def _is_unknown_kind(word: str) -> bool:
    try:
        language.explain(word)
    except LookupError:
        return True
    return False

"""The verbs `muster fair-share` and `muster mig`: what people ask who plan quotas and cards.

The `muster` command finds them by entry point (group `muster.commands`); they return the exit code: 0, or 2 where the
file or the command line is wrong. Nothing is asked of a control plane.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from typing import Annotated, Any, Final, NoReturn

from cyclopts import Parameter

from muster_kernel.mig import CARDS
from muster_kernel.numbers import exact
from muster_scheduler.planning import drawing
from muster_scheduler.planning.layouts import Layouts, enumerate_layouts, profiles_of
from muster_scheduler.planning.level import answered, lines, read

_INVALID: Final = 2
_WIDE: Final = 160
_LARGEST_FILE: Final = 64 << 20
_SHOWN: Final = 40  # characters of a member that an error repeats
_STDIN: Final = Path("-")

AsJson = Annotated[bool, Parameter(name=["--json"], negative="", help="Print JSON, for programs.")]


class Unreadable(Exception):
    """A file that is not what it should be: its text says what and where."""


def fair_share(file: Path, *, as_json: AsJson = False) -> int:
    """Divide a pool's GPUs among queues by the scheduler's own rules.

    Parameters
    ----------
    file
        JSON: one case, {"total", "queues": [{"queue", "deserved", "request", "weight", "priority", "limit"}]}, or
        {"cases": [..]}. A queue may name its "parent". A hyphen reads standard input.
    """
    try:
        document = _load(file)
    except Unreadable as problem:
        return _complain([str(problem)], as_json=as_json)
    cases, problems = read(document)
    if problems:
        return _complain(list(lines(problems, str(file))), as_json=as_json)
    if as_json:
        _print(answered(document, cases))
        return 0
    if not cases:
        sys.stdout.write(f"{file} has no case: nothing is divided\n")
    for at, case in enumerate(cases):
        if len(cases) > 1:
            sys.stdout.write(f"{'' if at == 0 else chr(10)}case {at}\n")
        sys.stdout.writelines(f"{line}\n" for line in drawing.table_of(case, _columns()))
    return 0


def mig(
    card: str,
    *,
    profiles: Annotated[str | None, Parameter(help="Only these, such as 1g.5gb,2g.10gb (default: all).")] = None,
    me: Annotated[bool, Parameter(name=["--me"], negative="", help="With the profiles that end in +me.")] = False,
    every: Annotated[bool, Parameter(name=["--all"], negative="", help="Draw every legal layout.")] = False,
    as_json: AsJson = False,
) -> int:
    """Show how a GPU can be cut into MIG instances.

    Parameters
    ----------
    card
        The model, such as A100-40GB.
    """
    known = next((found for name, found in CARDS.items() if name.lower() == card.lower()), None)
    if known is None:
        return _complain([f"{card!r} is no GPU with MIG: {', '.join(CARDS)} are known"], as_json=as_json)
    names = profiles_of(known, media=me)
    if profiles is not None:
        asked = [name.strip() for name in profiles.split(",")]
        unknown = [name for name in asked if name not in known.profiles]
        if unknown:
            allowed = ", ".join(known.profiles)
            return _complain(
                [f"{name!r} is no profile of {known.model}: {allowed}" for name in unknown], as_json=as_json
            )
        names = tuple(name for name in known.profiles if name in asked)
    found = enumerate_layouts(known, names)
    if as_json:
        _print(found._asdict())
    else:
        _draw(known.model, found, every=every)
    return 0


def _draw(model: str, found: Layouts, *, every: bool) -> None:
    said = f"{len(found.legal)} legal layouts of {len(found.legal_sets)} sets of profiles, {len(found.maximal)} maximal"
    shown = found.legal if every else found.maximal
    columns = _columns()
    rows = drawing.boxes(CARDS[model], shown, found.profiles, columns)
    sys.stdout.write("\n".join([*wrap(f"{model}: {said}", columns), *(row.rstrip() for row in rows)]) + "\n")


def _columns() -> int:
    """How wide the terminal is; what is none has room for everything."""
    return get_terminal_size((_WIDE, 0)).columns


def _load(file: Path) -> Any:
    try:
        content = sys.stdin.buffer.read(_LARGEST_FILE + 1) if file == _STDIN else _bytes_of(file)
    except OSError as problem:
        raise Unreadable(f"{file}: {problem.strerror or problem}") from problem
    if len(content) > _LARGEST_FILE:
        raise Unreadable(f"{file}: larger than {_LARGEST_FILE >> 20} MiB")
    try:
        numbers: dict[str, Any] = {"parse_int": exact, "parse_float": exact, "parse_constant": _no_number}
        return json.loads(content.decode(), object_pairs_hook=_object, **numbers)
    except UnicodeDecodeError as problem:
        raise Unreadable(f"{file}: byte {problem.start} is no UTF-8: JSON in UTF-8 is expected") from problem
    except json.JSONDecodeError as problem:
        raise Unreadable(f"{file}:{problem.lineno}:{problem.colno}: {problem.msg}: JSON is expected") from problem
    except RecursionError as problem:
        raise Unreadable(f"{file}: nested too deeply") from problem
    except ValueError as problem:
        raise Unreadable(f"{file}: {problem}") from problem


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) < len(members):
        twice = next(name for name, times in Counter(name for name, _ in members).items() if times > 1)
        raise ValueError(f"duplicate key {twice[:_SHOWN]!r} in one object")
    return found


def _bytes_of(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(_LARGEST_FILE + 1)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


def _complain(problems: list[str], *, as_json: bool) -> int:
    if as_json:
        error = {"code": "INVALID_ARGUMENT", "message": "\n".join(problems)}
        sys.stderr.write(json.dumps({"error": error, "exit": _INVALID}, ensure_ascii=False) + "\n")
    else:
        sys.stderr.write("".join(f"{problem}\n" for problem in problems))
    return _INVALID


def _print(value: Any) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")

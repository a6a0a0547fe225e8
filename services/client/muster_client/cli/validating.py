"""`muster validate`: checks files without a control plane, for people, for programs, and as a pre-commit hook.

Holds: every document of every file is looked at, whatever is wrong with the others; nothing is made, and unless
--remote asks for it nobody is called.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from muster_client.cli.documents import Checked, Files, check_files
from muster_client.cli.exits import Exit
from muster_client.cli.failures import violation_json, violation_text
from muster_client.cli.options import Common
from muster_client.cli.output import complain, emit, note, say
from muster_client.cli.printable import hanging

_NO_OPTIONS = Common()


async def validate(file: Files, *, remote: bool = False, common: Common = _NO_OPTIONS) -> int:
    """Checks every document of the files and shows every error; makes nothing. Exit 2 where one is not valid.

    Args:
        file: Files of documents; - reads standard input.
        remote: Ask the control plane too, about what only it knows: projects, templates, names.
        common: Connection, for --remote.
    """
    checked = check_files(file)
    if remote:
        await _ask(checked, common)
    invalid = sum(bool(each.violations) for each in checked)
    if common.json:
        emit(_report(checked, invalid))
    else:
        _show(checked, invalid)
    return Exit.INVALID if invalid else Exit.OK


async def _ask(checked: Iterable[Checked], common: Common) -> None:
    """Adds what the control plane says of documents that stand alone."""
    async with common.muster() as muster:
        for each in checked:
            if each.piece is not None and not each.violations:
                project = await common.project_for(muster, each.piece.document.namespace)
                found = await muster.validate(each.piece.text, project=project)
                each.violations.extend(each.piece.placed(found))


def _report(checked: list[Checked], invalid: int) -> dict[str, Any]:
    errors = [violation_json(one, each.source) for each in checked for one in each.violations]
    return {"valid": len(checked) - invalid, "invalid": invalid, "errors": errors}


def _show(checked: list[Checked], invalid: int) -> None:
    for each in checked:
        for one in each.violations:
            complain(hanging(violation_text(one, each.source)))
        for one in each.warnings:
            note(violation_text(one, each.source))
    count = sum(len(each.violations) for each in checked)
    if invalid:
        say(f"{_many(count, 'error')} in {invalid} of {_many(len(checked), 'document')}")
    else:
        say(f"{_many(len(checked), 'document')}, no errors")


def _many(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"

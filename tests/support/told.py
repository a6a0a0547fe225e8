"""What is wrong with documents as one text, so that a test can compare all of it at a glance.

The form is the one in which `muster validate` tells people; what the command prints is tested with the command.
"""

from __future__ import annotations

from collections.abc import Sequence

from muster_language import Document


def format_violations(documents: Sequence[Document]) -> str:
    """All errors of a file, with their places and what is allowed; empty where there are none."""
    lines: list[str] = []
    count = 0
    for document in documents:
        for violation in document.violations:
            count += 1
            place = f"{document.source}:{violation.line}:{violation.column}" if violation.line else document.source
            where = f" {violation.path}:" if violation.path else ""
            lines.append(f"{place}:{where} {violation.message}")
            if violation.allowed:
                lines.append(f"  {violation.allowed}")
    if not count:
        return ""
    return "\n".join([*lines, f"{count} error{'s' if count > 1 else ''}, nothing was submitted"])

"""Errors, for people and for programs.

Called by `main`, and by the verbs that read documents. To a person:

    train.yaml:14:7: spec.gpu.value: 1.5 is not a GPU request
      0 is no GPU, 0.01 to 1 a portion, a whole number above 1 that many devices
    1 error, nothing was submitted
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from cyclopts import Argument, ArgumentOrderError, CycloptsError, MissingArgumentError

from muster_client.cli.exits import Exit, exit_of
from muster_client.cli.output import complain, json_text
from muster_client.cli.printable import hanging
from muster_client.errors import Detail, InvalidInput, MusterError, Unavailable, Violation


def in_file(kind: type[MusterError], source: str, violations: Sequence[Violation], *, done: str) -> MusterError:
    """The error of a file that cannot be used. `source` is its name; `done` says what was (not) done with it."""
    count = f"{len(violations)} error{'' if len(violations) == 1 else 's'}"
    problem = kind(f"{count}, {done}", detail=Detail(violations=tuple(violations)))
    problem.source = source
    return problem


def not_yaml(path: Path, problem: yaml.MarkedYAMLError, *, done: str) -> MusterError:
    """The error of a file that is no YAML, with the place where reading ended: line and column from 1."""
    mark = problem.problem_mark or problem.context_mark
    what = " ".join(part for part in (problem.context, problem.problem) if part)
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    violation = Violation("", f"this is not YAML: {what}", line, column)
    return in_file(InvalidInput, str(path), [violation], done=done)


def show_failure(problem: MusterError, *, as_json: bool) -> None:
    """Prints an error on stderr."""
    if as_json:
        complain(json_text({"error": failure_json(problem), "exit": int(exit_of(problem))}))
    else:
        complain(failure_text(problem))


def show_usage_error(problem: CycloptsError, *, as_json: bool) -> None:
    """Prints what is wrong with the command line on stderr."""
    text = _words(problem)
    if as_json:
        complain(json_text({"error": {"code": "USAGE", "message": text}, "exit": int(Exit.INVALID)}))
    else:
        complain(f"muster: {text}\n  `muster --help` lists the verbs, `muster VERB --help` what a verb takes")


def _words(problem: CycloptsError) -> str:
    """What is wrong. Its text lists all verbs and so loads them: one that does not load must not hide the error."""
    try:
        if type(problem) is MissingArgumentError and problem.keyword is None:
            return _missing(problem)
        if isinstance(problem, ArgumentOrderError):
            return _out_of_order(problem)
        return str(problem)
    except (ImportError, AttributeError) as broken:
        return f"this command line is not understood (and a verb that somebody installed does not load: {broken})"


def _missing(problem: MissingArgumentError) -> str:
    """A word that is given by its place is named as the help names it; the parser speaks of it as of an option."""
    verb, argument = " ".join(problem.command_chain or ()), problem.argument
    if argument is None or any(token.keyword for token in argument.tokens):
        return str(problem)
    return f"{verb}: {_placed(argument)} is missing"


def _out_of_order(problem: ArgumentOrderError) -> str:
    """A word by its place after one of the words before it was given as an option."""
    given = [
        token.keyword
        for each in problem.prior_positional_or_keyword_supplied_as_keyword_arguments
        for token in each.tokens[:1]
        if token.keyword
    ]
    verb, argument = " ".join(problem.command_chain or ()), problem.argument
    if argument is None or not given:
        return str(problem)
    before = " ".join(option.lstrip("-").upper() for option in given)
    ways = f"write {before} {_placed(argument)} without {' and '.join(given)}, or {argument.name} {problem.token}"
    return f"{verb}: {problem.token!r} stands alone, and {' and '.join(given)} before it is an option: {ways}"


def _placed(argument: Argument) -> str:
    return argument.name if argument.index is None else argument.name.lstrip("-").upper()


def failure_text(problem: MusterError) -> str:
    """An error as a person reads it."""
    lines = [hanging(violation_text(each, problem.source)) for each in problem.violations]
    if problem.source:
        return "\n".join([*lines, hanging(problem.message)])
    if isinstance(problem, Unavailable):
        return "\n".join([hanging(f"muster: {_unavailable(problem)}"), *lines])
    if lines:
        # The message of such an answer repeats its first violation: the places say it better.
        return "\n".join([hanging(f"muster: {problem.message}") if len(lines) > 1 else "", *lines]).lstrip("\n")
    return hanging(f"muster: {problem.message}")


def failure_json(problem: MusterError) -> dict[str, Any]:
    """An error as a program reads it."""
    told: dict[str, Any] = {"code": problem.code.name, "message": problem.message}
    if problem.detail.reason:
        told["reason"] = problem.detail.reason
    if isinstance(problem, Unavailable) and problem.service:
        told["service"] = problem.service
    if problem.retry_after is not None:
        told["retryAfterSeconds"] = problem.retry_after
    if problem.violations:
        told["violations"] = [violation_json(each, problem.source) for each in problem.violations]
    return told


def _unavailable(problem: Unavailable) -> str:
    if problem.service and problem.service not in problem.message:
        return f"{problem.service} does not answer: {problem.message}"
    if problem.message.startswith("the control plane at"):
        return f"{problem.message}\n  is it up? `muster status` says so, `muster up` starts one"
    return problem.message


def violation_text(violation: Violation, source: str) -> str:
    """An error of a document as a person reads it."""
    file = violation.file or source
    place = f"{file}:{violation.line}:{violation.column}: " if violation.line else (f"{file}: " if file else "")
    where = f"{violation.path}: " if violation.path else ""
    wrong, _, allowed = violation.message.partition("\n")
    text = f"{place}{where}{wrong}"
    return f"{text}\n  {allowed.strip()}" if allowed else text


def violation_json(violation: Violation, source: str) -> dict[str, Any]:
    """An error of a document as a program reads it."""
    message, _, allowed = violation.message.partition("\n")
    told: dict[str, Any] = {"path": violation.path, "message": message}
    if allowed:
        told["allowed"] = allowed.strip()
    if file := violation.file or source:
        told["file"] = file
    if violation.line:
        told |= {"line": violation.line, "column": violation.column}
    return told

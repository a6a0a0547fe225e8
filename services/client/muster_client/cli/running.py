"""`muster run -- COMMAND`: a command on GPUs of the fleet as if it ran here.

It submits a training, prints its log as it comes, and ends with the command's own exit code. Holds: without a terminal
Ctrl-C stops the training; at a terminal it asks first, and a second Ctrl-C stops it; whatever happens to this process,
the training is a workload like any other, which `muster list` shows.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import shlex
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from cyclopts import Parameter

import muster_language as language
from muster.workload.v1 import workload_pb2
from muster_client.cli.exits import Exit
from muster_client.cli.options import Common
from muster_client.cli.output import emit_line, note, remark, write
from muster_client.cli.printable import hanging
from muster_client.cli.render.logs import Lines
from muster_client.cli.render.plain import plain
from muster_client.errors import Detail, InvalidInput, MusterError, NotNow, Violation
from muster_client.muster import LONGEST_VERDICT, Muster
from muster_client.phases import Phase
from muster_client.watching import WatchItem, until
from muster_client.words import TERMINAL, phase_of, phase_word
from muster_kernel.reasons import ChangeReason, FailureClass

_NO_OPTIONS = Common()
_LOG_SECONDS: Final = 10.0
"""How long the end of the log is waited for once the workload has ended."""
_MOST_CODE: Final = 255
_TMP: Final = "/tmp"  # noqa: S108  the folder is compared, not used
_OPTION_OF: Final = {"gpu": "--gpu", "cpu": "--cpu", "memory": "--memory", "workingDir": "--data", "image": "--image"}


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Needs:
    """What the command needs."""

    gpu: str = "1"
    """GPUs: 0.5 is half of one, 2 are two; 0: none."""
    cpu: str = ""
    """CPU in cores, such as 4 or 500m."""
    memory: str = ""
    """Memory, such as 8Gi."""
    image: str = ""
    """The container image, where the cluster runs containers."""


_ORDINARY = Needs()


async def run(
    *command: Annotated[str, Parameter(allow_leading_hyphen=True)],
    needs: Needs = _ORDINARY,
    data: Path | None = None,
    name: str = "",
    cluster: str = "",
    rm: Annotated[bool, Parameter(negative="")] = False,
    common: Common = _NO_OPTIONS,
) -> int:
    """Runs a command as a training, shows what it writes, and exits with its exit code.

    The command follows --, as in `muster run --gpu 0.5 -- python train.py --epochs 3`.

    Args:
        command: The command and its arguments, behind --.
        needs: What it needs.
        data: The folder in which the command runs and whose files it sees; else a folder of its own.
        name: The name of the workload; else run- and eight characters.
        cluster: The only cluster in which it may run.
        rm: Delete the workload once it has ended.
        common: Connection.
    """
    if not command:
        raise InvalidInput("no command is given: write it behind --, as in `muster run --gpu 1 -- python train.py`")
    if data is not None:
        _check_folder(data)
    named = name or f"run-{secrets.token_hex(4)}"
    document = _document(named, command, needs, data)
    _check(document)
    if data is None and (found := _file_here(command)):
        note(f"the command runs in a folder of its own, where {found} is not: --data . runs it in this one")
    async with common.muster() as muster:
        project = await common.project_for(muster)
        try:
            made = await muster.submit(document, project=project, cluster=cluster, verdict=LONGEST_VERDICT)
        except asyncio.CancelledError:
            note(f"interrupted while {named} was being submitted: `muster list {named}` says whether it is there")
            raise
        if not common.json:
            remark(f"{made.name} in project {made.project} ({made.id})")
        ended = await _followed(muster, made, common)
        if ended is None:
            return Exit.INTERRUPTED
        if rm:
            await muster.delete(made.id)
    if common.json:
        emit_line({"workload": plain(ended)})
    return _exit_code(ended, quiet=common.json)


def _document(name: str, command: tuple[str, ...], needs: Needs, data: Path | None) -> str:
    """The document of the training. A failed command is not tried again: its code is this command's."""
    spec: dict[str, Any] = {"command": shlex.join(command), "gpu": _number(needs.gpu), "backoffLimit": 0}
    parts = {"cpu": needs.cpu, "memory": needs.memory, "image": needs.image}
    spec |= {key: value for key, value in parts.items() if value}
    if data is not None:
        spec["workingDir"] = str(data.expanduser().resolve())
    document = {
        "apiVersion": "run.ai/v2alpha1",
        "kind": "TrainingWorkload",
        "metadata": {"name": name},
        "spec": {key: {"value": value} for key, value in spec.items()},
    }
    return json.dumps(document)


def _check_folder(data: Path) -> None:
    """Raises InvalidInput where there is no such folder; a note where replicas do not see it."""
    folder = data.expanduser().resolve()
    if not folder.is_dir():
        raise InvalidInput(f"--data {data}: not a folder of this machine")
    if folder.is_relative_to(_TMP):
        note(f"{data}: replicas of this machine have a /tmp of their own, which does not hold these files")


def _number(gpu: str) -> int | float | str:
    """As a document has it: a number where it is one, else what the language refuses in its own words."""
    try:
        value = float(gpu)
    except ValueError:
        return gpu
    return int(value) if value.is_integer() and abs(value) < 1 << 53 else value


def _check(document: str) -> None:
    """Raises InvalidInput with what the language says, in the words of the options."""
    (read,) = language.read(document, template_fields=[language.ANY_FIELD])
    if read.violations:
        raise InvalidInput(
            f"{len(read.violations)} options are wrong, nothing was submitted",
            detail=Detail(violations=tuple(map(_said, read.violations))),
        )


def _said(violation: language.Violation) -> Violation:
    field = violation.path.removeprefix("spec.").split(".")[0]
    path = _OPTION_OF.get(field, "--name" if violation.path.startswith("metadata") else violation.path)
    return Violation(path, f"{violation.message}\n{violation.allowed}" if violation.allowed else violation.message)


def _file_here(command: tuple[str, ...]) -> str:
    """The first word that names a file of this folder, which the command would look for in vain."""
    relative = (word for word in command[:3] if not word.startswith(("-", "/")))
    with suppress(OSError, ValueError):
        return next((word for word in relative if Path(word).is_file()), "")
    return ""


async def _followed(muster: Muster, made: workload_pb2.Workload, common: Common) -> workload_pb2.Workload | None:
    """The workload at its end, its log printed on the way; None where a person let go of it or stopped it."""
    while True:
        try:
            return await _to_its_end(muster, made, common)
        except _CannotStart as problem:
            await muster.suspend(made.id)
            raise NotNow(
                f"{made.name} cannot start: {problem.message}\n"
                f"  it is stopped: `muster resume {made.name}` tries again, `muster delete {made.name}` gives it up"
            ) from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None:
                raise
            task.uncancel()  # Ctrl-C: the question below is still asked and answered within this task
            if _lets_go(made.name):
                note(f"{made.name} goes on: `muster logs {made.name} -f` shows it, `muster delete {made.name}` ends it")
                return None
            await muster.delete(made.id)
            note(f"{made.name} is stopped and deleted")
            return None


def _lets_go(name: str) -> bool:
    """Whether a person at a terminal wants the training to go on without this command."""
    if not sys.stdin.isatty():
        return False
    remark(f"stop {name}? [Y/n]")
    try:
        return sys.stdin.readline().strip().lower() in {"n", "no"}
    except KeyboardInterrupt:
        return False


async def _to_its_end(muster: Muster, made: workload_pb2.Workload, common: Common) -> workload_pb2.Workload:
    log = asyncio.create_task(_log(muster, made.id, common), name="log")
    try:
        ended = await until(muster.watch(workload=made.id), TERMINAL, made.name, None, _Progress(quiet=common.json))
        with suppress(TimeoutError):
            await asyncio.wait_for(log, _LOG_SECONDS)
        return ended
    finally:
        log.cancel()
        with suppress(asyncio.CancelledError, MusterError):
            await log


class _CannotStart(MusterError):
    """The cluster cannot start the command; the message says why."""


class _Progress:
    """A line on stderr for each phase and reason before the command runs. Raises _CannotStart where it cannot.

    The fleet would start it again ten times; this command promises no retries.
    """

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._last = ""

    def __call__(self, item: WatchItem) -> None:
        if item.workload is None:
            return
        reason = item.workload.reason
        if reason.code == ChangeReason.RESTART and f" ({FailureClass.START.value}): " in reason.message:
            raise _CannotStart(reason.message.partition(f" ({FailureClass.START.value}): ")[2])
        if self._quiet or phase_of(item.workload) in {Phase.RUNNING, *TERMINAL}:
            return
        why = f": {item.workload.reason.message}" if item.workload.reason.message else ""
        text = hanging(f"  {phase_word(item.workload.phase)}{why}")
        if text != self._last:
            self._last = text
            remark(text)


async def _log(muster: Muster, workload: str, common: Common) -> None:
    """Prints the log until the workload ends; one that was never placed has none."""
    lines = Lines(alone=True)
    with suppress(NotNow):
        async for piece in muster.logs(workload, follow=True):
            if common.json:
                emit_line({"replica": piece.replica, "text": piece.data.decode(errors="replace")})
            else:
                write(lines.take(piece.replica, piece.data))
    write(lines.rest())


def _exit_code(ended: workload_pb2.Workload, *, quiet: bool) -> int:
    """The command's own exit code; 1 where it has none, because it never ran or was ended from outside."""
    if phase_of(ended) is Phase.COMPLETED:
        return Exit.OK
    if not quiet:
        for issue in ended.issues:
            note(hanging(issue))
        note(hanging(f"{ended.name} is {phase_word(ended.phase)}: {ended.reason.message}"))
    codes = [each.exit_code for each in ended.replicas if each.HasField("exit_code") and each.exit_code]
    return min(max(codes, default=int(Exit.FAILED)), _MOST_CODE)

"""`muster submit`.

Holds: a file with an error in any document submits none of them; what the control plane refuses later is said per
document, and the others stay submitted.
"""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2
from muster_client.calls import new_key
from muster_client.cli.documents import Files, Piece, read_files, refused, warn
from muster_client.cli.dry_run import show_verdicts
from muster_client.cli.exits import Exit, exit_of
from muster_client.cli.failures import failure_json, show_failure
from muster_client.cli.issues import in_document
from muster_client.cli.options import Common
from muster_client.cli.output import emit, remark, say
from muster_client.cli.printable import hanging
from muster_client.cli.render.plain import plain
from muster_client.errors import InvalidInput, MusterError, NotNow, Unavailable
from muster_client.muster import LONGEST_VERDICT, Muster
from muster_client.phases import Phase
from muster_client.watching import WatchItem, until
from muster_client.words import TERMINAL, phase_of, phase_word
from muster_kernel.reasons import WaitingReason

_NO_OPTIONS = Common()
_SERVES = frozenset({Phase.RUNNING})
_SERVICES = frozenset({options_pb2.KIND_INFERENCE, options_pb2.KIND_WORKSPACE})


async def submit(
    *,
    file: Files,
    wait: bool | None = None,
    timeout: float | None = None,
    cluster: str = "",
    key: str = "",
    dry_run: Annotated[bool, Parameter(name="--dry-run", negative="")] = False,
    output: Annotated[Literal["yaml", "json"] | None, Parameter(name=["--output", "-o"])] = None,
    common: Common = _NO_OPTIONS,
) -> int:
    """Submits every document of the files, in order; with an error of the language in any of them, none.

    What only the control plane finds, such as a taken name, refuses that document alone.
    Without --wait or --no-wait it waits up to 5 seconds for policy's verdict, so that a refusal is seen at once.

    Args:
        file: A file of documents; - reads standard input. May be given several times.
        wait: Wait until each has ended, or runs (inference, workspaces); exit 1 where one failed. --no-wait: not even
            for policy.
        timeout: Seconds to wait at most with --wait; exit 4 afterwards.
        cluster: The only cluster in which they may run.
        key: Idempotency key: repeating a command with the same key does nothing twice. Made anew where it is left out.
        dry_run: Submit nothing: show what policy would make of each, with the source of every value; exit 1 where it
            refuses one.
        output: Of a dry run: the effective specs as documents (yaml), or everything (json).
        common: Connection.
    """
    if dry_run:
        if wait is not None or timeout is not None or key:
            raise InvalidInput(
                "--dry-run submits nothing, so --wait, --no-wait, --timeout and --key have no use with it"
            )
        return await show_verdicts(file, cluster, as_json=common.json or output == "json", common=common)
    if output is not None:
        raise InvalidInput(f"-o {output} is for --dry-run; --json prints what was submitted as JSON")
    pieces = read_files(file)
    if not common.json:
        warn(pieces)
    base = key or new_key()
    missed = "nothing was submitted" if len(pieces) == 1 else "this workload was not submitted"
    done: list[workload_pb2.Workload] = []
    failed: list[MusterError] = []
    async with common.muster() as muster:
        for index, piece in enumerate(pieces):
            verdict = 0.0 if wait is False else LONGEST_VERDICT
            try:
                project = await common.project_for(muster, piece.document.namespace)
                workload = await muster.submit(
                    piece.text, project=project, cluster=cluster, verdict=verdict, key=f"{base}-{index}"
                )
            except Unavailable as problem:
                raise _repeatable(problem, base) from None
            except MusterError as problem:
                failed.append(refused(piece, problem, done=missed))
                continue
            if not common.json:
                say(_line(workload, piece))
            done.append(workload)
        if wait:
            done = [await _waited(muster, each, timeout, failed, quiet=common.json) for each in done]
    return _result(done, failed, as_json=common.json)


async def _waited(
    muster: Muster,
    workload: workload_pb2.Workload,
    timeout: float | None,
    failed: list[MusterError],
    *,
    quiet: bool,
) -> workload_pb2.Workload:
    """The workload at the end of the wait; one that no cluster takes goes on waiting, and is added to `failed`."""
    try:
        return await _wait(muster, workload, timeout, quiet=quiet)
    except NotNow as problem:
        failed.append(problem)
        return workload


def _line(workload: workload_pb2.Workload, piece: Piece) -> str:
    phase = phase_of(workload)
    text = f"{workload.name} in project {workload.project}: {phase.word if phase else workload.phase}"
    if workload.issues:
        text += "".join(f"\n  {hanging(issue)}" for issue in in_document(piece, workload.issues))
    elif phase is Phase.FAILED and workload.reason.message:
        text += f"\n  {hanging(workload.reason.message)}"
    return f"{text}  ({workload.id})"


def _repeatable(problem: Unavailable, key: str) -> Unavailable:
    """Whether it was done is not known: the same key answers that without doing it twice."""
    return type(problem)(
        f"{problem.message}\n  to try again without submitting anything twice: the same command with --key {key}",
        detail=problem.detail,
    )


async def _wait(
    muster: Muster, workload: workload_pb2.Workload, timeout: float | None, *, quiet: bool
) -> workload_pb2.Workload:
    """The workload once it has ended, or serves its users; every phase it enters meanwhile is a line for a person.

    Raises NotNow as soon as no cluster of the fleet takes what it sets: no capacity that returns would help it.
    """
    goal = _SERVES if workload.spec.kind in _SERVICES else TERMINAL
    told: list[str] = []

    def tell(item: WatchItem) -> None:
        if item.workload is None:
            return
        if item.workload.reason.code == WaitingReason.NOT_SUPPORTED:
            raise NotNow(
                f"{workload.name} waits until the fleet has a cluster that takes it: {item.workload.reason.message}\n"
                f"  `muster why {workload.name}` names the fields, `muster delete {workload.name}` gives it up"
            )
        if quiet:
            return
        text = _progress(item.workload)
        if text not in told[-1:]:
            told.append(text)
            remark(f"  {hanging(text)}")

    items = muster.watch(workload=workload.id)
    return await until(items, goal, workload.name, timeout, tell)


def _progress(workload: workload_pb2.Workload) -> str:
    where = f" in {workload.cluster}" if workload.cluster else ""
    why = f": {workload.reason.message}" if workload.reason.message else ""
    return f"{workload.name}: {phase_word(workload.phase)}{where}{why}"


def _result(done: list[workload_pb2.Workload], failed: list[MusterError], *, as_json: bool) -> int:
    if as_json:
        emit([*(plain(each) for each in done), *({"error": failure_json(each)} for each in failed)])
    else:
        for problem in failed:
            show_failure(problem, as_json=False)
    if failed:
        return exit_of(failed[0])
    return Exit.FAILED if any(phase_of(each) is Phase.FAILED for each in done) else Exit.OK

"""`muster apply`: the workloads and templates of files as the files say, however often it is called.

Holds: a file with an error in any document applies none of them; what the control plane refuses later is said per
document, and the others stay applied.
"""

from __future__ import annotations

from typing import Any

from muster.workload.v1 import workload_pb2
from muster_client.calls import new_key
from muster_client.cli.documents import Files, Piece, read_files, refused, warn
from muster_client.cli.exits import Exit, exit_of
from muster_client.cli.failures import failure_json, show_failure
from muster_client.cli.issues import in_document
from muster_client.cli.options import Common
from muster_client.cli.output import emit, say
from muster_client.cli.printable import hanging
from muster_client.cli.render.plain import plain
from muster_client.cli.templates import apply_template, line_of
from muster_client.errors import MusterError
from muster_client.muster import LONGEST_VERDICT, Muster
from muster_client.phases import Phase
from muster_client.words import phase_of

_NO_OPTIONS = Common()


async def apply(*, file: Files, cluster: str = "", key: str = "", common: Common = _NO_OPTIONS) -> int:
    """Makes the workloads and templates of the files as they say: created, changed, or left as they are.

    A document is known again by its project, its kind and metadata.name. Templates (`usage: Template`) in the
    namespace runai are for all projects.

    Args:
        file: Files of documents; - reads standard input.
        cluster: The only cluster in which the workloads may run.
        key: Idempotency key: repeating a command with the same key does nothing twice. Made anew where it is left out.
        common: Connection.
    """
    pieces = read_files(file, done="nothing was applied")
    if not common.json:
        warn(pieces)
    base = key or new_key()
    missed = "nothing was applied" if len(pieces) == 1 else "this document was not applied"
    done: list[dict[str, Any]] = []
    failed: list[MusterError] = []
    code = Exit.OK
    async with common.muster() as muster:
        for index, piece in enumerate(pieces):
            try:
                told = await _apply(muster, piece, cluster, f"{base}-{index}", common)
            except MusterError as problem:
                failed.append(refused(piece, problem, done=missed))
                continue
            if not common.json:
                say(told.pop("line"))
            done.append(told)
            code = max(code, Exit.FAILED if told.get("workload", {}).get("issues") else Exit.OK)
    if common.json:
        emit([*done, *({"error": failure_json(each)} for each in failed)])
    else:
        for each in failed:
            show_failure(each, as_json=False)
    return exit_of(failed[0]) if failed else code


async def _apply(muster: Muster, piece: Piece, cluster: str, key: str, common: Common) -> dict[str, Any]:
    if piece.document.spec.usage == workload_pb2.USAGE_TEMPLATE:
        made = await apply_template(muster, piece, common, key=key)
        told = {"outcome": made.outcome, "template": plain(made.template)}
        return told if common.json else told | {"line": line_of(made)}
    project = await common.project_for(muster, piece.document.namespace)
    applied = await muster.apply(piece.text, project=project, cluster=cluster, verdict=LONGEST_VERDICT, key=key)
    workload = applied.workload
    phase = phase_of(workload)
    word = phase.word if phase else str(workload.phase)
    done = "refused by policy, it stays as it was" if workload.issues and phase is not Phase.FAILED else applied.outcome
    line = f"{workload.name} in project {workload.project}: {done} ({word})"
    told = {"outcome": applied.outcome, "workload": plain(workload)}
    return (
        told
        if common.json
        else told | {"line": "\n  ".join([line, *map(hanging, in_document(piece, workload.issues))])}
    )

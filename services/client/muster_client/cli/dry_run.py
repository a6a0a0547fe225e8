"""`muster submit --dry-run`: what policy would make of the workloads of files, decided by the control plane.

Called by submit. Holds: nothing is made, no name is taken and no verdict is kept; stdout has documents or JSON and
nothing else, so that the answer can be piped on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from muster.api.v1 import policies_pb2
from muster.events.v1 import policy_pb2
from muster.policy.v1.policy_pb2 import PolicyRef, Source
from muster_client.cli.asking import asked_together, drafts_of
from muster_client.cli.documents import Files, Piece, read_files, warn
from muster_client.cli.exits import Exit
from muster_client.cli.issues import in_document
from muster_client.cli.options import Common
from muster_client.cli.output import complain, emit, note, say
from muster_client.cli.printable import hanging, one_line
from muster_client.cli.render.plain import plain
from muster_client.cli.render.policies import issue_text
from muster_client.cli.render.sources import LEVELS, commented
from muster_language import write
from muster_language.sensitive import masked

Verdict = policy_pb2.WorkloadAdmitted | policy_pb2.WorkloadRejected


async def show_verdicts(file: Files, cluster: str, *, as_json: bool, common: Common) -> int:
    """Show the effective spec of each document, or the issues against it. Exit 1 if one is refused."""
    pieces = read_files(file, done="nothing was asked")
    if not as_json:
        warn(pieces)
    async with common.muster() as muster:
        drafts = await drafts_of(muster, pieces, cluster, common)
        judgements = await asked_together(muster.policies.judge, pieces, drafts)
    verdicts = [_verdict(each) for each in judgements]
    if as_json:
        emit([_told(each) for each in verdicts])
    else:
        _show(verdicts, pieces)
    return Exit.FAILED if any(isinstance(each, policy_pb2.WorkloadRejected) for each in verdicts) else Exit.OK


def _verdict(judgement: policies_pb2.Judgement) -> Verdict:
    return judgement.admitted if judgement.HasField("admitted") else judgement.rejected


def _told(verdict: Verdict) -> dict[str, Any]:
    """One verdict, for programs."""
    told: dict[str, Any] = {"name": verdict.name, "project": verdict.project}
    if isinstance(verdict, policy_pb2.WorkloadAdmitted):
        by_level = _by_level(verdict.policies)
        effective = plain(masked(verdict.effective_spec))
        sources = [_source(each, by_level) for each in verdict.sources]
        told |= {"admitted": True, "effective": effective, "sources": sources, "issues": []}
    else:
        issues = [plain(each) for each in verdict.issues]
        told |= {"admitted": False, "effective": None, "sources": [], "issues": issues}
    return told | {"warnings": list(verdict.warnings), "revision": verdict.policy_revision}


def _source(source: Source, by_level: Mapping[str, PolicyRef]) -> dict[str, Any]:
    """Where one value is from, with the scope of its policy."""
    level = LEVELS.get(source.layer, "")
    return {**plain(source), "scope": level, "unit": by_level[level].unit if level in by_level else ""}


def _by_level(policies: Sequence[PolicyRef]) -> dict[str, PolicyRef]:
    """The policies that took part: one at most for each level."""
    return {each.scope: each for each in policies}


def _show(verdicts: Sequence[Verdict], pieces: Sequence[Piece]) -> None:
    shown = 0
    for verdict, piece in zip(verdicts, pieces, strict=True):
        name = f"{verdict.name or piece.document.name or piece.document.object_name} in project {verdict.project}"
        if isinstance(verdict, policy_pb2.WorkloadRejected):
            issues = in_document(piece, map(issue_text, verdict.issues))
            refused = one_line(f"{name} would be refused:")
            complain("\n".join([refused, *(f"  {hanging(each, 4)}" for each in issues)]))
        else:
            if shown:
                say("---")
            say(_document(verdict, piece))
            shown += 1
        for each in verdict.warnings:
            note(one_line(f"{name}: {each}"))


def _document(verdict: policy_pb2.WorkloadAdmitted, piece: Piece) -> str:
    """The effective spec as a document, with the source of each value behind it."""
    spec = verdict.effective_spec
    text = write(spec, namespace=verdict.namespace or piece.document.namespace, metadata_name=verdict.name or None)
    return commented(text, spec, verdict.sources, _by_level(verdict.policies)).rstrip("\n")

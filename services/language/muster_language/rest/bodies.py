"""REST bodies of the API 2.18 and typed specs, both ways; the members are the catalogue's.

Called by submission's routes. Holds: reading never raises for what a user sent; write(read(write(spec))) is
write(spec), and what is one member to one field reads back as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from muster_language.checks.validation import check_layer
from muster_language.documents.document import MORE, TooManyErrors, Violation
from muster_language.rest.compounds import read_serving_port, read_spec
from muster_language.rest.paths import BodyNaming
from muster_language.rest.reader import BodyReader, Findings
from muster_language.rest.tree import spec_tree
from muster_language.rest.values import given
from muster_language.rest.writer import answer_body, write_body
from muster_language.spec import Kind, WorkloadSpec, set_kind

__all__ = ["Body", "answer_body", "read_body", "write_body"]

_ENVELOPE: Final = ("name", "useGivenNameAsPrefix", "projectId", "clusterId", "spec")
_MASTER: Final = ("masterSpec", "masterSpecSameAsWorker")


@dataclass(frozen=True, slots=True)
class Body:
    """What a create body says. Ids are texts as sent, '' where there is none."""

    spec: WorkloadSpec
    project_id: str
    cluster_id: str
    warnings: Sequence[str]
    violations: Sequence[Violation]


def read_body(kind: Kind, body: Mapping[str, Any]) -> Body:
    """The body of `POST /api/v1/workloads/<kind>`, already parsed from JSON."""
    findings = Findings()
    spec = WorkloadSpec()
    set_kind(spec, kind)
    try:
        project, cluster = _read(kind, body, spec, findings)
    except TooManyErrors:
        return Body(spec, "", "", tuple(findings.warnings), (*findings.violations, MORE))
    return Body(spec, project, cluster, tuple(findings.warnings), _all(findings.violations, spec))


def _read(kind: Kind, body: Mapping[str, Any], spec: WorkloadSpec, findings: Findings) -> tuple[str, str]:
    """Read the body into the spec; return the ids of its project and its cluster. Raises TooManyErrors."""
    known = [*_ENVELOPE, *(_MASTER if kind is Kind.DISTRIBUTED else ())]
    for name in body:
        if name not in known:
            findings.unknown(name, name, known)
    _name(body, spec, findings)
    project, cluster = (_id(body, name, findings) for name in ("projectId", "clusterId"))
    _spec(kind, body.get("spec"), spec, findings)
    if kind is Kind.DISTRIBUTED:
        _master(kind, body, spec, findings)
    return project, cluster


def _name(body: Mapping[str, Any], spec: WorkloadSpec, findings: Findings) -> None:
    name, prefix = body.get("name"), body.get("useGivenNameAsPrefix")
    if prefix is not None and not isinstance(prefix, bool):
        findings.say("useGivenNameAsPrefix", f"{given(prefix)} stands here", "true or false")
    if not isinstance(name, str) or not name:
        said = "it is missing" if name is None else f"{given(name) or 'an empty text'} stands here"
        findings.say("name", said, "the name of the workload")
    elif prefix is True:
        spec.name_prefix = name
    else:
        spec.name = name


def _id(body: Mapping[str, Any], name: str, findings: Findings) -> str:
    """An id, which may come as a text or as a whole number."""
    value = body.get(name)
    if isinstance(value, str) and value:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    findings.say(name, "it is missing" if value is None else f"{given(value) or 'an empty text'} stands here", "an id")
    return ""


def _spec(kind: Kind, said: Any, spec: WorkloadSpec, findings: Findings) -> None:
    if said is None:
        return
    if not isinstance(said, Mapping):
        findings.say("spec", f"{given(said)} stands here", "an object")
        return
    reader = BodyReader(findings)
    members = dict(said)
    port = members.pop("servingPort", None) if kind is Kind.INFERENCE else None
    read_spec(reader, spec_tree(kind), members, spec, "spec")
    if port is not None:
        read_serving_port(reader, port, spec, "spec.servingPort")


def _master(kind: Kind, body: Mapping[str, Any], spec: WorkloadSpec, findings: Findings) -> None:
    said, same = body.get("masterSpec"), body.get("masterSpecSameAsWorker")
    if same is not None and not isinstance(same, bool):
        findings.say("masterSpecSameAsWorker", f"{given(same)} stands here", "true or false")
    if said is None:
        return
    if same is True:
        findings.say("masterSpec", "masterSpec and masterSpecSameAsWorker exclude each other", "one of them")
    if not isinstance(said, Mapping):
        findings.say("masterSpec", f"{given(said)} stands here", "an object")
        return
    spec.master_spec.SetInParent()
    read_spec(BodyReader(findings), spec_tree(kind, master=True), said, spec.master_spec, "masterSpec")


def _all(own: Sequence[Violation], spec: WorkloadSpec) -> tuple[Violation, ...]:
    """The reader's errors and the LAYER stage's, in REST's words; what the reader has said already is not repeated."""
    said = [one.path for one in own]
    return (*own, *(one for one in check_layer(spec, BodyNaming(spec)) if not _covered(one.path, said)))


def _covered(path: str, said: Iterable[str]) -> bool:
    return any(each == path or each.startswith((f"{path}.", f"{path}[")) for each in said)

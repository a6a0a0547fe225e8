"""The text of policy documents into policies, with every error at its line and column.

    kind: Policy
    name: research-trainings
    workload: training               # workspace, training, distributed or inference
    scope: {department: research}    # tenant, or one of cluster, department, project
    policy: {defaults: .., rules: .., reserved: ..}

A body without the frame around it (`defaults` and `rules` at the top, as consoles take it) is read with a kind and a
scope from outside. Documents of v1 (`apiVersion: run.ai/v2alpha1`) may be in the same file; v1.py reads them. Called by
the service and by the command. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping as Mapped
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from muster_language import Kind, Violation
from muster_language.catalogue import nearest
from muster_language.documents.loading import Loaded, load
from muster_language.documents.nodes import Mapping, Node, Scalar, entry
from muster_language.values import shown
from muster_policy_engine.documents.body import BLOCKS, BodyReader
from muster_policy_engine.documents.reading import NodeReader, is_null
from muster_policy_engine.documents.v1 import Projects, is_v1, read_v1, usual_project
from muster_policy_engine.policy import Body, Level, Policy, Scope

POLICY: Final = "Policy"
MOST_DOCUMENTS: Final = 1_000
KINDS: Final[Mapped[str, Kind]] = MappingProxyType({kind.word: kind for kind in Kind})
_MEMBERS: Final = ("kind", "name", "workload", "scope", "policy")
_SCOPES: Final = "tenant, {cluster: NAME}, {department: NAME} or {project: NAME}"
_BELOW: Final = frozenset(Level) - {Level.TENANT}
_LONGEST_NAME: Final = 253
_SYSTEM: Final = "system"
_BEGINNING: Final = re.compile(
    r"^---(?=\s)", re.MULTILINE
)  # a document may begin in the line that parts it from the one before
_PARTING: Final = re.compile(r"(---|\.\.\.)\s*(#.*)?$")


@dataclass(frozen=True, slots=True)
class PolicyDocument:
    """One document. policy: None where it could not be read. line: where it begins. text: it alone, with its frame."""

    policy: Policy | None
    violations: list[Violation] = field(default_factory=list)
    line: int = 1
    text: str = ""


@dataclass(frozen=True, slots=True)
class Frame:
    """What stands around a bare body."""

    kind: Kind
    scope: Scope
    name: str = ""


def read_policies(text: str, frame: Frame | None = None, projects: Projects = usual_project) -> list[PolicyDocument]:
    """The policies of a text, in its order. Bad documents have violations.

    frame: for bodies that stand alone. projects: the project of a namespace, for documents of v1.
    """
    every = load(text, MOST_DOCUMENTS)
    parts = _parts(text, every)
    found = [_document(each, parts[index], frame, projects) for index, each in enumerate(every) if not _empty(each)]
    if frame is not None and len(found) > 1:
        said = "a body without kind and scope stands alone in its text"
        found[1] = replace(found[1], policy=None, violations=[Violation("", said, found[1].line, 1, "one document")])
    return _once(found)


def _parts(text: str, every: list[Loaded]) -> list[str]:
    """The text of each document, without the lines that part them."""
    lines = text.splitlines()
    ends = [each.line - 1 for each in every[1:]] + [len(lines)]
    parts: list[str] = []
    begin = 0
    for end in ends:
        inside = _unparted(_unparted(lines[begin:end])[::-1])[::-1]
        parts.append("\n".join(inside).strip("\n") + "\n")
        begin = end
    return parts


def _unparted(lines: list[str]) -> list[str]:
    """The lines without those that part documents before the first line that says something."""
    for index, line in enumerate(lines):
        if line.strip() and not line.lstrip().startswith("#") and not _PARTING.match(line):
            return [each for each in lines[:index] if not _PARTING.match(each)] + lines[index:]
    return [each for each in lines if not _PARTING.match(each)]


def _empty(loaded: Loaded) -> bool:
    root = loaded.root
    return not loaded.violations and (root is None or (isinstance(root, Scalar) and root.null))


def _document(loaded: Loaded, text: str, frame: Frame | None, projects: Projects) -> PolicyDocument:
    if frame is None and loaded.root is not None and not loaded.violations and is_v1(loaded.root):
        policy, found = read_v1(loaded.root, projects)
        return PolicyDocument(policy if not found else None, found, loaded.line, text)
    reader = NodeReader()
    reader.found.extend(loaded.violations)
    policy = None
    if loaded.root is not None and not reader.found:
        policy = _Framed(reader).read(loaded.root) if frame is None else _bare(reader, loaded.root, frame)
    whole = text if frame is None else framed(text, frame)
    return PolicyDocument(policy if not reader.found else None, reader.found, loaded.line, whole)


def framed(body: str, frame: Frame) -> str:
    """The document of a body: with its kind of workload, its scope and its name around it."""
    scope = frame.scope
    where = f"{{{scope.level}: {json.dumps(scope.unit)}}}" if scope.unit else str(scope.level)
    name = [f"name: {json.dumps(frame.name)}"] if frame.name else []
    lines = [f"kind: {POLICY}", *name, f"workload: {frame.kind.word}", f"scope: {where}", "policy:"]
    inside = _BEGINNING.sub(lambda begun: " " * len(begun[0]), body.removeprefix("\ufeff")).splitlines()
    return "\n".join([*lines, *(f"  {line}" if line else "" for line in inside)]) + "\n"


def _bare(reader: NodeReader, node: Node, frame: Frame) -> Policy:
    if isinstance(node, Mapping) and (said := entry(node, "kind")) is not None:
        reader.say("kind", said[0], "the document names its kind and scope itself", "leave the options for them out")
        return Policy(frame.kind, frame.scope, Body(), frame.name)
    body = BodyReader(reader, frame.kind).read(node, "")
    return Policy(frame.kind, frame.scope, body, frame.name)


class _Framed:
    """Reads one whole document."""

    def __init__(self, reader: NodeReader) -> None:
        self._reader = reader

    def read(self, node: Node) -> Policy | None:
        """The policy; None where its kind, its workload or its scope cannot be told."""
        if isinstance(node, Mapping) and entry(node, "kind") is None and any(entry(node, block) for block in BLOCKS):
            allowed = "kind: Policy, or a workload and a scope beside the file"
            self._reader.say("kind", node, "the document does not say what it is", allowed)
            return None
        said = dict(self._reader.entries(node, "", list(_MEMBERS)))
        missing = [word for word in ("kind", "workload", "scope", "policy") if word not in said]
        if missing:
            if isinstance(node, Mapping):
                self._reader.say("", node, f"the policy lacks {', '.join(missing)}", ", ".join(_MEMBERS))
            return None
        self._kind(said["kind"])
        kind, scope = self._workload(said["workload"]), self._scope(said["scope"])
        name = self._name(said["name"]) if "name" in said and not is_null(said["name"]) else ""
        if kind is None or scope is None:
            return None
        return Policy(kind, scope, BodyReader(self._reader, kind).read(said["policy"], "policy"), name)

    def _kind(self, node: Node) -> None:
        if not isinstance(node, Scalar) or node.text != POLICY:
            given = node.text if isinstance(node, Scalar) else "a list or mapping"
            self._reader.say("kind", node, f"{shown(given)} is not a kind of policy document", POLICY)

    def _workload(self, node: Node) -> Kind | None:
        text = node.text if isinstance(node, Scalar) else ""
        if text in KINDS:
            return KINDS[text]
        near = nearest(text, list(KINDS))
        hint = f"; did you mean {near}?" if near else ""
        self._reader.say("workload", node, f"{shown(text)} is not a kind of workload{hint}", ", ".join(KINDS))
        return None

    def _scope(self, node: Node) -> Scope | None:
        match node:
            case Scalar(text=Level.TENANT.value):
                return Scope()
            case Scalar(text=word) if word == _SYSTEM:
                self._reader.say("scope", node, "the scope system is read-only", _SCOPES)
            case Mapping(entries=[(key, Scalar(text=unit, null=False))]) if key.text in _BELOW and unit:
                return Scope(Level(key.text), unit)
            case _:
                self._reader.say("scope", node, "this is not a scope", _SCOPES)
        return None

    def _name(self, node: Node) -> str:
        if isinstance(node, Scalar) and 0 < len(node.text) <= _LONGEST_NAME and node.text.isprintable():
            return node.text
        allowed = f"1 to {_LONGEST_NAME} printable characters"
        self._reader.say("name", node, "this is not the name of a policy", allowed)
        return ""


def _once(found: list[PolicyDocument]) -> list[PolicyDocument]:
    """Refuses a second document of the same kind and scope, with both places."""
    first: dict[object, PolicyDocument] = {}
    checked: list[PolicyDocument] = []
    for each in found:
        known = first.setdefault(each.policy.key, each) if each.policy is not None else each
        if known is each or each.policy is None:
            checked.append(each)
            continue
        said = (
            f"the {each.policy.kind.word} policy of the {each.policy.scope} is given twice, first in line {known.line}"
        )
        checked.append(PolicyDocument(None, [Violation("", said, each.line, 1, "one document for each")], each.line))
    return checked

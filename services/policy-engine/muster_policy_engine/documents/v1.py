"""A v1 policy document into a policy: the custom resources of the vendor's Cluster API.

    apiVersion: run.ai/v2alpha1
    kind: TrainingPolicy                             # or InteractivePolicy, DistributedPolicy, InferencePolicy
    metadata: {name: trainings, namespace: runai}    # a project's namespace, or runai for all projects
    spec:
      gpu: {rules: {required: true, max: "4"}, value: "1"}

Called by the reader of policy documents. `masterSpec` is a sibling of `spec` and judges the master of a gang.
Holds: both dialects give the same form; every error has its line and column.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from collections.abc import Mapping as Mapped
from types import MappingProxyType
from typing import Final

from muster_language import Kind, Violation
from muster_language.catalogue import either, nearest
from muster_language.documents.document import MORE, MOST_VIOLATIONS, TooManyErrors
from muster_language.documents.nodes import Mapping, Node, Scalar, Sequence
from muster_language.spec import API_VERSION
from muster_language.values import shown
from muster_policy_engine.documents.body import BodyReader
from muster_policy_engine.documents.reading import NodeReader
from muster_policy_engine.documents.v1_block import BlockReader
from muster_policy_engine.places import Side
from muster_policy_engine.policy import Body, Dialect, Level, Policy, Scope

KINDS: Final[Mapped[str, Kind]] = MappingProxyType({kind.document.replace("Workload", "Policy"): kind for kind in Kind})
"""The kinds of v1 policies and of the workloads that they rule."""
GLOBAL: Final = "runai"
"""The namespace of the policies for all projects."""
_PREFIX: Final = "runai-"
_METADATA: Final = ("name", "namespace", "labels", "annotations")
_LONGEST_NAME: Final = 253
_BLOCKS: Final = MappingProxyType({"spec": Side.ALL, "masterSpec": Side.MASTER})

Projects = Callable[[str], str | None] | Mapped[str, str]
"""The project of a namespace; None, or no entry, for a namespace of no project."""


def usual_project(namespace: str) -> str | None:
    """The project of a namespace where no other name was asked for: `runai-team-a` is that of team-a."""
    return namespace.removeprefix(_PREFIX) or None if namespace.startswith(_PREFIX) else None


def is_v1(node: Node) -> bool:
    """Whether a document is written in v1, or means to be."""
    if not isinstance(node, Mapping):
        return False
    said = {key.text: value for key, value in node.entries if key.text in {"apiVersion", "kind"}}
    kind = said.get("kind")
    return "apiVersion" in said or (isinstance(kind, Scalar) and kind.text in KINDS)


def read_v1(root: Node, projects: Projects = usual_project) -> tuple[Policy | None, list[Violation]]:
    """The policy of a document and what is wrong with it. None where its kind or its scope cannot be told."""
    reader = _Reader()
    policy = None
    try:
        policy = _Document(reader, projects).read(_without_nils(root))
    except TooManyErrors:
        reader.found.append(MORE)
    return policy, sorted(reader.found, key=lambda each: (each.line or math.inf, each.column))


def _without_nils(node: Node) -> Node:
    """The tree with each plain `nil` as the null that it means; quoted it is a text."""
    match node:
        case Scalar(text="nil", plain=True):
            return node._replace(text="", null=True)
        case Mapping():
            return node._replace(entries=[(key, _without_nils(value)) for key, value in node.entries])
        case Sequence():
            return node._replace(items=[_without_nils(item) for item in node.items])
        case _:
            return node


class _Reader(NodeReader):
    """Ends the reading at too many errors."""

    def say(self, path: str, node: Node, message: str, allowed: str = "") -> None:
        """An error at a node. Raises TooManyErrors."""
        if len(self.found) >= MOST_VIOLATIONS:
            raise TooManyErrors
        super().say(path, node, message, allowed)


class _Document:
    """Reads one document."""

    def __init__(self, reader: NodeReader, projects: Projects) -> None:
        self._reader = reader
        self._projects = projects

    def read(self, root: Node) -> Policy | None:
        """The policy; None where its kind or its scope cannot be told."""
        said = self._said(root)
        if not isinstance(root, Mapping) or not self._is_version(said.get("apiVersion"), root):
            return None
        kind = self._kind(said.get("kind"), root)
        name, scope = self._metadata(said.get("metadata"), root)
        if "spec" not in said:
            self._reader.say("spec", root, "the document has no spec", "a mapping of fields")
        if kind is None:
            return None
        if "masterSpec" in said and kind is not Kind.DISTRIBUTED:
            allowed = "masterSpec in a DistributedPolicy alone"
            self._reader.say("masterSpec", said["masterSpec"], f"{kind.word} workloads have no master", allowed)
            del said["masterSpec"]
        body = self._body(kind, said, root)
        return Policy(kind, scope, body, name, Dialect.V1) if scope is not None else None

    def _said(self, root: Node) -> dict[str, Node]:
        return dict(self._reader.entries(root, "", ["apiVersion", "kind", "metadata", *_BLOCKS]))

    def _is_version(self, node: Node | None, root: Mapping) -> bool:
        if isinstance(node, Scalar) and node.text == API_VERSION:
            return True
        if node is None:
            self._reader.say("apiVersion", root, "apiVersion is missing", API_VERSION)
        else:
            given = shown(node.text) if isinstance(node, Scalar) else "a list or mapping"
            self._reader.say("apiVersion", node, f"{given} is not a version of policies", API_VERSION)
        return False

    def _kind(self, node: Node | None, root: Mapping) -> Kind | None:
        words = list(KINDS)
        if node is None:
            self._reader.say("kind", root, "kind is missing", either(words))
            return None
        text = node.text if isinstance(node, Scalar) else ""
        if text not in KINDS:
            near = nearest(text, words)
            hint = f"; did you mean {near}?" if near else ""
            self._reader.say("kind", node, f"{shown(text)} is not a kind of v1 policy{hint}", either(words))
        return KINDS.get(text)

    def _metadata(self, node: Node | None, root: Mapping) -> tuple[str, Scope | None]:
        said = dict(self._reader.entries(node, "metadata", list(_METADATA))) if node is not None else {}
        return self._name(said.get("name"), node or root), self._scope(said.get("namespace"), node or root)

    def _name(self, node: Node | None, around: Node) -> str:
        text = node.text if isinstance(node, Scalar) else ""
        if 0 < len(text) <= _LONGEST_NAME and text.isprintable():
            return text
        allowed = f"1 to {_LONGEST_NAME} printable characters"
        message = "metadata.name is missing" if node is None else "metadata.name is not a name"
        self._reader.say("metadata.name", node or around, message, allowed)
        return ""

    def _scope(self, node: Node | None, around: Node) -> Scope | None:
        allowed = f"a project's namespace, or {GLOBAL} for all projects"
        if not isinstance(node, Scalar) or not node.text:
            message = "metadata.namespace is missing" if node is None else "metadata.namespace is not a namespace"
            self._reader.say("metadata.namespace", node or around, message, allowed)
            return None
        if node.text == GLOBAL:
            return Scope()
        find = self._projects if callable(self._projects) else self._projects.get
        project = find(node.text)
        if not project:
            message = f"{shown(node.text)} is not the namespace of a project"
            self._reader.say("metadata.namespace", node, message, allowed)
            return None
        return Scope(Level.PROJECT, project)

    def _body(self, kind: Kind, said: Mapped[str, Node], root: Mapping) -> Body:
        sides = {word: side for word, side in _BLOCKS.items() if word in said}
        blocks = [BlockReader(self._reader, kind, side, word).read(said[word]) for word, side in sides.items()]
        given = [each for block in blocks for each in block.defaults]
        ruled = {path: each for block in blocks for path, each in block.rules.items()}
        BodyReader(self._reader, kind).check_limits(root, "spec", given, ruled)
        return Body(tuple(given), ruled)

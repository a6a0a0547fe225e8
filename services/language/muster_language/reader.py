"""YAML documents of the language as typed specs, with every error at its place.

Called by submission for drafts in YAML and by the client before it sends anything. Pure; never raises on what it reads.
Holds: what is not in the text is not in the spec (a default would count as set, and policy would judge it as given).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from muster_language.catalogue import catalogue, either, nearest
from muster_language.documents import Document, Violation
from muster_language.fields import FieldReader, Findings
from muster_language.loading import Loaded, load
from muster_language.nodes import Mapping, Node, Scalar
from muster_language.places import place_of
from muster_language.spec import API_VERSION, Kind, WorkloadSpec, kind_of_document, set_kind
from muster_language.validation import check_layer
from muster_language.values import shown

MOST_VIOLATIONS: Final = 100
_METADATA: Final = ("name", "namespace", "labels", "annotations")

Entry = tuple[Scalar, Node] | None


def read(text: str, *, source: str = "<file>") -> list[Document]:
    """Every document of the text, with its violations. A text without any document gives one that says so."""
    loaded = [each for each in load(text) if each.violations or not _is_empty(each.root)]
    if not loaded:
        empty = Violation("", "there is no document here", 1, 1, f"apiVersion: {API_VERSION}, kind, metadata and spec")
        return [Document(None, WorkloadSpec(), None, "", [empty], source)]
    return [_Reader(each, source).document() for each in loaded]


def _is_empty(node: Node | None) -> bool:
    return node is None or (isinstance(node, Scalar) and node.null)


@dataclass(slots=True)
class _Reader:
    """Reads one document."""

    loaded: Loaded
    source: str
    findings: Findings = field(default_factory=Findings)
    spec: WorkloadSpec = field(default_factory=WorkloadSpec)
    kind: Kind | None = None
    namespace: str | None = None
    object_name: str = ""

    def document(self) -> Document:
        """The document; at most MOST_VIOLATIONS errors, in the order of the text."""
        self.findings.found.extend(self.loaded.violations)
        root = self.loaded.root
        if isinstance(root, Mapping):
            self._root(root)
        elif root is not None:
            self.findings.say("", root, "the document is not a mapping", "apiVersion, kind, metadata and spec")
        found = sorted(self.findings.found, key=lambda each: (each.line, each.column))
        if len(found) > MOST_VIOLATIONS:
            found = [*found[:MOST_VIOLATIONS], Violation("", f"and {len(found) - MOST_VIOLATIONS} more errors")]
        return Document(
            self.kind, self.spec, self.namespace, self.spec.name, found, self.source, self.loaded.line, self.object_name
        )

    def _root(self, root: Mapping) -> None:
        entries = {key.text: (key, node) for key, node in root.entries}
        beside = [row for row in catalogue().rows if row.beside_spec]
        self.findings.unknown(root, ["apiVersion", "kind", "metadata", "spec", *(row.yaml for row in beside)])
        self._version(entries.get("apiVersion"), root)
        self._kind(entries.get("kind"), root)
        fields = FieldReader(self.findings, self.kind)
        if "spec" in entries:
            fields.spec(entries["spec"][1], "spec", self.spec)
        else:
            self.findings.say("spec", root, "the document has no spec", "a mapping of fields")
        for row in beside:
            if row.yaml in entries:
                node = entries[row.yaml][1]
                inner = getattr(self.spec, row.name)
                inner.SetInParent()
                fields.spec(node, row.yaml, inner)
        self._metadata(entries.get("metadata"))
        self._layer()

    def _version(self, entry: Entry, root: Mapping) -> None:
        if entry is None:
            self.findings.say("apiVersion", root, "apiVersion is missing", API_VERSION)
        elif not isinstance(entry[1], Scalar) or entry[1].text != API_VERSION:
            given = shown(entry[1].text) if isinstance(entry[1], Scalar) else "a list or mapping"
            self.findings.say("apiVersion", entry[1], f"{given} is not a version of the language", API_VERSION)

    def _kind(self, entry: Entry, root: Mapping) -> None:
        words = [kind.document for kind in Kind]
        if entry is None:
            self.findings.say("kind", root, "kind is missing", either(words))
            return
        node = entry[1]
        given = node.text if isinstance(node, Scalar) else ""
        self.kind = kind_of_document(given)
        if self.kind is not None:
            set_kind(self.spec, self.kind)
            return
        near = nearest(given, words)
        hint = f"; did you mean {near}?" if near else ""
        self.findings.say("kind", node, f"{shown(given)} is not a kind of workload{hint}", either(words))

    def _metadata(self, entry: Entry) -> None:
        if entry is None or _is_empty(entry[1]):
            return
        node = entry[1]
        if not isinstance(node, Mapping):
            self.findings.say("metadata", node, "metadata is not a mapping", either(list(_METADATA)))
            return
        self.findings.unknown(node, _METADATA, "metadata.")
        for key, value in node.entries:
            if key.text in {"name", "namespace"}:
                self._named(key.text, value)

    def _named(self, word: str, value: Node) -> None:
        if not isinstance(value, Scalar) or value.null:
            self.findings.say(f"metadata.{word}", value, f"{word} is not a text", "one word")
            return
        if word == "namespace":
            self.namespace = value.text
            return
        self.object_name = value.text
        if not self.spec.HasField("name") and not self.spec.HasField("name_prefix"):
            # Kubernetes asks for metadata.name in every object; it names the workload only where the spec does not.
            self.spec.name = value.text
            self.findings.moved["spec.name"] = "metadata.name"

    def _layer(self) -> None:
        """The errors of the LAYER stage, each at the place where its value stands."""
        said = {each.path for each in self.findings.found}
        for each in check_layer(self.spec):
            place = place_of(self.loaded.root, each.path, self.findings.moved)
            if place is not None and place.path not in said:
                self.findings.found.append(Violation(place.path, each.message, place.line, place.column, each.allowed))
            elif place is None and each.path not in said:
                self.findings.found.append(each)

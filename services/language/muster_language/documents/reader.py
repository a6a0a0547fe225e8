"""YAML documents of the language as typed specs, with every error at its place.

Called by submission for drafts in YAML and by the client before it sends anything. Pure; never raises on what it reads.
Holds: what is not in the text is not in the spec (a default would count as set, and policy would judge it as given).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from typing import Final

from muster_language.catalogue import catalogue, either, nearest
from muster_language.checks.validation import check_layer
from muster_language.documents import older
from muster_language.documents.document import MORE, MOST_VIOLATIONS, Document, TooManyErrors, Violation
from muster_language.documents.fields import FieldReader
from muster_language.documents.findings import Findings
from muster_language.documents.loading import MOST_DOCUMENTS, Loaded, load
from muster_language.documents.nodes import Mapping, Node, Scalar, Sequence, entry
from muster_language.documents.places import place_of
from muster_language.kubernetes import colossal
from muster_language.spec import API_VERSION, Kind, WorkloadSpec, kind_of, kind_of_document, set_kind
from muster_language.values import shown

_METADATA: Final = ("name", "namespace", "labels", "annotations")
_VERSIONS: Final = (API_VERSION, colossal.API_VERSION)

Entry = tuple[Scalar, Node] | None


def read(
    text: str, *, source: str = "<file>", template_fields: Collection[str] = (), most: int = MOST_DOCUMENTS
) -> list[Document]:
    """Every document of the text, with its violations. A text without any document gives one that says so.

    most: documents after which the reading ends; the last one then says that there are more.

    template_fields: members of pod templates that have no field of the language and are let through without effect,
    such as spec.serviceAccountName; ANY_FIELD lets all of them through, for whoever is not the one to judge.
    """
    every = (part for each in load(text, most) if each.violations or not _is_empty(each.root) for part in _parts(each))
    loaded = list(islice(every, most))
    if not loaded:
        empty = Violation("", "there is no document here", 1, 1, f"apiVersion: {API_VERSION}, kind, metadata and spec")
        return [Document(None, WorkloadSpec(), None, "", [empty], source)]
    return [_Reader(each, source, frozenset(template_fields)).document() for each in loaded]


def _parts(loaded: Loaded) -> Iterator[Loaded]:
    """The jobs of a ColossalAIJobList; every other document is one."""
    root = loaded.root
    kind = entry(root, "kind") if isinstance(root, Mapping) else None
    items = entry(root, "items") if isinstance(root, Mapping) else None
    if kind is None or items is None or not isinstance(kind[1], Scalar) or kind[1].text != colossal.LIST:
        yield loaded
    elif not isinstance(items[1], Sequence) or not items[1].items:
        told = Violation("items", "the list has no jobs", items[1].line, items[1].column, "a list of ColossalAIJob")
        yield Loaded(loaded.line, None, [*loaded.violations, told])
    else:
        first = True
        for item in items[1].items:
            yield Loaded(item.line, item, loaded.violations if first else [], loaded.line)
            first = False


@cache
def _beside() -> dict[str, str]:
    """What stands beside `spec`, word -> proto name."""
    return {row.yaml: row.name for row in catalogue().rows if row.beside_spec}


def _is_empty(node: Node | None) -> bool:
    return node is None or (isinstance(node, Scalar) and node.null)


@dataclass(slots=True)
class _Reader:
    """Reads one document."""

    loaded: Loaded
    source: str
    template_fields: frozenset[str]
    findings: Findings = field(default_factory=Findings)
    spec: WorkloadSpec = field(default_factory=WorkloadSpec)
    kind: Kind | None = None
    namespace: str | None = None
    object_name: str = ""

    def document(self) -> Document:
        """The document; at most MOST_VIOLATIONS errors, in the order of the text."""
        self.findings.found.extend(self.loaded.violations)
        complete = self._read(self.loaded.root)
        found = sorted(self._once(), key=lambda each: (each.line, each.column))
        if len(found) > MOST_VIOLATIONS or not complete:
            found = [*found[:MOST_VIOLATIONS], MORE]
        return Document(
            kind=kind_of(self.spec),
            spec=self.spec,
            namespace=self.namespace,
            name=self.spec.name,
            violations=found,
            source=self.source,
            line=self.loaded.line,
            object_name=self.object_name,
            warnings=self.findings.warned,
            list_line=self.loaded.list_line,
        )

    def _read(self, root: Node | None) -> bool:
        """Read the document; False where the reading ended early, at too many errors."""
        try:
            if isinstance(root, Mapping):
                self._root(root)
            elif root is not None:
                self.findings.say("", root, "the document is not a mapping", "apiVersion, kind, metadata and spec")
        except TooManyErrors:
            return False
        return True

    def _once(self) -> list[Violation]:
        """All errors, but of what is no value in YAML (an alias, a tag) only that: the rest follows from it."""
        loaded = self.loaded.violations
        said = {(each.line, each.column) for each in loaded}
        rest = self.findings.found[len(loaded) :]
        return [*loaded, *(each for each in rest if (each.line, each.column) not in said)]

    def _root(self, root: Mapping) -> None:
        entries = {key.text: (key, node) for key, node in root.entries}
        if self._version(entries.get("apiVersion"), root) == colossal.API_VERSION:
            self.kind = Kind.DISTRIBUTED
            colossal.read_job(self.findings, root, self.spec, self.template_fields)
        else:
            self._workload(root, entries)
        self._metadata(entries.get("metadata"))
        older.lower(self.findings, root, self.spec)
        self._layer()

    def _workload(self, root: Mapping, entries: dict[str, tuple[Scalar, Node]]) -> None:
        beside = _beside()
        self.findings.unknown(root, ("apiVersion", "kind", "metadata", "spec", *beside))
        self._kind(entries.get("kind"), root)
        fields = FieldReader(self.findings, self.kind)
        if "spec" in entries:
            fields.spec(entries["spec"][1], "spec", self.spec)
        else:
            self.findings.say("spec", root, "the document has no spec", "a mapping of fields")
        for word, name in beside.items():
            if word in entries:
                inner = getattr(self.spec, name)
                inner.SetInParent()
                fields.spec(entries[word][1], word, inner)

    def _version(self, found: Entry, root: Mapping) -> str:
        if found is not None and isinstance(found[1], Scalar) and found[1].text in _VERSIONS:
            return found[1].text
        allowed = either(list(_VERSIONS))
        if found is None:
            self.findings.say("apiVersion", root, "apiVersion is missing", allowed)
            return ""
        given = shown(found[1].text) if isinstance(found[1], Scalar) else "a list or mapping"
        self.findings.say("apiVersion", found[1], f"{given} is not a version of the language", allowed)
        return ""

    def _kind(self, found: Entry, root: Mapping) -> None:
        node = found[1] if found else root
        given = node.text if isinstance(node, Scalar) else ""
        self.kind = kind_of_document(given)
        if self.kind is not None:
            set_kind(self.spec, self.kind)
            return
        words = [kind.document for kind in Kind]
        if found is None:
            self.findings.say("kind", root, "kind is missing", either(words))
            return
        near = nearest(given, words)
        hint = f"; did you mean {near}?" if near else ""
        self.findings.say("kind", node, f"{shown(given)} is not a kind of workload{hint}", either(words))

    def _metadata(self, found: Entry) -> None:
        if found is None or _is_empty(found[1]):
            return
        node = found[1]
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
        refused = {_missed(each.path) for each in self.findings.found}
        for each in check_layer(self.spec):
            if (each.path, each.message) in refused:
                continue
            place = place_of(self.loaded.root, each.path, self.findings.moved)
            if place is not None and place.path not in said:
                self.findings.found.append(Violation(place.path, each.message, place.line, place.column, each.allowed))
            elif place is None and each.path not in said:
                self.findings.found.append(each)


def _missed(path: str) -> tuple[str, str]:
    """Path and message with which an item would miss the member whose value was refused: that is said once."""
    above, _, member = path.rpartition(".")
    return above.removesuffix(".value"), f"{member} is missing"

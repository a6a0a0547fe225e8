"""YAML documents of the language as typed specs, with every error at its place.

Called by submission for drafts in YAML and by the client before it sends anything. Pure, and never raises on what it reads.
Holds: what is not in the text is not in the spec (a default would count as set, and policy would judge it as the user's).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from muster_language import value_types as of
from muster_language.catalogue import COMPANIONS, Row, catalogue, either, nearest
from muster_language.documents import Document, Violation
from muster_language.nodes import Loaded, Mapping, Node, Scalar, Sequence, load
from muster_language.spec import API_VERSION, Kind, WorkloadSpec, kind_of_document
from muster_language.validation import check_layer, gpu_members
from muster_language.values import Refused, Value, gpu, refusal, shown, typed

MOST_VIOLATIONS: Final = 100
_BESIDE: Final = ("apiVersion", "kind", "metadata", "spec")
_METADATA: Final = ("name", "namespace", "labels", "annotations")
_LISTED: Final = 40  # known names that an error lists at most


def read(text: str, *, source: str = "<file>") -> list[Document]:
    """Every document of the text, with its violations. A text without any document gives one that says so."""
    loaded = [each for each in load(text) if each.violations or not _is_empty(each.root)]
    if not loaded:
        empty = Violation("", "there is no document here", 1, 1, f"apiVersion: {API_VERSION}, kind, metadata and spec")
        return [Document(None, WorkloadSpec(), None, "", [empty], source)]
    return [_Reader(each, source).document() for each in loaded]


def _is_empty(node: Node | None) -> bool:
    return node is None or (isinstance(node, Scalar) and node.null)


@dataclass(frozen=True, slots=True)
class _Mark:
    """Where a value of the spec stands, and under which path its user wrote it."""

    path: str
    line: int
    column: int


@dataclass(slots=True)
class _Reader:
    """Reads one document. `marks`: the path that validation uses -> the place in the text."""

    loaded: Loaded
    source: str
    found: list[Violation] = field(default_factory=list)
    marks: dict[str, _Mark] = field(default_factory=dict)
    kind: Kind | None = None
    whole: set[str] = field(default_factory=set)  # the specs whose `gpu` said a number of devices

    def document(self) -> Document:
        """The document; at most MOST_VIOLATIONS errors, in the order of the text."""
        self.found.extend(self.loaded.violations)
        spec = WorkloadSpec()
        namespace: str | None = None
        root = self.loaded.root
        if isinstance(root, Mapping):
            namespace = self._root(root, spec)
        elif root is not None:
            self._say("", root, "the document is not a mapping", "apiVersion, kind, metadata and spec")
        found = sorted(self.found, key=lambda each: (each.line, each.column))
        if len(found) > MOST_VIOLATIONS:
            rest = Violation("", f"and {len(found) - MOST_VIOLATIONS} more errors")
            found = [*found[:MOST_VIOLATIONS], rest]
        return Document(self.kind, spec, namespace, spec.name, found, self.source, self.loaded.line)

    def _root(self, root: Mapping, spec: WorkloadSpec) -> str | None:
        entries = {key.text: (key, node) for key, node in root.entries}
        self._unknown(root, [*_BESIDE, *(row.yaml for row in catalogue().rows if row.beside_spec)])
        self._version(entries.get("apiVersion"), root)
        self._kind(entries.get("kind"), root)
        spec.kind = self.kind or 0
        if "spec" in entries:
            self._spec(entries["spec"][1], "spec", spec)
        else:
            self._say("spec", root, "the document has no spec", "a mapping of fields")
        for row in catalogue().rows:
            if row.beside_spec and row.yaml in entries:
                key, node = entries[row.yaml]
                self._mark(row.yaml, row.yaml, key)
                inner = getattr(spec, row.name)
                inner.SetInParent()
                self._spec(node, row.yaml, inner)
        namespace = self._metadata(entries.get("metadata"), spec)
        self._layer(spec)
        return namespace

    def _unknown(self, mapping: Mapping, known: list[str], path: str = "") -> None:
        for key, _ in mapping.entries:
            if key.text not in known:
                self._say(f"{path}{key.text}", key, *_unknown_field(key.text, known))

    def _version(self, entry: tuple[Scalar, Node] | None, root: Mapping) -> None:
        if entry is None:
            self._say("apiVersion", root, "apiVersion is missing", API_VERSION)
        elif not isinstance(entry[1], Scalar) or entry[1].text != API_VERSION:
            given = shown(entry[1].text) if isinstance(entry[1], Scalar) else "a list or mapping"
            self._say("apiVersion", entry[1], f"{given} is not a version of the language", API_VERSION)

    def _kind(self, entry: tuple[Scalar, Node] | None, root: Mapping) -> None:
        words = [kind.document for kind in Kind]
        if entry is None:
            self._say("kind", root, "kind is missing", either(words))
            return
        node = entry[1]
        given = node.text if isinstance(node, Scalar) else ""
        self.kind = kind_of_document(given)
        if self.kind is None:
            near = nearest(given, words)
            hint = f"; did you mean {near}?" if near else ""
            self._say("kind", node, f"{shown(given)} is not a kind of workload{hint}", either(words))

    def _metadata(self, entry: tuple[Scalar, Node] | None, spec: WorkloadSpec) -> str | None:
        if entry is None or _is_empty(entry[1]):
            return None
        node = entry[1]
        if not isinstance(node, Mapping):
            self._say("metadata", node, "metadata is not a mapping", either(list(_METADATA)))
            return None
        self._unknown(node, list(_METADATA), "metadata.")
        said: dict[str, Scalar] = {}
        for key, value in node.entries:
            if key.text not in {"name", "namespace"}:
                continue
            if isinstance(value, Scalar) and not value.null:
                said[key.text] = value
            else:
                self._say(f"metadata.{key.text}", value, f"{key.text} is not a text", "one word")
        # Kubernetes asks for metadata.name in every object; it names the workload only where the spec does not.
        if "name" in said and not spec.HasField("name") and not spec.HasField("name_prefix"):
            spec.name = said["name"].text
            self._mark("spec.name.value", "metadata.name", said["name"])
        return said["namespace"].text if "namespace" in said else None

    def _layer(self, spec: WorkloadSpec) -> None:
        said = {each.path for each in self.found}
        for each in check_layer(spec):
            mark = self._nearest_mark(each.path)
            if mark is None:
                if each.path != "kind":  # already said, with its place
                    self.found.append(each)
            elif mark.path not in said:
                self.found.append(Violation(mark.path, each.message, mark.line, mark.column, each.allowed))

    def _nearest_mark(self, path: str) -> _Mark | None:
        while path not in self.marks and "." in path:
            path = path.rpartition(".")[0]
        return self.marks.get(path)

    def _spec(self, node: Node, path: str, spec: Any) -> None:
        if not isinstance(node, Mapping):
            self._say(path, node, f"{path} is not a mapping", "a mapping of fields")
            return
        rows = catalogue().by_yaml
        written: dict[str, str] = {}
        for key, value in node.entries:
            row = rows.get(key.text)
            here = f"{path}.{key.text}"
            if row is None or row.beside_spec:
                self._say(here, key, *self._not_a_field(key.text, row))
            elif row.name in written:
                message = f"{key.text} and {written[row.name]} are the same field"
                self._say(here, key, message, f"one of them; the usual name is {row.yaml}")
            else:
                written[row.name] = key.text
                self._mark(f"{path}.{row.yaml}", here, key)
                self._field(row, value, here, spec)
        self._gpu_once(node, path, written)

    def _not_a_field(self, word: str, row: Row | None) -> tuple[str, str]:
        if row is not None:
            return f"{word} does not stand inside spec", f"{word} is a sibling of spec"
        rows = [each for each in catalogue().rows if self.kind is None or self.kind in each.kinds]
        return _unknown_field(word, [each.yaml for each in rows if each.yaml and not each.beside_spec])

    def _gpu_once(self, node: Mapping, path: str, written: dict[str, str]) -> None:
        """Refuses several ways to ask for GPU in one layer.

        `gpu: 2` and `gpu: 0` are devices in the spec, so that the spec alone no longer shows what excludes what.
        """
        word = written.get("gpu_portion_request")
        if word is None:
            return
        keys = {key.text: key for key, _ in node.entries}
        for name in gpu_members():
            if name in written and name != "gpu_portion_request" and (name not in COMPANIONS or path in self.whole):
                message = f"{word} and {written[name]} exclude each other"
                here = f"{path}.{written[name]}.value"
                self._say(here, keys[written[name]], message, "one of them says what each replica is given")

    def _field(self, row: Row, node: Node, path: str, spec: Any) -> None:
        if row.type == of.ITEMIZED:
            self._items(row, node, path, getattr(spec, row.name))
            return
        value, path = self._unwrap(row, node, path)
        if value is None:
            return
        self._mark(f"{_parent(path, row)}.value", path, value)
        if row.type == of.OBJECT:
            self._object(row, value, path, getattr(spec, row.name))
        elif row.type == of.ARRAY:
            self._array(row, value, path, getattr(spec, row.name))
        elif row.name == "gpu_portion_request":
            self._gpu(value, path, spec)
        else:
            self._scalar(row, value, path, lambda given: setattr(spec, row.name, given))

    def _unwrap(self, row: Row, node: Node, path: str) -> tuple[Node | None, str]:
        """The node behind `value:`; bare fields may be written without it. None after an error."""
        if isinstance(node, Mapping) and any(key.text == "value" for key, _ in node.entries):
            self._unknown(node, ["value"], f"{path}.")
            return next(value for key, value in node.entries if key.text == "value"), f"{path}.value"
        if row.bare:
            return node, path
        shape = f"{path.rpartition('.')[2]}: {{value: ..}}"
        if isinstance(node, Mapping):
            self._unknown(node, ["value"], f"{path}.")
            if not node.entries:
                self._say(path, node, "the field has no value", shape)
        elif isinstance(node, Scalar) and not node.null:
            self._say(path, node, f"{shown(node.text)} stands here without `value:`", shape)
        else:
            self._say(path, node, "the field has no value", shape)
        return None, path

    def _scalar(self, row: Row, node: Node, path: str, store: Callable[[Value], None]) -> None:
        if not isinstance(node, Scalar):
            self._say(
                path, node, f"a {'list' if isinstance(node, Sequence) else 'mapping'} stands where a value belongs"
            )
            return
        if node.null:
            self._say(path, node, "the field has no value", 'a value, or "" for the empty text')
            return
        value = typed(row, node.text)
        if isinstance(value, Refused):
            self._say(path, node, value.message, value.allowed)
            return
        store(value)

    def _gpu(self, node: Node, path: str, spec: Any) -> None:
        if not isinstance(node, Scalar) or node.null:
            self._scalar(catalogue().by_name["gpu_portion_request"], node, path, lambda _: None)
            return
        asked = gpu(node.text)
        if isinstance(asked, Refused):
            self._say(path, node, asked.message, asked.allowed)
        elif asked.devices == 1:
            spec.gpu_portion_request = asked.milli / 1000
        else:
            self.whole.add(path.removesuffix(".value").rpartition(".")[0])
            refused = refusal(catalogue().by_name["gpu_devices_request"], asked.devices)
            if refused is not None:
                self._say(path, node, refused.message, refused.allowed)
            else:
                spec.gpu_devices_request = asked.devices

    def _array(self, row: Row, node: Node, path: str, target: Any) -> None:
        target.SetInParent()
        if isinstance(node, Sequence):
            for index, item in enumerate(node.items):
                self._scalar_item(item, f"{path}.{index}", target)
        else:
            self._scalar(row, node, path, target.values.extend)

    def _scalar_item(self, node: Node, path: str, target: Any) -> None:
        if isinstance(node, Scalar) and not node.null:
            target.values.append(node.text)
        else:
            self._say(path, node, "an entry of the list is not a text", "a list of words")

    def _object(self, row: Row, node: Node, path: str, target: Any) -> None:
        target.SetInParent()
        if not isinstance(node, Mapping):
            self._say(path, node, f"{row.yaml} is not a mapping", either([each.yaml for each in row.members]))
            return
        known = [member.yaml for member in row.members]
        self._unknown(node, known, f"{path}.")
        for key, value in node.entries:
            member = row.member(key.text)
            if member is None:
                continue
            here = f"{path}.{key.text}"
            self._mark(here, here, value)
            self._scalar(member, value, here, lambda given, name=member.name: setattr(target, name, given))

    def _items(self, row: Row, node: Node, path: str, target: Any) -> None:
        shape = f"{path.rpartition('.')[2]}: {{items: {{LABEL: {{value: ..}}}}}}"
        if not isinstance(node, Mapping):
            self._say(path, node, "the field has no items", shape)
            return
        self._unknown(node, ["items"], f"{path}.")
        items = next((value for key, value in node.entries if key.text == "items"), None)
        if items is None:
            if not node.entries:
                self._say(path, node, "the field has no items", shape)
        elif not isinstance(items, Mapping):
            if not _is_empty(items):
                self._say(f"{path}.items", items, "items is not a mapping of labels", shape)
        else:
            for label, value in items.entries:
                self._item(row, label, value, f"{path}.items.{label.text}", target)

    def _item(self, row: Row, label: Scalar, node: Node, path: str, target: Any) -> None:
        self._mark(path, path, label)
        if not isinstance(node, Mapping):
            self._say(path, node, "the item is not a mapping", "value: .., or deleted: true")
            return
        self._unknown(node, ["value", "deleted"], f"{path}.")
        item = target.add(label=label.text)
        for key, value in node.entries:
            here = f"{path}.{key.text}"
            if key.text == "deleted":
                self._scalar(_DELETED, value, here, lambda given: setattr(item, "deleted", given))
            elif key.text == "value":
                self._mark(here, here, value)
                if row.members:
                    self._object(row, value, here, item)
                else:
                    self._scalar(_ITEM_VALUE, value, here, lambda given: setattr(item, "value", given))

    def _mark(self, path: str, written: str, node: Node) -> None:
        self.marks.setdefault(path, _Mark(written, node.line, node.column))

    def _say(self, path: str, node: Node, message: str, allowed: str = "") -> None:
        self.found.append(Violation(path, message, node.line, node.column, allowed))


def _parent(path: str, row: Row) -> str:
    """The path that validation uses for a row, whatever alias the user wrote."""
    head = path.removesuffix(".value").rpartition(".")[0]
    return f"{head}.{row.yaml}"


def _unknown_field(word: str, known: list[str]) -> tuple[str, str]:
    near = nearest(word, known)
    if near is not None:
        return f"unknown field; did you mean {near}?", ""
    listed = f"{', '.join(known[:_LISTED])}{', ..' if len(known) > _LISTED else ''}"
    return "unknown field", f"known here: {listed}"


_DELETED: Final = catalogue().by_name["preemptible"]  # any row of true or false
_ITEM_VALUE: Final = catalogue().by_name["command"]  # any row of free text

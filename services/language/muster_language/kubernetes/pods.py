"""What everything that reads a part of a pod template shares: where findings go, which spec is filled, the volumes.

Called by pod_templates.py and its companions for resources and volumes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Mapping as Dictionary
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from muster_language.catalogue import catalogue
from muster_language.documents.findings import Findings
from muster_language.documents.forms import VALUES
from muster_language.documents.nodes import Mapping, Node, Scalar, Sequence, entry
from muster_language.documents.takers import taker

ANY_FIELD: Final = "*"
_INDEX: Final = re.compile(r"\.[0-9]+(?=\.|$)")
_WITHOUT_EFFECT: Final = MappingProxyType(
    {
        "command": "torchConfig.script says what the workers run",
        "args": "torchConfig.script says what the workers run",
        "restartPolicy": "the restartPolicy of the replica type decides, for the whole gang",
    }
)


@dataclass(slots=True)
class Pod:
    """One template. base: where its fields stand, spec or masterSpec; role: how its container may be called.

    at: where the template stands; accepted: members without a field that are let through, as paths below it.
    """

    findings: Findings
    spec: Any
    base: str
    role: str
    at: str
    accepted: frozenset[str] = frozenset()
    volumes: dict[str, tuple[Mapping, str]] = field(default_factory=dict)

    def each(self, node: Node, path: str, known: Dictionary[str, Callable[[Node, str], None]]) -> None:
        """Hands every member of a mapping to whoever reads it; refuses the others."""
        if not isinstance(node, Mapping):
            self.findings.say(path, node, "this is not a mapping", ", ".join(known))
            return
        for key, value in node.entries:
            here = f"{path}.{key.text}"
            read = known.get(key.text)
            if isinstance(value, Scalar) and value.null:
                continue
            if read is not None:
                read(value, here)
            elif reason := self._no_effect(key.text, here):
                self.findings.warn(here, key, f"{key.text} is not used: {reason}")
            else:
                message = f"{key.text} of a pod template has no field of the language"
                self.findings.say(here, key, message, f"known here: {', '.join(known)}")

    def _no_effect(self, word: str, path: str) -> str:
        """Why a member is let through although it does nothing; '' where it is not."""
        below = _INDEX.sub("", path.removeprefix(f"{self.at}."))
        listed = below in self.accepted or ANY_FIELD in self.accepted
        return _WITHOUT_EFFECT.get(word) or ("it has no field of the language" if listed else "")

    def set(self, name: str, node: Node, path: str) -> None:
        """Reads a field of the catalogue from a member of the template."""
        row = catalogue().by_name[name]
        self.findings.moved[f"{self.base}.{row.yaml}"] = path
        (VALUES.get(name) or taker(row))(self.findings, node, path, self.spec)

    def setter(self, name: str) -> Callable[[Node, str], None]:
        """What sets that field."""
        return lambda node, path: self.set(name, node, path)

    def listed(self, node: Node, path: str) -> list[tuple[Mapping, str]]:
        """The mappings of a list, each with its path; what is none is said."""
        if not isinstance(node, Sequence):
            self.findings.say(path, node, "this is not a list", "a list of mappings")
            return []
        found = []
        for index, item in enumerate(node.items):
            if isinstance(item, Mapping):
                found.append((item, f"{path}.{index}"))
            else:
                self.findings.say(f"{path}.{index}", item, "this is not a mapping", "a list of mappings")
        return found

    def text(self, node: Mapping, member: str, path: str) -> str:
        """The text of a member, '' where there is none."""
        found = entry(node, member)
        return "" if found is None else self.findings.text(found[1], f"{path}.{member}") or ""

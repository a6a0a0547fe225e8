"""Fields whose form in YAML a row cannot say: `gpu`, readiness probes, lists written as labelled items, groups.

Called by fields.py instead of the row's usual taker.
"""

from __future__ import annotations

from collections.abc import Mapping as Dictionary
from types import MappingProxyType
from typing import Any, Final

from muster_language.catalogue import catalogue
from muster_language.checks.bounds import refusal
from muster_language.documents.findings import Findings
from muster_language.documents.loading import load
from muster_language.documents.nodes import Mapping, Node, Scalar, entry
from muster_language.documents.takers import Taker, members, scalar, taker
from muster_language.values import Refused, gpu

_HANDLERS: Final = ("handler", "httpGet")  # REST and Kubernetes wrap the members of an HTTP probe in these


def take_gpu(findings: Findings, node: Node, path: str, spec: Any) -> None:
    """`gpu` is a portion of one device, or a number of devices."""
    text = findings.text(node, path)
    if text is None:
        return
    asked = gpu(text)
    if isinstance(asked, Refused):
        findings.refuse(path, node, asked)
    elif asked.devices == 1:
        spec.gpu_portion_request = asked.milli / 1000
    else:
        findings.whole.add(path.removesuffix(".value").rpartition(".")[0])
        refused = refusal(catalogue().by_name["gpu_devices_request"], asked.devices)
        if refused is not None:
            findings.refuse(path, node, refused)
        else:
            spec.gpu_devices_request = asked.devices


def take_devices(findings: Findings, node: Node, path: str, spec: Any) -> None:
    """`gpuDevices` is at least one: a workload without GPUs says `gpu: 0`, and a typing error should not become one."""
    if isinstance(node, Scalar) and not node.text.strip("0") and node.text:
        findings.say(path, node, "0 is no number of devices", "a whole number from 1 on, or gpu: {value: 0} for no GPU")
    else:
        _DEVICES(findings, node, path, spec)


def take_probe(findings: Findings, node: Node, path: str, spec: Any) -> None:
    """A probe as an object, flat or with REST's and Kubernetes' wrappers, or as JSON in a text."""
    if isinstance(node, Scalar) and not node.null:
        inner = load(node.text)
        root = inner[0].root if len(inner) == 1 and not inner[0].violations else None
        if not isinstance(root, Mapping):
            findings.say(path, node, "readinessProbe is not a mapping", "an object, or one in JSON as a text")
            return
        node = _shifted(root, node)
    spec.readiness_probe.SetInParent()
    flat = _unwrapped(node) if isinstance(node, Mapping) else node
    members(findings, catalogue().by_name["readiness_probe"], flat, path, spec.readiness_probe)


def _unwrapped(node: Mapping) -> Mapping:
    entries = []
    for key, value in node.entries:
        if key.text in _HANDLERS and isinstance(value, Mapping):
            entries.extend(_unwrapped(value).entries)
        else:
            entries.append((key, value))
    return Mapping(entries, node.line, node.column)


def _shifted(node: Mapping, text: Scalar) -> Mapping:
    """The tree of a text within a text, all of it at the place of that text: there are no other lines to point at."""

    def moved(each: Node) -> Node:
        if isinstance(each, Scalar):
            return each._replace(line=text.line, column=text.column)
        if isinstance(each, Mapping):
            return Mapping([(key, moved(value)) for key, value in each.entries], text.line, text.column)
        return each._replace(items=[moved(item) for item in each.items], line=text.line, column=text.column)

    return Mapping([(key, moved(value)) for key, value in node.entries], text.line, text.column)


def _listed(name: str, member: str) -> Taker:
    """A list that is one value and may be written as labelled items with one member each."""
    row = catalogue().by_name[name]
    usual = taker(row)

    def take(findings: Findings, node: Node, path: str, spec: Any) -> None:
        found = entry(node, "items") if isinstance(node, Mapping) else None
        if not isinstance(node, Mapping) or found is None or not isinstance(found[1], Mapping):
            usual(findings, node, path, spec)
            return
        findings.unknown(node, ["items"], f"{path}.")
        target = getattr(spec, name)
        target.SetInParent()
        for label, item in found[1].entries:
            text = _listed_item(findings, item, f"{path}.items.{label.text}", member)
            if text is not None:
                target.values.append(row.one_of.get(text.casefold(), text))

    return take


def _listed_item(findings: Findings, item: Node, path: str, member: str) -> str | None:
    if isinstance(item, Mapping) and entry(item, "deleted"):
        findings.say(path, item, "one entry cannot be deleted: the list is one value", "give the whole list")
        return None
    value = entry(item, "value") if isinstance(item, Mapping) else None
    if not isinstance(item, Mapping) or value is None:
        findings.say(path, item, "the item has no value", f"value: {{{member}: ..}}")
        return None
    findings.unknown(item, ["value"], f"{path}.")
    node, path = value[1], f"{path}.value"
    if isinstance(node, Mapping):
        findings.unknown(node, [member], f"{path}.")
        inner = entry(node, member)
        if inner is None:
            findings.say(path, node, f"{member} is missing", f"{member}: ..")
            return None
        node, path = inner[1], f"{path}.{member}"
    return findings.text(node, path)


_DEVICES: Final = taker(catalogue().by_name["gpu_devices_request"])

# Values behind `value:`.
VALUES: Final[Dictionary[str, Taker]] = MappingProxyType(
    {
        "gpu_portion_request": take_gpu,
        "gpu_devices_request": take_devices,
        "readiness_probe": take_probe,
        "supplemental_groups": scalar("supplemental_groups", lambda text: text.replace(";", ",").replace(" ", "")),
    }
)

# Lists with `items:` beside `value:`.
LISTS: Final[Dictionary[str, Taker]] = MappingProxyType(
    {
        "capabilities": _listed("capabilities", "capability"),
        "image_pull_secrets": _listed("image_pull_secrets", "name"),
    }
)

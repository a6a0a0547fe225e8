"""Objects of Kubernetes on stdout, as `kubectl` reads them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from muster_client.cli.output import write


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines, such as the cluster file, as people would."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def show_manifests(objects: Iterable[dict[str, Any]]) -> None:
    """Prints one YAML document an object."""
    write(yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, width=120).encode())

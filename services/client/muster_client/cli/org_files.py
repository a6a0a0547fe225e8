"""Departments, projects and node pools as YAML: one or several documents a file, each with its kind.

    kind: Project
    name: vision
    department: research
    quotas:
      - {pool: default, gpus: 4, limit: 8, weight: 2, cpu: "64", memory: 256Gi}
    rules: {trainingTimeLimitSeconds: 86400}

Called by the verbs `apply` of departments, projects and node-pools. Holds: everything that is wrong with a document is
said at once, with its line and path; a key that nobody knows is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import yaml
from google.protobuf.message import Message

from muster.tenancy.v1 import tenancy_pb2 as books_pb2
from muster_client.cli.failures import in_file, not_yaml
from muster_client.errors import InvalidInput, Violation
from muster_client.quotas import gpu_units, weight_milli
from muster_kernel.numbers import bound_yaml
from muster_kernel.quantities import parse_bytes, parse_milli_cpu
from muster_language.documents.loading import load
from muster_language.documents.nodes import Node
from muster_language.documents.places import place_of

Record = TypeVar("Record", books_pb2.Department, books_pb2.Project, books_pb2.NodePool)
_Loader: Final = bound_yaml(yaml.SafeLoader)
PLACEMENTS: Final = {
    "binpack": books_pb2.PLACEMENT_STRATEGY_BINPACK,
    "spread": books_pb2.PLACEMENT_STRATEGY_SPREAD,
    "fgd": books_pb2.PLACEMENT_STRATEGY_FGD,
    "foresight": books_pb2.PLACEMENT_STRATEGY_FORESIGHT,
}
Read = Callable[[Any], Any]
_NOTHING: Final = "nothing was applied"


@dataclass(frozen=True, slots=True)
class Written(Generic[Record]):
    """One document of a file: what it says, and its tree, in which places are looked up."""

    source: Path
    record: Record
    root: Node | None

    def refused(self, violations: Iterable[Violation]) -> list[Violation]:
        """What is wrong with it, by the paths of its keys, with their lines."""
        return [_placed(each, self.root) for each in violations]


def records(files: Iterable[Path], kind: type[Record]) -> list[Written[Record]]:
    """The documents of the files, all of one kind. Raises InvalidInput with all the errors of the first bad file."""
    return [record for path in files for record in _of_file(path, kind)]


def _of_file(path: Path, kind: type[Record]) -> list[Written[Record]]:
    try:
        text = path.read_text(encoding="utf-8")
        loaded = list(yaml.load_all(text, _Loader))
    except OSError as problem:
        raise InvalidInput(f"{path}: {problem.strerror or problem}") from None
    except yaml.MarkedYAMLError as problem:
        raise not_yaml(path, problem, done=_NOTHING) from None
    except (UnicodeDecodeError, ValueError, yaml.YAMLError) as problem:
        raise InvalidInput(f"{path}: not YAML: {' '.join(str(problem).split())}") from None
    except RecursionError:
        raise InvalidInput(f"{path}: nested too deeply") from None
    trees = [each.root for each in load(text)]
    found: list[Violation] = []
    made = []
    for value, root in zip_longest(loaded, trees[: len(loaded)]):
        wrong: list[Violation] = []
        made.append(Written(path, _record(value, kind, wrong), root))
        found += made[-1].refused(wrong)
    if found or not made:
        raise in_file(InvalidInput, str(path), found or [Violation("", "no document in it")], done=_NOTHING)
    return made


def _placed(violation: Violation, root: Node | None) -> Violation:
    """The violation where its key stands; what is missing is said where its document begins."""
    place = place_of(root, violation.path, {}) or root
    return violation if place is None else replace(violation, line=place.line, column=place.column)


def _record(value: Any, kind: type[Record], found: list[Violation]) -> Record:
    record = kind()
    given = _mapping(value, "", found)
    named = given.pop("kind", None)
    if named != kind.DESCRIPTOR.name:
        found.append(Violation("kind", f"{named!r} given, {kind.DESCRIPTOR.name} expected"))
    if not given.get("name"):
        found.append(Violation("name", "missing, and it is what this is known by"))
    _fill(record, given, KEYS[kind.DESCRIPTOR.name], "", found)
    return record


def _fill(
    record: Message, given: Mapping[str, Any], keys: Mapping[str, tuple[str, Any]], path: str, found: Any
) -> None:
    """Puts each key where the table says: a reader of one value, or the table of a list's or a mapping's members."""
    for key, value in given.items():
        at = f"{path}{key}"
        if key not in keys:
            found.append(Violation(at, f"unknown key; there are {', '.join(keys)}"))
            continue
        field, how = keys[key]
        many = record.DESCRIPTOR.fields_by_name[field].is_repeated
        if isinstance(how, dict) and many:
            for index, item in enumerate(_list(value, at, found)):
                inner = f"{at}.{index}"
                members = (_QUOTA_DEFAULTS if how is _QUOTA else {}) | _mapping(item, inner, found)
                _fill(getattr(record, field).add(), members, how, f"{inner}.", found)
        elif isinstance(how, dict):
            getattr(record, field).SetInParent()
            _fill(getattr(record, field), _mapping(value, at, found), how, f"{at}.", found)
        elif many:
            getattr(record, field).extend(
                read for one in _list(value, at, found) if (read := _read(one, how, at, found)) is not None
            )
        elif (read := _read(value, how, at, found)) is not None:
            setattr(record, field, read)


def _read(value: Any, how: Read, path: str, found: list[Violation]) -> Any:
    try:
        return how(value)
    except ValueError as problem:
        found.append(Violation(path, str(problem)))
        return None


def _mapping(value: Any, path: str, found: list[Violation]) -> dict[str, Any]:
    if isinstance(value, dict):
        return {str(key): member for key, member in value.items()}
    found.append(Violation(path, f"{value!r} given, a mapping expected"))
    return {}


def _list(value: Any, path: str, found: list[Violation]) -> list[Any]:
    if isinstance(value, list):
        return value
    found.append(Violation(path, f"{value!r} given, a list expected"))
    return []


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} given, a text expected")  # noqa: TRY004 - read, not programmed
    return value


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 32:
        raise ValueError(f"{value!r} given, a whole number from 0 expected")
    return value


def _cpu(value: Any) -> int:
    return parse_milli_cpu(str(value))


def _memory(value: Any) -> int:
    return parse_bytes(str(value))


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} given, true or false expected")  # noqa: TRY004 - read, not programmed
    return value


def _placement(value: Any) -> int:
    if value not in PLACEMENTS:
        raise ValueError(f"{value!r} given, one of {', '.join(PLACEMENTS)} expected")
    return PLACEMENTS[value]


_QUOTA: Final = {
    "pool": ("node_pool", _text),
    "gpus": ("gpu_deserved", gpu_units),
    "limit": ("gpu_limit", gpu_units),
    "weight": ("over_quota_weight_milli", weight_milli),
    "cpu": ("cpu_milli_deserved", _cpu),
    "cpuLimit": ("cpu_milli_limit", _cpu),
    "cpuWeight": ("cpu_over_quota_weight_milli", weight_milli),
    "memory": ("memory_bytes_deserved", _memory),
    "memoryLimit": ("memory_bytes_limit", _memory),
    "memoryWeight": ("memory_over_quota_weight_milli", weight_milli),
}
_QUOTA_DEFAULTS: Final[dict[str, Any]] = {"weight": 1}
_MODEL: Final = {"model": ("model", _text), "gpus": ("gpu_deserved", gpu_units), "limit": ("gpu_limit", gpu_units)}
_USER: Final = {
    "pool": ("node_pool", _text),
    "gpus": ("gpu_limit", gpu_units),
    "workloads": ("workload_limit", _count),
}
RULES: Final = {
    "interactiveTimeLimitSeconds": "interactive_time_limit_seconds",
    "interactiveIdleLimitSeconds": "interactive_idle_limit_seconds",
    "interactivePreemptibleIdleLimitSeconds": "interactive_preemptible_idle_limit_seconds",
    "trainingIdleLimitSeconds": "training_idle_limit_seconds",
    "trainingTimeLimitSeconds": "training_time_limit_seconds",
}
_UNIT: Final[dict[str, tuple[str, Any]]] = {
    "name": ("name", _text),
    "description": ("description", _text),
    "cluster": ("home_cluster", _text),
    "rank": ("rank", _count),
    "quotas": ("quotas", _QUOTA),
    "modelQuotas": ("model_quotas", _MODEL),
    "rules": ("rules", {key: (field, _count) for key, field in RULES.items()}),
    "nodeTypes": ("node_types", {"training": ("training", _text), "workspace": ("workspace", _text)}),
}
KEYS: Final[dict[str, dict[str, tuple[str, Any]]]] = {
    "Department": _UNIT,
    "Project": {
        **_UNIT,
        "department": ("department", _text),
        "namespace": ("namespace", _text),
        "nodePools": ("default_node_pools", _text),
        "userLimits": ("user_limits", _USER),
    },
    "NodePool": {
        "name": ("name", _text),
        "cluster": ("cluster", _text),
        "labelKey": ("label_key", _text),
        "labelValue": ("label_value", _text),
        "gpuPlacement": ("gpu_placement", _placement),
        "cpuPlacement": ("cpu_placement", _placement),
        "overProvisioningRatio": ("over_provisioning_ratio", _count),
        "topologyLevels": ("topology_levels", _text),
        "memoryAsSlices": ("memory_as_slices", _flag),
    },
}

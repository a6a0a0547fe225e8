"""What the control plane says is wrong, in the words of who wrote it: options of a verb, or keys of a file.

Called by the verbs of departments, projects and node pools. Pure. Holds: a path that has no word is left as it is, and
the sentence names the same words as the places do.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from muster_client.cli.org_files import KEYS, RULES
from muster_client.errors import MusterError

_RULE_OF: Final = {field: name for name, field in RULES.items()}
_OPTIONS: Final = {
    "name": "NAME",
    "quota.node_pool": "--pool",
    "quota.gpu_deserved": "GPUS",
    "quota.gpu_limit": "--limit",
    "quota.over_quota_weight_milli": "--weight",
    "label_key": "--label",
    "label_value": "--label",
}
_REPEATED: Final = {"quotas": "--quota", "default_node_pools": "--node-pool"}
_SINGLE: Final = frozenset({"department", "namespace", "description", "rank", "cluster"})


def in_words(problem: MusterError, word: Callable[[str], str]) -> MusterError:
    """The same error with every path as `word` says it; as it is where it names none."""
    if not problem.violations:
        return problem
    message = problem.message
    for each in problem.violations:
        if each.path:
            said = word(each.path).replace("\\", r"\\")
            message = re.sub(rf"(?<![\w.]){re.escape(each.path)}(?=: )", said, message)
    violations = tuple(replace(each, path=word(each.path)) for each in problem.violations)
    return type(problem)(message, detail=replace(problem.detail, violations=violations))


def option(path: str) -> str:
    """The option under which a verb takes what the API calls `path`."""
    first, _, rest = path.partition(".")
    if path in _OPTIONS:
        return _OPTIONS[path]
    if first in _REPEATED:
        return _REPEATED[first]
    if first == "rules" and rest in _RULE_OF:
        return f"--rule {_RULE_OF[rest]}"
    return f"--{path}" if path in _SINGLE else path


def key(kind: str) -> Callable[[str], str]:
    """The key under which a document of that kind has what the API calls `path`."""
    return lambda path: _key(KEYS[kind], path)


def _key(table: dict[str, tuple[str, Any]], path: str) -> str:
    first, _, rest = path.partition(".")
    for word, (field, members) in table.items():
        if field == first:
            return f"{word}.{_inside(members, rest)}" if rest else word
    return path


def _inside(members: Any, rest: str) -> str:
    """What stands behind a key: the place in a list, and the member's own key."""
    if not isinstance(members, dict):
        return rest
    at, _, member = rest.partition(".")
    if not at.isdigit():
        return _key(members, rest)
    return f"{at}.{_key(members, member)}" if member else at

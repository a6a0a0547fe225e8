"""docs/compatibility-fields.md: each field of the tables, whether it works, how that is tested, or why it is refused.

`uv run python -m tests.support.compatibility_fields` writes the page from the catalogue, the tables and what each back
end declares of each field; a test fails where the page is stale or names a test that is not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import yaml

from muster_cluster_agent.adapters.kubernetes.support import ALLOWABLE, KUBERNETES, support_of
from muster_cluster_agent.adapters.local.support import LOCAL
from muster_cluster_agent.adapters.support import Support
from muster_cluster_agent.domain.kubernetes.abilities import GPU_MEMORY
from muster_language import Kind, Row, catalogue
from muster_language.schemas.shape import COLOSSAL_KIND
from tests.support.kubernetes_samples import STYLE
from tests.support.tables import LETTERS, in_policies, in_yaml, on_rest, table

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "compatibility-fields.md"
_SHOWN: Final = 3  # examples named at most
SEEDS: Final = ROOT / "tests" / "data" / "seeds"
TESTS: Final = {
    "T": ("tests/unit/language/test_catalogue_against_tables.py", "its type, words, bounds, default and kinds"),
    "Y": ("tests/properties/test_language_round_trip.py", "every value of it survives YAML"),
    "R": ("tests/properties/test_language_rest.py", "every value that REST can say survives a REST body"),
    "P": ("tests/unit/policy_engine/test_item_rules.py", "a policy takes each rule of its path"),
    "K": ("tests/unit/language/test_crds.py", "explained and checked as a Kubernetes resource"),
    "X": ("tests/integration/submission/test_secrets.py", "sealed, and found nowhere in clear"),
    "M": ("tests/unit/language/test_shapes.py", "older forms are read as what they mean"),
    "C": ("tests/unit/language/test_colossal.py", "a job of another form, and what becomes of it"),
    "E": ("tests/unit/language/test_effective.py", "what it needs and contradicts in the whole spec"),
    "S": ("tests/unit/language/test_seeds.py", "examples of the seeds, named behind the letter"),
    "L": ("tests/unit/agent/test_support.py", "the local back end's list of what waits and of what has no effect"),
    "G": ("tests/unit/agent/test_reconcile.py", "what becomes of a gang's replicas"),
    "A": ("tests/integration/submission/test_rest_workloads.py", "calls on a real submission service"),
}
ENVELOPE: Final = {
    "projectId": "says where the workload goes; a text or a number, answered as a text",
    "clusterId": "a hard constraint; the nil UUID means any cluster",
    "spec": "holds the members below",
}
# What a field does where that is not plain from its description.
DECIDED: Final = {
    "min_replicas": "checked against workers and jobType, as the least with which a torchrun gang starts",
    "max_replicas": "checked against workers and jobType, as the most to which a torchrun gang grows",
    "clean_pod_policy": "with All and Running a replica that still runs when rank 0 has succeeded is stopped at once, "
    "with None after two minutes; workers of MPI go with their launcher, since they would hold devices for ever; "
    "records and logs stay until the workload is deleted",
    "autoscaler_class": "handed to back ends with Knative; Muster itself scales by hand",
    "metric_name": "handed to back ends with Knative; Muster itself scales by hand",
    "metric": "handed to back ends that scale by load; elsewhere minScale replicas run, and changing it scales by hand",
    "target": "handed to back ends that scale by load; elsewhere minScale replicas run, and changing it scales by hand",
    "scale_to_zero_retention_seconds": "handed to back ends that scale by load, as metric is",
    "is_private_service_url": "handed to back ends whose services have an address outside; a local one has none",
}
# Fields whose decision a test of its own shows, beside those that every row has.
OWN: Final = {"min_replicas": "E", "max_replicas": "E", "clean_pod_policy": "G"}
_STATUS: Final = "answered by `get -o yaml` of a job and on Kubernetes' way in"


def page() -> str:
    """The whole page."""
    legend = _table(
        ["", "test", "what it says"], ((letter, f"`{path}`", told) for letter, (path, told) in TESTS.items())
    )
    parts = [
        _HEAD,
        *legend,
        "",
        "## Fields in YAML",
        "",
        *_table(
            ["field", "kinds", "state", "tested by", "on the local back end", "on Kubernetes", "decided"], _fields()
        ),
        "",
        "## Members of REST bodies",
        "",
        _REST,
        *_table(["member", "kinds", "state", "in YAML", "tested by"], _members()),
        "",
        "## Policy paths",
        "",
        _POLICIES,
        *_table(["path", "rules", "kinds", "state", "tested by"], _paths()),
        "",
        f"## {COLOSSAL_KIND}",
        "",
        *_table(["field", "state", "tested by"], _colossal()),
    ]
    return "\n".join(parts) + "\n"


def _fields() -> Iterator[Sequence[str]]:
    named = [row["field"] for row in table("fields")]
    names = [*named, *(row.yaml for row in catalogue().rows if row.yaml and row.yaml not in named)]
    for name in names:
        rows = in_yaml(name)
        row = rows[0]
        if name != "args" and row.yaml == "arguments":
            continue
        ways = (_made(row, LOCAL), _on_kubernetes(row))
        yield f"`{name}`", _kinds(row.kinds), _state(name, rows), tests_of(row), *ways, row.note


def _state(name: str, rows: list[Row]) -> str:
    row = rows[0]
    if row.refused:
        return f"refused: {row.refused}"
    if name not in {row.yaml, "args"}:
        return f"works, read as {', '.join(f'`{each.yaml}`' for each in rows)}"
    return f"works: {DECIDED[row.name]}" if row.name in DECIDED else "works"


def tests_of(row: Row) -> str:
    """The letters of the tests that a field has, with the examples that use it."""
    if row.refused:
        return "T K"
    letters = ["T", "K", "X" if row.sensitive else "M" if row.name == "mpi" else "Y"]
    letters += ["R"] if row.rest or row.rest_also else []
    letters += ["P"] if row.policy or any(member.policy for member in row.inside) else []
    letters += ["L"] if row.name in LOCAL.refused | LOCAL.ignored | _SECRETS else []
    letters += [OWN[row.name]] if row.name in OWN else []
    seen = _examples(row)
    return " ".join([*letters, *([f"S ({', '.join(seen)})"] if seen else [])])


def _examples(row: Row) -> list[str]:
    names = {row.yaml, *row.aliases}
    return [name for name, fields in _used().items() if names & fields][:_SHOWN]


@cache
def _used() -> dict[str, set[str]]:
    """The fields that each example of the seeds uses."""
    files = sorted(SEEDS.glob("0*.yaml"))
    documents = {file.stem: yaml.safe_load(file.read_text(encoding="utf-8")) for file in files}
    return {name: {*document["spec"], *document} for name, document in documents.items()}


def _made(row: Row, support: Support) -> str:
    """What a back end does with the field."""
    if row.refused:
        return ""
    if row.name in support.refused:
        return "such a workload waits there, with the reason"
    if row.name in support.ignored:
        return "without effect, and said so"
    if row.name in _SECRETS and f"{row.yaml}=SECRET" in support.refused_values:
        return "honoured; a value that names a Secret waits there, with the reason"
    return "honoured" if row.name in support.honoured else "no matter of a back end"


def _on_kubernetes(row: Row) -> str:
    """What that back end does with the field: where the file of the cluster says nothing of it, and where it may."""
    plain, most = _made(row, KUBERNETES), _made(row, _ALL_GIVEN)
    if row.yaml == GPU_MEMORY:
        return f"honoured where HAMi or KAI-Scheduler gives the devices of a cluster; else {plain}"
    return plain if plain == most else f"{most} where the cluster's file says so; else {plain}"


_ALL_GIVEN: Final = support_of(frozenset(ALLOWABLE), STYLE)
_SECRETS: Final = frozenset({"environment", "notebook_token"})


def _members() -> Iterator[Sequence[str]]:
    places = on_rest()
    for said in table("rest_fields"):
        name = said["field"]
        if name.startswith("masterSpec."):
            continue
        place = places.get(name)
        if place is None:
            told = ENVELOPE.get(name, "holds the members below")
            yield f"`{name}`", said["kinds"], f"works: {told}", "", "A" if name in ENVELOPE else "R"
            continue
        yield f"`{name}`", said["kinds"], "works", f"`{_in_yaml(place.field, place.row)}`", "T R"


def _in_yaml(field: Row, row: Row) -> str:
    if row is field:
        return field.yaml
    if row.name == "label":
        return f"{field.yaml}.items.LABEL"
    if row.name == "deleted" or field.plain_items:
        return f"{field.yaml}.items.LABEL.{row.yaml}"
    return f"{field.yaml}.items.LABEL.value.{row.yaml}" if field.repeated else f"{field.yaml}.value.{row.yaml}"


def _paths() -> Iterator[Sequence[str]]:
    for path, (rules, kinds) in in_policies().items():
        if not path.startswith(("worker.", "master.")) or path.removeprefix("worker.") in _GANG:
            yield f"`{path}`", ", ".join(sorted(rules)), _kinds(kinds), "works", "T P"


_GANG: Final = frozenset(
    path.removeprefix("worker.")
    for path in in_policies()
    if path.startswith("worker.") and path.removeprefix("worker.") not in in_policies()
)


def _colossal() -> Iterator[Sequence[str]]:
    for said in table("colossal_fields"):
        name = said["field"]
        yield f"`{name}`", f"works: {_STATUS}" if name.startswith("status") else "works", "T C K"


def _kinds(kinds: Iterable[Kind]) -> str:
    return "".join(letter for letter, kind in LETTERS.items() if kind in kinds)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [heads, ["---"] * len(heads), *rows]
    return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines]


_HEAD: Final = """\
# Compatibility, field by field

Each field of the workload language as the tables of `tests/data/catalogue` have it: whether it works, how that is
tested, or why it is refused. Written by `uv run python -m tests.support.compatibility_fields`. What a field means
stands in [workload-language.md](workload-language.md). Kinds: W workspace, T training, D distributed, F inference.

The local back end runs processes on the machine itself: what only a container or a cluster can give has no effect there
and is said on the workload, or the workload waits. Other back ends are told the whole spec.
"""
_REST: Final = """\
Below `masterSpec` stand the same members as below `spec`, but for those that say how many workers there are and what
they run under.
"""
_POLICIES: Final = """\
For a distributed workload each path stands under `worker`, and under `master` where masterSpec has the field.
"""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

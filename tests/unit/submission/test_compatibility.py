"""docs/compatibility.md is whole and fresh: no method of the SDK, no route and no kind without its row."""

from __future__ import annotations

import inspect
from importlib import import_module

from muster.options.v1 import options_pb2
from tests.support import compatibility


def test_the_page_is_fresh() -> None:
    told = "run `uv run python -m tests.support.compatibility`"
    assert compatibility.PAGE.read_text() == compatibility.page(), told


def test_every_method_of_the_sdk_is_answered() -> None:
    package = import_module("runai.api")
    apis = {name: one for name, one in vars(package).items() if name.endswith("Api") and inspect.isclass(one)}
    there = {(name, method) for name, one in apis.items() for method in vars(one) if not method.startswith("_")}
    known = compatibility.methods()
    assert {(one.api, one.name) for one in known} == there
    assert [one for one in known if one.operation is None] == []


def test_what_the_workload_language_needs_has_no_501() -> None:
    needed = {
        "ClustersApi": {"get_clusters", "get_cluster_by_uuid"},
        "DistributedApi": {"create_distributed", "get_distributed", "delete_distributed"},
        "EventsApi": {"get_workload_events", "get_workload_history"},
        "InferencesApi": {"create_inference1", "get_inference", "delete_inference"},
        "NodesApi": {"get_nodes"},
        "PodsApi": {"get_workload_pods", "list_pods", "count_pods"},
        "TrainingsApi": {"create_training1", "get_training", "delete_training", "suspend_training", "resume_training"},
        "WorkloadsApi": {"get_workloads", "get_workload", "count_workloads"},
        "WorkspacesApi": {
            "create_workspace1",
            "get_workspace",
            "delete_workspace",
            "suspend_workspace",
            "resume_workspace",
        },
        "NodePoolsApi": {"get_node_pools", "create_node_pool", "update_node_pool", "delete_node_pool"},
        "ProjectsApi": {"create_project", "get_project", "get_projects", "update_project", "delete_project"},
        "DepartmentsApi": {"create_department", "get_department", "get_departments", "delete_department"},
    }
    works = {(one.api, one.name) for one in compatibility.methods() if one.operation and one.operation.shown}
    assert {(api, name) for api, names in needed.items() for name in names} <= works


def test_every_row_names_a_test_that_exists() -> None:
    named = {test for kind in compatibility.KINDS for test in kind.tests}
    named |= {compatibility.tested_by(one) for one in compatibility.served() if one.shown}
    assert [test for test in sorted(named) if not (compatibility.ROOT / test).is_file()] == []
    source = (compatibility.ROOT / compatibility.SDK_TEST).read_text()
    assert sum(compatibility.driven(one, source) for one in compatibility.methods()) > 30


def test_every_kind_has_its_row() -> None:
    told = " ".join(kind.name + kind.ways for kind in compatibility.KINDS).lower()
    words = {"WORKSPACE": "interactiveworkload", "TRAINING": "trainingworkload"}
    kinds = [name.removeprefix("KIND_") for name in options_pb2.Kind.keys()]  # noqa: SIM118 - an enum of protobuf
    assert [one for one in kinds if one != "UNSPECIFIED" and words.get(one, one.lower()) not in told] == []

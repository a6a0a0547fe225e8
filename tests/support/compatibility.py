"""docs/compatibility.md, written from what there is: each method of the vendor's SDK, each route, each kind.

`uv run python -m tests.support.compatibility` writes the page; tests/unit/submission/test_compatibility.py fails where
it is stale, where a method or a route has no row, and where a row names a test that does not exist. A method is called
with a recorder in place of its client, so the request that it makes is its own; the route that answers it is found by
the router that serves.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any, Final

from muster_submission.rest.errors import NoSuchRoute
from muster_submission.rest.operation import Operation
from muster_submission.rest.router import Router
from muster_submission.rest.routes import operations

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "compatibility.md"
SDK_TEST: Final = "tests/integration/submission/test_sdk.py"
_ID: Final = "11111111-2222-4333-8444-555555555555"
_BY_TAG: Final[Mapping[str, str]] = {
    "Access": "tests/integration/submission/test_rest_access.py",
    "Applications": "tests/integration/submission/test_rest_access.py",
    "Audit": "tests/integration/submission/test_rest_access.py",
    "Clusters": "tests/integration/submission/test_rest_org.py",
    "Departments": "tests/integration/submission/test_rest_org.py",
    "Node pools": "tests/integration/submission/test_rest_org.py",
    "Projects": "tests/integration/submission/test_rest_org.py",
    "Tokens": "tests/integration/submission/test_rest_access.py",
    "Workloads": "tests/integration/submission/test_rest_lists.py",
    "Workspaces": "tests/integration/submission/test_rest_workloads.py",
    "Trainings": "tests/integration/submission/test_rest_workloads.py",
    "Distributed": "tests/integration/submission/test_rest_workloads.py",
    "Inferences": "tests/integration/submission/test_rest_workloads.py",
    "Kubernetes": "tests/integration/submission/test_rest_kubernetes.py",
    "documentation": "tests/integration/submission/test_rest_edge.py",
}
"""Where the operations of a tag are tested, beside what test_rest_schemathesis.py asks of every one of them."""


@dataclass(frozen=True, slots=True)
class Method:
    """One method of the SDK, the request that it makes, and the operation that answers; None: it makes no request."""

    api: str
    name: str
    method: str
    path: str
    operation: Operation | None
    query: frozenset[str] = frozenset()

    @property
    def refused(self) -> list[str]:
        """What it can put into a query and the operation does not know."""
        known = {one.name for one in self.operation.parameters} if self.operation else set()
        return sorted(self.query - known)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of workload or form of document, where it is tested, and what of it is not there."""

    name: str
    ways: str
    tests: Sequence[str]
    remark: str = ""


_YAML: Final = "tests/unit/language/test_seeds.py"
_REST: Final = "tests/integration/submission/test_rest_workloads.py"
_OBJECTS: Final = "tests/integration/submission/test_rest_kubernetes.py"
KINDS: Final[Sequence[Kind]] = (
    Kind("InteractiveWorkload", "YAML, REST workspaces, Kubernetes, gRPC", (_YAML, _REST, _OBJECTS, SDK_TEST)),
    Kind("TrainingWorkload", "YAML, REST trainings, Kubernetes, gRPC", (_YAML, _REST, _OBJECTS, SDK_TEST)),
    Kind(
        "DistributedWorkload: MPI, PyTorch, TF, XGBoost, JAX",
        "YAML, REST distributed, Kubernetes, gRPC",
        (_YAML, _REST, _OBJECTS, SDK_TEST),
        "the local back end runs MPI and PyTorch; the others wait there with a reason",
    ),
    Kind("InferenceWorkload", "YAML, REST inferences, Kubernetes, gRPC", (_YAML, _REST, _OBJECTS, SDK_TEST)),
    Kind(
        "ColossalAIJob",
        "YAML, Kubernetes (`batch.tensorstack.dev/v1beta1`)",
        ("tests/unit/language/test_colossal.py", _OBJECTS),
        "judged and run as distributed; what its pod templates say beyond the language's fields is refused",
    ),
    Kind(
        "a template (`usage: Template`) and `baseWorkload`",
        "YAML, gRPC",
        (_YAML, "tests/integration/submission/test_books.py"),
        "no REST assets: see the routes that are refused",
    ),
    Kind("the legacy Job's YAML", "YAML", ("tests/unit/language/test_shapes.py",), "an origin of a training, no kind"),
)
DEFECTS: Final[Sequence[tuple[str, str]]] = (
    ("needs `aiohttp-retry`, which its package does not name", "it is installed beside it in the tests"),
    ("turns every `_` of a path into `-`, ids included", "no id of ours has one"),
    ("`bearer_token` asks for a token all the same, without credentials", "use an application's id and secret"),
    ("looks for `accessToken` and not at the status: a refused login is a ValueError", "our answer is in its text"),
    ("sends `AppId` and `AppSecret`, the API's names are `appID` and `appSecret`", "names are read without their case"),
    ("decodes the token's payload as base64, not as base64url", "our payloads hold no `-` and no `_`"),
    ("the asynchronous client encodes bodies twice", "a text that holds an object or an array is decoded once more"),
    (
        "the asynchronous client's refresh reads an answer that it has not awaited",
        "switch `auto_refresh_token` off",
    ),
    ("deprecated enumerations arrive as `Class.MEMBER`", "the member is taken"),
    ("an empty list or object is sent as no body at all", "answered with 400: an array is expected"),
    ("has no suspend and resume of distributed and inferences", "the routes are there: `call_api` reaches them"),
    ("a client that nobody holds closes itself, with its threads", "keep it in a name"),
)


class _Anything:
    """Stands for the parts of a process while its routes are listed."""

    def __getattr__(self, _: str) -> Any:
        return self

    def __call__(self, *_: Any, **__: Any) -> Any:
        return self


class _Recorder:
    """In the place of the SDK's client: keeps the request."""

    asked: Mapping[str, Any]

    def call_api(self, **asked: Any) -> None:
        """What every method of the SDK calls."""
        self.asked = asked


def served() -> list[Operation]:
    """Every operation of the REST API, those that answer 501 included."""
    parts: Any = _Anything()
    return operations(parts)


def methods() -> list[Method]:
    """Every method of the SDK's apis."""
    package, router = import_module("runai.api"), Router(served())
    classes = [(name, one) for name, one in sorted(vars(package).items()) if name.endswith("Api")]
    return [
        _method(name, one, method, function, router)
        for name, one in classes
        if inspect.isclass(one)
        for method, function in vars(one).items()
        if not method.startswith("_")
    ]


def _method(api: str, cls: Any, name: str, function: Any, router: Router) -> Method:
    recorder = _Recorder()
    plain = _undecorated(function)
    given = {
        one.name: 1 if one.annotation in {int, "int"} else _ID
        for one in list(inspect.signature(plain).parameters.values())[1:]
        if one.default is one.empty
    }
    plain(cls(recorder), **given)
    method, path = recorder.asked["method"], recorder.asked["resource_path"]
    try:
        names = frozenset(word for word, _ in recorder.asked.get("query_params", ()))
        return Method(api, name, method, path, router.find(method, path)[0], names)
    except NoSuchRoute:
        return Method(api, name, method, path.replace(_ID, "{id}"), None)


def _undecorated(function: Any) -> Any:
    """The function behind the SDK's decorator for deprecated ones, which warns and hides its parameters."""
    for cell in getattr(function, "__closure__", None) or ():
        if isinstance(cell.cell_contents, FunctionType):
            return _undecorated(cell.cell_contents)
    return function


def tested_by(operation: Operation) -> str:
    """The file that tests an operation."""
    return _BY_TAG[operation.tag]


def driven(method: Method, source: str) -> bool:
    """Whether the test with the SDK calls it."""
    kinds = ("workspace", "training", "distributed", "inference")
    spoken = {f"{verb}_{kind}" for kind in kinds for verb in ("get", "delete", "suspend", "resume")}
    return f".{method.name}(" in source or method.name in spoken


def page() -> str:
    """The whole page."""
    known = methods()
    source = (ROOT / SDK_TEST).read_text()
    works = [one for one in known if one.operation is not None and one.operation.shown]
    called = [one for one in works if driven(one, source)]
    counts = {"all": len(known), "works": len(works), "called": len(called), "refused": len(known) - len(works)}
    parts = [
        _HEAD,
        "## Kinds\n",
        *_table(["kind", "ways in", "state", "tested by", "beside it"], map(_kind_row, KINDS)),
        "\n## The vendor's SDK\n",
        _SDK.format(**counts),
        *_table(["method", "request", "state", "tested by, or why not"], (_method_row(one, source) for one in known)),
        "\n### Parameters that are refused\n",
        _PARAMETERS,
        *_table(["method", "parameters"], (_refusing(one) for one in works if one.refused)),
        "\n## The SDK's own defects\n",
        "None of them needs a change of it.\n",
        *_table(["what it does", "what that means here"], DEFECTS),
        "\n## Routes\n",
        _ROUTES,
        *_table(["route", "since", "what", "state", "tested by"], map(_route_row, _shown())),
        "\n## Routes that are refused\n",
        "Each answers 501 with the reason; `tests/unit/submission/test_rest_missing.py` asks every one.\n",
        *_table(["route", "why"], _refused()),
    ]
    return "\n".join(parts) + "\n"


def _shown() -> Iterable[Operation]:
    return sorted((one for one in served() if one.shown), key=lambda one: (one.path, one.method))


def _refused() -> Iterable[Sequence[str]]:
    left = sorted((one for one in served() if not one.shown), key=lambda one: (one.path, one.method))
    return [(f"`{one.method} {one.path}`", one.summary) for one in left]


def _kind_row(kind: Kind) -> Sequence[str]:
    return kind.name, kind.ways, "works", ", ".join(f"`{one}`" for one in kind.tests), kind.remark


def _route_row(one: Operation) -> Sequence[str]:
    return f"`{one.method} {one.path}`", one.since, one.summary, "works", f"`{tested_by(one)}`"


def _method_row(one: Method, source: str) -> Sequence[str]:
    name = f"`{one.api.removesuffix('Api')}.{one.name}`"
    if one.operation is None:
        return name, f"`{one.method} {one.path}`", "404", ""
    route = f"`{one.method} {one.operation.path}`"
    if not one.operation.shown:
        return name, route, "501", one.operation.summary
    return name, route, "works", f"`{SDK_TEST if driven(one, source) else tested_by(one.operation)}`"


def _refusing(one: Method) -> Sequence[str]:
    return f"`{one.api.removesuffix('Api')}.{one.name}`", ", ".join(f"`{each}`" for each in one.refused)


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    line: Callable[[Sequence[str]], str] = lambda cells: f"| {' | '.join(cells)} |"  # noqa: E731 - a line of a table
    return [line(headings), line(["---"] * len(headings)), *(line([_cell(one) for one in row]) for row in rows)]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


_HEAD: Final = """\
# Compatibility

What of the five seed documents and of the vendor's API 2.18 works, and how that is tested; what is refused, and why.
Written by `uv run python -m tests.support.compatibility`; a test fails where this page is stale. Every field has its
row in [compatibility-fields.md](compatibility-fields.md).
"""
_SDK: Final = """\
`runapy` 1.218.0 has {all} methods: {works} work, {called} of them driven by the SDK itself against a whole stack;
{refused} answer 501 with a reason.
"""
_PARAMETERS: Final = """\
A query that names one of these answers 400 with the parameters that there are: to leave a filter out silently would
answer with what was not asked for.
"""
_ROUTES: Final = """\
`since` muster: later than 2.18, or our own. Beside the test that is named, each one is asked by
`tests/integration/submission/test_rest_schemathesis.py` for every answer that the document does not know.
"""


if __name__ == "__main__":
    PAGE.write_text(page())

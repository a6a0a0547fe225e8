"""Hostile numbers in every field and on every channel: refused, and never written out in digits.

Cost is counted in digits, not in seconds: here no Fraction is made of a text or a Decimal that stands for more than
`MOST_DIGITS` digits, and the interpreter refuses longer integers by itself. So a reader that would freeze for minutes
fails at once. The tests feed each field of the catalogue as YAML, as a REST member and as protobuf, and each reader of
numbers outside the catalogue.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.protobuf.descriptor import FieldDescriptor

from muster.tenancy.v1 import tenancy_pb2
from muster_client.cli.org_files import records
from muster_client.cli.trigger_files import read_event
from muster_client.errors import MusterError
from muster_client.quotas import gpu_units, weight_milli
from muster_cluster_agent.adapters.local import cluster_file
from muster_cluster_agent.errors import ClusterFileError
from muster_kernel import numbers, quantities
from muster_language import Kind, Row, catalogue, check_layer, read
from muster_language.rest.bodies import read_body
from muster_language.spec import WorkloadSpec
from muster_policy_engine.documents.document import Frame, read_policies
from muster_policy_engine.policy import Scope
from muster_submission.domain import cloudevents, filtering
from muster_submission.rest import bodies
from muster_submission.rest.errors import BadBody

MOST_DIGITS = 5_000  # of the numerator or denominator of any Fraction
HOSTILE = (
    "1e999999999",
    "-1e999999999",
    "1e-999999999",
    "1E+999999999",
    "9" * 5_000,
    "0." + "0" * 5_000 + "1",
    "1e400",
    "nan",
    "inf",
    "-Infinity",
    "1:" * 2_000 + "1",
    "1_000_000e999999999",
    "\u0661e\u0669\u0669\u0669\u0669\u0669\u0669\u0669\u0669\u0669",
)
NUMBERS = [1e999, -1e999, 1e308, 1e-308, 10**39, -(10**39), 1 << 64]
"""JSON's numbers as they come out of the REST edge, which lets none longer than 40 characters through."""


class TooManyDigits(Exception):
    """A number would have been written out."""


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts the digits of every Fraction before it is made."""
    make = Fraction.__new__

    def counting(cls: type[Fraction], numerator: Any = 0, denominator: Any = None, **rest: Any) -> Fraction:
        if _digits(numerator) > MOST_DIGITS:
            raise TooManyDigits(str(numerator)[:80])
        return make(cls, numerator, denominator, **rest)

    monkeypatch.setattr(Fraction, "__new__", counting)


def _digits(number: Any) -> int:
    if isinstance(number, str):
        mantissa, _, exponent = number.lower().partition("e")
        return len(mantissa) + (abs(int(exponent)) if exponent.lstrip("+-").isdigit() else 0)
    if isinstance(number, Decimal) and number.is_finite():
        return abs(number.adjusted()) + len(number.as_tuple().digits)
    return number.bit_length() // 3 if isinstance(number, int) else 0


def test_the_count_finds_what_the_reader_of_gpus_did_before() -> None:
    with pytest.raises(TooManyDigits):
        Fraction(Decimal("1e999999999"))
    with pytest.raises(TooManyDigits):
        Fraction("1e999999999")


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize(
    "reader",
    [
        numbers.exact,
        numbers.decimal,
        numbers.whole,
        quantities.parse_gpu,
        quantities.parse_bytes,
        quantities.parse_milli_cpu,
        quantities.parse_count,
        gpu_units,
        weight_milli,
    ],
)
def test_each_reader_of_a_quantity_refuses_it(reader: Callable[[str], object], text: str) -> None:
    with pytest.raises(ValueError, match=r"\S") as refused:
        reader(text)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("text", [one for one in HOSTILE if one != "1e-999999999" and not one.startswith("0.")])
def test_a_float_is_finite(text: str) -> None:
    with pytest.raises(ValueError, match=r"number"):
        numbers.real(text)


def _rows() -> Iterator[tuple[Row, Row | None]]:
    """Each row of the catalogue, and each member of one."""
    for row in catalogue().rows:
        yield row, None
        for member in row.inside:
            yield row, member


@pytest.mark.parametrize("text", HOSTILE[:6])
def test_every_field_of_the_catalogue_as_yaml(text: str) -> None:
    kind = {each: each.document for each in Kind}
    for row, member in _rows():
        if not row.yaml or not row.kinds:
            continue
        inner = f"{{value: {{{member.yaml}: {text!r}}}}}" if member is not None else f"{{value: {text!r}}}"
        for shape in (inner, f"{{items: {{a: {inner}}}}}", f"{{value: {text}}}"):
            document = (
                f"apiVersion: run.ai/v2alpha1\nkind: {kind[next(iter(row.kinds))]}\n"
                f"metadata: {{name: t-1, namespace: runai-team-a}}\n"
                f"spec: {{{row.yaml}: {shape}, gpu: {{value: {text}}}}}\n"
            )
            found = read(document)
            assert found[0].violations, (row.name, shape[:60])


def test_every_field_of_the_catalogue_as_a_rest_member() -> None:
    for row, member in _rows():
        if not row.rest:
            continue
        for hostile in (*NUMBERS, *HOSTILE):
            value: Any = hostile if member is None else [{member.rest or member.name: hostile}]
            spec: dict[str, Any] = {}
            *outer, last = row.rest.split(".")
            inside = spec
            for name in outer:
                inside = inside.setdefault(name, {})
            inside[last] = value
            kind = next(iter(row.rest_kinds or row.kinds), Kind.TRAINING)
            body = read_body(kind, {"name": "a", "projectId": "1", "clusterId": "c", "spec": spec})
            if not body.violations:
                check_layer(body.spec)


def test_every_field_of_a_spec_as_protobuf() -> None:
    for field in WorkloadSpec.DESCRIPTOR.fields:
        for hostile in _values(field):
            spec = WorkloadSpec(kind=Kind.TRAINING.value)
            setattr(spec, field.name, hostile)
            assert isinstance(check_layer(spec), list)


def _values(field: FieldDescriptor) -> tuple[Any, ...]:
    if field.is_repeated:
        return ()
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_DOUBLE | FieldDescriptor.CPPTYPE_FLOAT:
            return (math.inf, math.nan, 1e300, 1e-300)
        case FieldDescriptor.CPPTYPE_STRING:
            return HOSTILE if field.type != FieldDescriptor.TYPE_BYTES else ()
        case FieldDescriptor.CPPTYPE_UINT32:
            return ((1 << 32) - 1,)
        case FieldDescriptor.CPPTYPE_UINT64 | FieldDescriptor.CPPTYPE_INT64:
            return ((1 << 63) - 1,)
        case _:
            return ()


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("bound", ["min", "max", "step"])
def test_the_bounds_of_a_policy(text: str, bound: str) -> None:
    for path in (
        "compute: {gpuPortionRequest: {%s: %s}}",
        "compute: {cpuCoreRequest: {%s: %s}}",
        "backoffLimit: {%s: %s}",
    ):
        (found,) = read_policies(f"rules:\n  {path % (bound, repr(text))}\n", Frame(Kind.TRAINING, Scope()))
        assert found.policy is None


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("source", ["compute.cpuCoreLimit", "backoffLimit"])
def test_the_factor_of_a_policy(text: str, source: str) -> None:
    rule = f"{{field: {source}, factor: {text!r}}}"
    body = f"rules: {{compute.cpuCoreRequest: {{defaultFrom: {rule}}}}}"
    (found,) = read_policies(body, Frame(Kind.TRAINING, Scope()))
    assert found.policy is None


@pytest.mark.parametrize("operator", ["==", "!=", "<=", ">="])
@pytest.mark.parametrize("text", HOSTILE)
def test_the_filter_of_a_list(text: str, operator: str) -> None:
    with pytest.raises(filtering.BadFilter, match="allocatedGPU"):
        filtering.read([f"allocatedGPU{operator}{text}"], filtering.Places())


@pytest.mark.parametrize("text", ["9" * 5_000, "1e400", "-1e999999999", "1e999999999"])
def test_json_bodies_and_events(text: str) -> None:
    with pytest.raises(BadBody):
        bodies.parse(json.dumps({"a": "N"}).replace('"N"', text))
    with pytest.raises(ValueError, match="number"):
        cloudevents.loads(json.dumps({"a": ["N"]}).replace('"N"', text).encode())


LONG = ("9" * 5_000, "1:" * 2_000 + "1", "1:" * 2_000 + "1.5", "0x" + "f" * 5_000, "." + "9" * 5_000 + "e+9")


@pytest.mark.parametrize("text", LONG)
def test_numbers_of_yaml_files(text: str, tmp_path: Path) -> None:
    loader: Any = numbers.bound_yaml(yaml.SafeLoader)
    with pytest.raises(ValueError, match=r"line 1: the number .* characters; at most 40"):
        yaml.load(f"a: [{text}]", loader)  # noqa: S506 - a SafeLoader
    assert yaml.load("a: [1, 0x1f, 1:30, 2.5e+3]", loader) == {"a": [1, 31, 90, 2500.0]}  # noqa: S506 - the same
    file = tmp_path / "a.yaml"
    file.write_text(f"kind: Project\nname: p\nrank: {text}\n")
    with pytest.raises(MusterError, match="characters; at most 40"):
        records([file], tenancy_pb2.Project)
    file.write_text(f"id: {text}\n")
    with pytest.raises(MusterError, match="characters; at most 40"):
        read_event(file)
    with pytest.raises(ClusterFileError, match="characters; at most 40"):
        cluster_file.parse(f"cluster: c\nnode_gone_after: {text}\n", where="c.yaml")


@pytest.mark.parametrize("text", [".inf", ".nan", "-1", "1e+30", "true", "[1]"])
@pytest.mark.parametrize("key", ["node_gone_after", "dead_man"])
def test_seconds_of_a_cluster_file(key: str, text: str) -> None:
    with pytest.raises(ClusterFileError, match=f"{key}: expected seconds from 0 to"):
        cluster_file.parse(f"cluster: c\n{key}: {text}\nnodes: [{{name: n}}]\n", where="c.yaml")


def test_the_interpreter_keeps_its_own_bound_on_integers() -> None:
    assert 0 < sys.get_int_max_str_digits() <= 4_300

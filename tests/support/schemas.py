"""What a Kubernetes API server does with a document and a definition: its schema strictly, then its rules, in process.

Stands in for the real one, which tests/integration/language runs where it has been built; both judge the same examples.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import jsonschema_rs
from cel_expr_python import cel  # type: ignore[import-untyped]  # its stubs bring no marker

KEPT: Final = "x-kubernetes-preserve-unknown-fields"
RULES: Final = "x-kubernetes-validations"
EITHER: Final = "x-kubernetes-int-or-string"

Schema = dict[str, Any]


def schema_of(definition: Schema) -> Schema:
    """The schema of a definition's only version."""
    schema: Schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def refusals(schema: Schema, document: Any) -> list[str]:
    """What stands against a document, schema first: rules are only asked of what has the right form."""
    found = [error.message for error in jsonschema_rs.validator_for(_strict(schema)).iter_errors(document)]
    return found or [message for message, holds in _asked(schema, document) if not holds]


def _strict(schema: Schema) -> Schema:
    """The schema as JSON Schema has it, with unknown fields refused as under fieldValidation=Strict."""
    plain = {key: value for key, value in schema.items() if not key.startswith("x-")}
    if EITHER in schema:
        plain["type"] = ["integer", "string"]
    if "properties" in schema:
        plain["properties"] = {name: _strict(each) for name, each in schema["properties"].items()}
        plain["additionalProperties"] = bool(schema.get(KEPT))
    elif "additionalProperties" in schema:
        plain["additionalProperties"] = _strict(schema["additionalProperties"])
    if "items" in schema:
        plain["items"] = _strict(schema["items"])
    return plain


def as_kubectl_wants(value: Any) -> Any:
    """A document in the forms that a schema has: fractions in quotes, a ColossalAIJob's restart policy as an object."""
    if isinstance(value, dict):
        given = {key: as_kubectl_wants(each) for key, each in value.items()}
        policy = given.get("restartPolicy")
        return (
            given | {"restartPolicy": {"policy": policy}} if "replicas" in given and isinstance(policy, str) else given
        )
    if isinstance(value, list):
        return [as_kubectl_wants(each) for each in value]
    return str(value) if isinstance(value, float) else value


def nodes(schema: Schema, place: str = "") -> Iterator[tuple[str, Schema]]:
    """Every schema inside a schema with its place."""
    yield place, schema
    for name, each in schema.get("properties", {}).items():
        yield from nodes(each, f"{place}.{name}")
    for key in ("additionalProperties", "items"):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key], f"{place}.*")


def _asked(schema: Schema, value: Any) -> Iterator[tuple[str, bool]]:
    for rule in schema.get(RULES, ()):
        yield rule["message"], _compiled(rule["rule"]).eval(data={"self": value}).value() is True
    if isinstance(value, dict):
        for name, each in value.items():
            inner = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
            if isinstance(inner, dict):
                yield from _asked(inner, each)
    elif isinstance(value, list):
        for each in value:
            yield from _asked(schema.get("items", {}), each)


@cache
def _compiled(text: str) -> Any:
    return cel.NewEnv(variables={"self": cel.Type.DYN}).compile(text)

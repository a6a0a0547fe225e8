"""When two specs say the same: quantities in base units, and which fields differ.

Called by submission, where somebody applies a document again or changes a running service. Pure.
Holds: `4Gi` and `4096Mi` are one amount; unset and set to the default stay two things, since policy judges them apart.
"""

from __future__ import annotations

from typing import Any, Final

from muster_kernel.quantities import parse_bytes, parse_milli_cpu
from muster_language.catalogue import Row, catalogue
from muster_language.catalogue import value_types as of
from muster_language.spec import WorkloadSpec


def canonical(spec: WorkloadSpec) -> WorkloadSpec:
    """The spec with every quantity in base units, bytes and thousandths of a core, and nothing said in two places."""
    same = WorkloadSpec()
    same.CopyFrom(spec)
    if same.HasField("colossal"):
        same.colossal.ClearField("run_mode")  # whether it is paused is the field `active`
    _rewrite(same, catalogue().rows)
    return same


def changed_fields(before: WorkloadSpec, after: WorkloadSpec) -> list[str]:
    """The names of the fields that differ, in the catalogue's order; what only names the workload is left out.

    A job of another form is compared as it was written, too: not all of it becomes fields.
    """
    old, new = canonical(before), canonical(after)
    return [
        row.name
        for row in (*catalogue().rows, *catalogue().whole)
        if row.name not in _NAMING and _value(old, row.name) != _value(new, row.name)
    ]


_NAMING: Final = frozenset({"name", "name_prefix", "usage"})


def _value(spec: WorkloadSpec, name: str) -> object:
    if spec.DESCRIPTOR.fields_by_name[name].is_repeated:
        return list(getattr(spec, name))
    return getattr(spec, name) if spec.HasField(name) else None  # type: ignore[arg-type]  # the catalogue's names


def _rewrite(message: Any, rows: tuple[Row, ...]) -> None:
    by_name = {row.name: row for row in rows}
    for descriptor, value in message.ListFields():
        row = by_name.get(descriptor.name)
        if row is None:
            continue
        if row.beside_spec:
            _rewrite(value, catalogue().rows)
        elif row.type == of.QUANTITY:
            setattr(message, row.name, _base_units(row, value))
        elif row.members:
            for each in value if descriptor.is_repeated else (value,):
                _rewrite(each, row.members)


def _base_units(row: Row, text: str) -> str:
    try:
        return f"{parse_milli_cpu(text)}m" if row.quantity == "CPU" else str(parse_bytes(text))
    except ValueError:
        return text

"""What changes of departments, projects and node pools share: masks, versions, and messages as values to be checked.

Called by the handlers beside it. Holds: only parts that may change are changed, and a caller who names a version that
is no longer the last one changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message

from muster.tenancy.v1.tenancy_pb2 import Department, NodePool, PoolQuota, Project, SchedulingRules
from muster_submission.domain.problems import Problem
from muster_submission.domain.tenancy import Limits, Quota, Share, check_quota, check_quotas
from muster_submission.errors import ChangedMeanwhile, DraftRefused

Record = TypeVar("Record", Department, Project, NodePool)


def take(known: Record, asked: Record, mask: FieldMask, changeable: Sequence[str]) -> None:
    """Takes over what the mask names; an empty mask: all that may change. Raises DraftRefused, ChangedMeanwhile."""
    if asked.version and asked.version != known.version:
        raise ChangedMeanwhile(
            f"{known.name} has version {known.version} by now, not {asked.version}: look at it again, then change it"
        )
    paths = list(mask.paths) or list(changeable)
    wrong = [path for path in paths if path not in changeable]
    if wrong:
        allowed = ", ".join(changeable)
        raise DraftRefused("the change", [Problem(path, f"cannot be changed; {allowed} can") for path in wrong])
    for path in paths:
        _copy(known, asked, path)


def quotas_of(quotas: Sequence[PoolQuota]) -> list[Quota]:
    """Quotas as values."""
    return [quota_of(one) for one in quotas]


def quota_of(one: PoolQuota) -> Quota:
    """A quota as a value."""
    return Quota(
        one.node_pool,
        one.gpu_deserved,
        _given(one, "gpu_limit"),
        one.over_quota_weight_milli,
        Share(
            _given(one, "cpu_milli_deserved"),
            _given(one, "cpu_milli_limit"),
            _given(one, "cpu_over_quota_weight_milli"),
        ),
        Share(
            _given(one, "memory_bytes_deserved"),
            _given(one, "memory_bytes_limit"),
            _given(one, "memory_over_quota_weight_milli"),
        ),
    )


def rules_of(rules: SchedulingRules) -> Mapping[str, int | None]:
    """Rules as seconds by name; None: no rule."""
    return {one.name: _given(rules, one.name) for one in rules.DESCRIPTOR.fields}


def limits_of(record: Department | Project) -> Limits:
    """What a department or project has beside quotas, as a value."""
    return Limits(
        models=[(one.model, one.gpu_deserved, _given(one, "gpu_limit")) for one in record.model_quotas],
        users=[one.node_pool for one in record.user_limits] if isinstance(record, Project) else (),
        rules=rules_of(record.rules),
        training_types=list(record.node_types.training),
        workspace_types=list(record.node_types.workspace),
        rank=record.rank,
        description=record.description,
    )


def put_quota(record: Department | Project, quota: PoolQuota) -> None:
    """Puts a quota in the place of the one of its node pool, or behind the others. Raises DraftRefused."""
    known = next((one for one in record.quotas if one.node_pool == quota.node_pool), None)
    (record.quotas.add() if known is None else known).CopyFrom(quota)
    # Of what is wrong with the quota itself its path is said, and only otherwise what is wrong with all of them.
    problems = check_quota("quota", quota_of(quota)) or check_quotas(quotas_of(record.quotas))
    if problems:
        raise DraftRefused("the quota", problems)


def _given(message: Message, name: str) -> int | None:
    return int(getattr(message, name)) if message.HasField(name) else None


def _copy(known: Message, asked: Message, path: str) -> None:
    known.ClearField(path)
    field = asked.DESCRIPTOR.fields_by_name[path]
    if field.is_repeated:
        getattr(known, path).extend(getattr(asked, path))
    elif field.message_type is not None:
        if asked.HasField(path):
            getattr(known, path).CopyFrom(getattr(asked, path))
    else:
        setattr(known, path, getattr(asked, path))

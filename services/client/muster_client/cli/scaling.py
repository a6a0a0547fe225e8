"""`muster scale`: how many replicas an inference service has at least and at most."""

from __future__ import annotations

from dataclasses import dataclass

from cyclopts import Parameter

import muster_language as language
from muster.options.v1 import options_pb2
from muster_client.cli.exits import Exit
from muster_client.cli.options import Common
from muster_client.cli.output import emit, say
from muster_client.cli.printable import hanging
from muster_client.errors import InvalidInput
from muster_client.muster import LONGEST_VERDICT
from muster_client.words import kind_word

_NO_OPTIONS = Common()


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Bounds:
    """How many replicas."""

    min: int | None = None
    """At least this many."""
    max: int | None = None
    """At most this many."""
    replicas: int | None = None
    """Exactly this many: the least and the most."""


_NO_BOUNDS = Bounds()


async def scale(workload: str, *, bounds: Bounds = _NO_BOUNDS, common: Common = _NO_OPTIONS) -> int:
    """Changes how many replicas an inference service has; replicas that stay are not restarted.

    Args:
        workload: Its name or id.
        bounds: How many.
        common: Connection.
    """
    least, most = _asked(bounds)
    async with common.muster() as muster:
        found = await common.id_of(muster, workload)
        shown = await muster.get(found)
        if shown.spec.kind != options_pb2.KIND_INFERENCE:
            raise InvalidInput(f"{shown.name} is a {kind_word(shown.spec.kind)} workload: only Inference is scaled")
        (document,) = language.read(await muster.get_yaml(found), template_fields=[language.ANY_FIELD])
        spec = document.spec
        if least is not None:
            spec.min_scale = least
        if most is not None:
            spec.max_scale = most
        if spec.HasField("max_scale") and spec.HasField("min_scale") and spec.min_scale > spec.max_scale:
            raise InvalidInput(
                f"{shown.name} would have at least {spec.min_scale} and at most {spec.max_scale} replicas: "
                "say both --min and --max"
            )
        text = language.write(spec, namespace=document.namespace, metadata_name=document.object_name or shown.name)
        applied = await muster.apply(text, project=shown.project, verdict=LONGEST_VERDICT)
    refused = [hanging(issue) for issue in applied.workload.issues]
    if common.json:
        emit(applied.workload)
    elif refused:
        say("\n  ".join([f"{shown.name}: refused by policy, it stays as it was", *refused]))
    else:
        now = applied.workload.spec
        to = f" to {now.max_scale}" if now.HasField("max_scale") and now.max_scale != now.min_scale else ""
        say(f"{shown.name}: {now.min_scale}{to} replicas ({applied.outcome})")
    return Exit.FAILED if refused else Exit.OK


def _asked(bounds: Bounds) -> tuple[int | None, int | None]:
    """The least and the most. Raises InvalidInput."""
    if bounds.replicas is not None and (bounds.min is not None or bounds.max is not None):
        raise InvalidInput("--replicas says both bounds: leave --min and --max out")
    least = bounds.min if bounds.replicas is None else bounds.replicas
    most = bounds.max if bounds.replicas is None else bounds.replicas
    if least is None and most is None:
        raise InvalidInput("how many? say --min, --max, or --replicas for both")
    if least is not None and least < 0:
        raise InvalidInput(f"--min {least}: 0 or more")
    if most is not None and most < 1:
        raise InvalidInput(f"--max {most}: 1 or more; `muster suspend` stops a service")
    return least, most

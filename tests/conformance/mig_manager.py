"""A stand-in of the mig-manager: follows a label of a node, lays its devices out, and answers in another label.

As the vendor's does: `pending` while it works, `success` once the node has what the layout gives, else `failed`; a
value of the label that it has answered is left alone until it changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final

from tests.conformance.kubelets import MERGE, Kubelets

CONFIG: Final = "nvidia.com/mig.config"
STATE: Final = "nvidia.com/mig.config.state"
_LOOK_SECONDS: Final = 0.1
Layouts = Mapping[str, Mapping[str, str] | None]


@asynccontextmanager
async def mig_manager(kubelets: Kubelets, node: str, layouts: Layouts) -> AsyncIterator[None]:
    """Looks after one node until the block ends. layouts: what each gives of which resource; None: it fails."""
    task = asyncio.create_task(_follow(kubelets, node, layouts))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _follow(kubelets: Kubelets, node: str, layouts: Layouts) -> None:
    path, done = f"/api/v1/nodes/{node}", ""

    async def answer(state: str) -> None:
        await kubelets.call("PATCH", path, {"metadata": {"labels": {STATE: state}}}, content=MERGE)

    while True:
        found = await kubelets.call("GET", path)
        wanted = (found["metadata"].get("labels") or {}).get(CONFIG, "")
        if wanted and wanted != done:
            await answer("pending")
            given = layouts.get(wanted)
            if given is not None:
                await kubelets.set_node(node, {"status": {"allocatable": dict(given), "capacity": dict(given)}})
            await answer("failed" if given is None else "success")
            done = wanted
        await asyncio.sleep(_LOOK_SECONDS)

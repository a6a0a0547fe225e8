import asyncio

from muster.api.v1 import triggers_pb2
from muster_client import Muster


async def main() -> None:
    rule = triggers_pb2.Trigger(
        name="on-model",
        project="team-a",
        template="evaluate",
        event_type="model.stored",
        event_sources=["/registry"],
        environment={"MODEL": "data.model.name"},
        enabled=True,
    )
    async with Muster() as muster:
        await muster.triggers.apply(rule)
        async for firing in muster.triggers.firings("team-a", "on-model"):
            print(firing.event_id, firing.workload or firing.why)


asyncio.run(main())

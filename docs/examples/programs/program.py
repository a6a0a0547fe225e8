import asyncio

from muster_client import Muster, Phase

DOCUMENT = """
apiVersion: run.ai/v2alpha1
kind: TrainingWorkload
metadata:
  name: from-a-program
spec:
  image: {value: "python:3.11"}
  command: {value: "python -V"}
  gpu: {value: 0.5}
"""


async def main() -> None:
    async with Muster() as muster:  # MUSTER_SERVER, a login, or the stack on this machine
        workload = await muster.submit(DOCUMENT, project="vision")
        done = await muster.wait(workload.id, timeout=600)
        async for line in muster.log_lines(workload.id):
            print(line.replica, line.text)
        print(done.name, "completed" if done.phase == Phase.COMPLETED else done.reason.message)


asyncio.run(main())

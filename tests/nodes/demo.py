"""`python -m tests.nodes.demo`: `muster demo --cluster` on two real nodes, with its output and its exit code."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.nodes.configs import IMAGE
from tests.nodes.site import missing, site


def main() -> int:
    """Brings the nodes up and runs the demo."""
    lacking = missing()
    if lacking:
        print(lacking, file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="muster-nodes-") as folder:
        return asyncio.run(_run(Path(folder)))


async def _run(folder: Path) -> int:
    async with site(folder) as found:
        await asyncio.to_thread(found.until_ready)
        kubeconfig = folder / "kubeconfig"
        await asyncio.to_thread(kubeconfig.write_text, found.cluster.kubeconfig())
        command = [
            str(Path(sys.executable).with_name("muster")),
            "demo",
            "--cluster",
            f"kubeconfig={kubeconfig},name=nodes",
        ]
        images = ["--image", IMAGE, "--mpi-image", IMAGE]
        done = await asyncio.to_thread(subprocess.run, [*command, *images, *sys.argv[1:]], check=False)
        return done.returncode


if __name__ == "__main__":
    sys.exit(main())

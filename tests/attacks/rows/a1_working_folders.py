"""A1: where replicas work. A relative path leads to nothing of the stack, and no run reaches another one's folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.attacks.attack import Actor, Attack, Verdict, broken, held

if TYPE_CHECKING:
    from tests.attacks.stage import Stage

_PROOF: Final = "tests/rules/test_attacks_replicas.py"
SECRET_SEARCH: Final = """
import os
folder = os.getcwd()
while True:
    for name in ("credentials/admin.json", "secrets.json", "stack.json", "policy.yaml", "lock"):
        try:
            open(os.path.join(folder, name), "rb").close()
            print("REACHED", os.path.join(folder, name))
        except OSError:
            pass
    if folder == "/":
        break
    folder = os.path.dirname(folder)
print("SEARCHED")
"""
"""Every folder above the working folder, for files of the stack. Prints what it could open."""

RELATIVE_WRITES: Final = """
for name in ("policy.yaml", "stack.json", "sealing-keys", "../policy.yaml", "../../../../../../policy.yaml"):
    try:
        open(name, "w").write("name: stolen\\n")
        print("WROTE", name)
    except OSError as error:
        print("NOT", name, error)
print("TRIED")
"""
"""A training that writes a policy into its working folder, and above."""

OTHER_RUNS: Final = """
import os
top = os.path.dirname(os.path.dirname(os.environ["MUSTER_WORKLOAD_DIR"]))
for path, _, files in os.walk(top):
    if not path.startswith((os.environ["MUSTER_RUN_DIR"], os.environ["MUSTER_WORKLOAD_DIR"])) and files:
        print("SAW", path, files)
print("WALKED")
"""
"""A walk through everything outside of its own folders."""


async def search_upwards(stage: Stage) -> Verdict:
    """Look for the stack's files from the working folder upwards."""
    return _judged(await stage.run_replica(SECRET_SEARCH), "REACHED", "SEARCHED")


async def write_policy(stage: Stage) -> Verdict:
    """Change the tenant's policy by a relative path."""
    before = stage.layout.policy.read_bytes()
    log = await stage.run_replica(RELATIVE_WRITES)
    if stage.layout.policy.read_bytes() != before:
        return broken("policy.yaml of the stack was changed by a relative path")
    return held("policy.yaml is unchanged") if "TRIED" in log else broken(f"the replica did not try: {log[-200:]}")


async def read_other_runs(stage: Stage) -> Verdict:
    """Read what other runs have left in their folders."""
    return _judged(await stage.run_replica(OTHER_RUNS), "SAW", "WALKED")


def _judged(log: str, bad: str, end: str) -> Verdict:
    """Held where the replica tried to the end and printed no line that begins with `bad`."""
    found = [line for line in log.splitlines() if line.startswith(bad)]
    if found:
        return broken("; ".join(found)[:300])
    return held("every attempt was refused") if end in log else broken(f"the replica did not try: {log[-200:]}")


ATTACKS: Final = (
    Attack("A1", "stack-files-above-the-cwd", Actor.REPLICA, search_upwards, f"{_PROOF}::test_from_the_data_folder"),
    Attack(
        "A1", "policy-by-relative-path", Actor.REPLICA, write_policy, f"{_PROOF}::test_in_the_data_folder_writes_land"
    ),
    Attack("A1", "folders-of-other-runs", Actor.REPLICA, read_other_runs, f"{_PROOF}::test_unconfined_it_sees_others"),
)

"""A10: text of strangers must not control the terminal of the person who reads it.

Each attack plants control sequences and then reads them as their victim does, by the `muster` command. It is held if
what the command printed carries no character that a terminal obeys or hides.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Final

from tests.attacks.attack import Actor, Attack, Verdict, broken, held
from tests.attacks.stage import Stage
from tests.support.hostile_text import CLEAR, OVERWRITE, REVERSED, TITLE, harm_in

_COMMAND: Final = [sys.executable, "-c", "from muster_client.cli import main; main()"]
_PROOFS: Final = "tests/rules/test_attacks_terminal.py"
_COLOURS: Final = re.compile("\x1b\\[[0-9;:]{0,64}m")
_SECONDS: Final = 15.0
_HOSTILE: Final = f"{TITLE}{CLEAR}{REVERSED}{OVERWRITE}"
FORGED_ROWS: Final = "\n\n  Owner     admin (system-admin)\n  Kind      Forged"
_WRITES: Final = f"import sys; sys.stdout.write({_HOSTILE!r} + chr(10))"


async def a_log_controls_the_terminal(stage: Stage) -> Verdict:
    """A training writes control sequences; its project's administrator reads the log."""
    name = f"a10-{uuid.uuid4().hex[:8]}"
    document = {
        "apiVersion": "run.ai/v2alpha1",
        "kind": "TrainingWorkload",
        "metadata": {"name": name},
        "spec": {"image": {"value": "python"}, "command": {"value": f"{sys.executable} -c"}},
    }
    document["spec"] |= {"arguments": {"value": json.dumps(_WRITES)}}  # type: ignore[operator]  # a document's spec
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "training.yaml"
        path.write_text(json.dumps(document))
        await _muster(stage, Actor.RESEARCHER, "submit", "-f", str(path), "--wait", "--timeout", "15")
    output = await _muster(stage, Actor.PROJECT_ADMIN, "logs", name)
    await _muster(stage, Actor.RESEARCHER, "delete", name)
    if "evil" not in output:
        return broken(f"the log was not shown, so nothing is proven: {output[-200:]!r}")
    return _judged(_COLOURS.sub("", output))


async def a_trigger_controls_the_terminal(stage: Stage) -> Verdict:
    """A trigger of a project says that it takes events of a hostile type; another user lists triggers."""
    name = f"a10-{uuid.uuid4().hex[:8]}"
    trigger = {"name": name, "template": "none", "eventType": _HOSTILE, "eventSources": [_HOSTILE]}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trigger.yaml"
        path.write_text(json.dumps(trigger))
        output = await _muster(stage, Actor.PROJECT_ADMIN, "triggers", "apply", "-f", str(path))
    for words in (["get", name], ["list"], ["firings"]):
        output += await _muster(stage, Actor.VIEWER, "triggers", *words)
    await _muster(stage, Actor.PROJECT_ADMIN, "triggers", "delete", name)
    return _judged(output)


async def a_file_controls_the_terminal(stage: Stage) -> Verdict:
    """A document from a stranger has a field whose name is a control sequence; its reader only checks it."""
    field = json.dumps(_HOSTILE)
    text = f'{{"apiVersion": "run.ai/v2alpha1", "kind": "TrainingWorkload", "spec": {{{field}: {{"value": {field}}}}}}}'
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "document.yaml"
        path.write_text(text)
        output = await _muster(stage, Actor.VIEWER, "validate", str(path))
        output += await _muster(stage, Actor.VIEWER, "submit", "-f", str(path))
    if "evil" not in output:
        return broken(f"the field was not named, so nothing is proven: {output[-200:]!r}")
    return _judged(output)


async def a_record_forges_rows(stage: Stage) -> Verdict:
    """A torchrun writes the record of its own end with lines that look like rows; `muster describe` shows it."""
    name = f"a10-{uuid.uuid4().hex[:8]}"
    record = {"ok": False, "rank": f"0{FORGED_ROWS}", "exit_code": f"1{FORGED_ROWS}", "error": f"x{FORGED_ROWS}"}
    encoded = base64.b64encode(json.dumps(record).encode()).decode()
    # Python opens a browser for this module: so the command of a browser runs before the shim of torchrun does.
    surroundings = {
        "PYTHONWARNINGS": "all:0:antigravity.x:0:0",
        "BROWSER": f'/bin/sh -c "echo {encoded} | base64 -d > $MUSTER_RECORD; kill -9 $PPID" %s',
    }
    document = {
        "apiVersion": "run.ai/v2alpha1",
        "kind": "DistributedWorkload",
        "metadata": {"name": name},
        "spec": {
            "jobType": {"value": "PyTorch"},
            "workers": {"value": 1},
            "image": {"value": "python"},
            "command": {"value": "torchrun"},
            "arguments": {"value": "x.py"},
            "backoffLimit": {"value": 0},
            "environment": {"items": {key: {"value": value} for key, value in surroundings.items()}},
        },
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "distributed.yaml"
        path.write_text(json.dumps(document))
        await _muster(stage, Actor.RESEARCHER, "submit", "-f", str(path), "--wait", "--timeout", "15")
    output = await _muster(stage, Actor.PROJECT_ADMIN, "describe", name)
    await _muster(stage, Actor.RESEARCHER, "delete", name)
    if " is Failed" not in output:
        return broken(f"the workload did not fail, so nothing is proven: {output[-200:]!r}")
    forged = [line for line in output.splitlines() if line.startswith("  Owner") and "system-admin" in line]
    return broken(f"a row was forged: {forged[0]!r}") if forged else held("no row of the description is forged")


def _judged(output: str) -> Verdict:
    found = sorted({repr(char) for char in harm_in(output)})
    if found:
        return broken(f"the terminal got {', '.join(found)}")
    return held(f"{len(output)} characters were shown, all printable")


async def _muster(stage: Stage, actor: Actor, *words: str) -> str:
    """What the command prints for an actor, stdout and stderr."""
    surroundings = {**os.environ, "MUSTER_SERVER": stage.grpc, "MUSTER_PROJECT": stage.project}
    surroundings["MUSTER_TOKEN"] = stage.tokens.get(actor, "")
    process = await asyncio.create_subprocess_exec(
        *_COMMAND, *words, env=surroundings, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(_SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    return output.decode(errors="surrogateescape")


ATTACKS: Final = (
    Attack(
        "A10",
        "a-log-controls-the-terminal",
        Actor.RESEARCHER,
        a_log_controls_the_terminal,
        f"{_PROOFS}::test_a_log_controls_the_terminal_of_a_client_that_passes_it_on",
    ),
    Attack(
        "A10",
        "a-trigger-controls-the-terminal",
        Actor.PROJECT_ADMIN,
        a_trigger_controls_the_terminal,
        f"{_PROOFS}::test_names_control_the_terminal_of_a_client_that_prints_them",
    ),
    Attack(
        "A10",
        "a-file-controls-the-terminal",
        Actor.VIEWER,
        a_file_controls_the_terminal,
        f"{_PROOFS}::test_names_control_the_terminal_of_a_client_that_prints_them",
    ),
    Attack(
        "A10",
        "a-record-forges-rows",
        Actor.RESEARCHER,
        a_record_forges_rows,
        f"{_PROOFS}::test_a_reason_forges_rows_where_its_lines_are_kept",
    ),
)

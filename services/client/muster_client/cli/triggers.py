"""Verbs about triggers: rules that turn events into runs, and what they did."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from muster_client.cli.exits import Exit
from muster_client.cli.options import Common
from muster_client.cli.output import emit, say
from muster_client.cli.printable import one_line
from muster_client.cli.render import triggers as shown
from muster_client.cli.trigger_files import read_event, read_trigger
from muster_client.errors import InvalidInput

_NO_OPTIONS = Common()
Files = Annotated[list[Path], Parameter(name=["--file", "-f"], negative="")]


async def list_triggers(*, common: Common = _NO_OPTIONS) -> int:
    """Lists triggers."""
    async with common.muster() as muster:
        found = [each async for each in muster.triggers.list(project=common.project or "")]
    if common.json:
        emit(found)
    else:
        say(shown.triggers(found) if found else "no triggers; `muster triggers apply` makes one")
    return Exit.OK


async def get_trigger(name: str, *, common: Common = _NO_OPTIONS) -> int:
    """Shows one trigger, and how much of it runs and waits.

    Args:
        name: The trigger.
        common: Connection.
    """
    async with common.muster() as muster:
        found = await muster.triggers.get(await common.project_for(muster), name)
    if common.json:
        emit(found)
    else:
        say(shown.trigger(found))
    return Exit.OK


async def apply_triggers(*, file: Files, common: Common = _NO_OPTIONS) -> int:
    """Makes or changes the trigger of each file.

    Args:
        file: A YAML file with name, template, eventType and eventSources; what else it may say stands in the guide
            to triggers. May be given several times.
        common: Connection.
    """
    triggers = [read_trigger(path) for path in file]
    made = []
    async with common.muster() as muster:
        for trigger in triggers:
            trigger.project = trigger.project or await common.project_for(muster)
            made.append(await muster.triggers.apply(trigger))
    if common.json:
        emit(made)
    else:
        for each in made:
            say(one_line(f"trigger {each.name} in {each.project}: {each.event_type} starts {each.template}"))
    return Exit.OK


async def delete_trigger(name: str, *, common: Common = _NO_OPTIONS) -> int:
    """Removes a trigger. What waits for it is dropped; its runs go on.

    Args:
        name: The trigger.
        common: Connection.
    """
    async with common.muster() as muster:
        project = await common.project_for(muster)
        dropped = await muster.triggers.delete(project, name)
    if common.json:
        emit({"project": project, "name": name, "dropped": dropped})
    else:
        say(f"trigger {name} of {project} is gone" + (f", {dropped} waiting firings with it" if dropped else ""))
    return Exit.OK


async def try_trigger(
    name: str = "",
    *,
    event: Annotated[Path, Parameter(name="--event")],
    file: Annotated[Path | None, Parameter(name=["--file", "-f"])] = None,
    common: Common = _NO_OPTIONS,
) -> int:
    """Says what a trigger would do with an event. Nothing is made or remembered.

    Args:
        name: A trigger that was applied; or give a file.
        event: A file with the event in CloudEvents' JSON form.
        file: A trigger as `apply` takes it.
        common: Connection.
    """
    if bool(name) == (file is not None):
        raise InvalidInput("which trigger? give the name of one that was applied, or the file of one")
    sample = read_event(event)
    wanted = read_trigger(file) if file else None
    async with common.muster() as muster:
        if wanted is None:
            wanted = (await muster.triggers.get(await common.project_for(muster), name)).trigger
        wanted.project = wanted.project or await common.project_for(muster)
        found = await muster.triggers.test(wanted, sample)
    if common.json:
        emit(found)
    else:
        say(shown.prospect(found))
    return Exit.OK


async def list_firings(
    name: str = "", *, limit: Annotated[int, Parameter(name="--limit")] = 50, common: Common = _NO_OPTIONS
) -> int:
    """Lists what triggers did, the newest first.

    Args:
        name: The trigger; left out: all of the project.
        limit: At most this many.
        common: Connection.
    """
    if limit < 1:
        raise InvalidInput(f"--limit {limit}: 1 or more is expected")
    found = []
    async with common.muster() as muster:
        async for each in muster.triggers.firings(await common.project_for(muster), name):
            found.append(each)
            if len(found) == limit:
                break
    if common.json:
        emit(found)
    else:
        nothing = "nothing was fired; `muster triggers test` says what an event would do"
        say(shown.firings(found, datetime.now(UTC)) if found else nothing)
    return Exit.OK


async def replay_firing(firing: str, *, common: Common = _NO_OPTIONS) -> int:
    """Fires again by the event of a firing, under the next firing number.

    Args:
        firing: Its id, as `muster triggers firings` shows it.
        common: Connection.
    """
    async with common.muster() as muster:
        made = await muster.triggers.replay(await common.project_for(muster), firing)
    if common.json:
        emit(made)
    else:
        say(shown.fired(made))
    return Exit.OK

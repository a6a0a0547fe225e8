"""The verbs `muster bus ...`: identities on the stack's Kafka for agents and programs outside, and the access rules."""

from __future__ import annotations

import sys
from typing import Annotated, Final

from cyclopts import App, Parameter

from muster_chassis import acls
from muster_chassis.acls import Acl, Pattern, Resource
from muster_chassis.topics import SERVICES
from muster_stack.bus.scram import MECHANISM
from muster_stack.commands import Data
from muster_stack.errors import StackError
from muster_stack.keeper.control import Stack
from muster_stack.layout import Layout

app: Final = App(name="bus", help="Who may use Kafka.")
_KINDS: Final = {
    Resource.TOPIC: "--topic",
    Resource.GROUP: "--group",
    Resource.TRANSACTIONAL_ID: "--transactional-id",
}


# The same as `muster dead-letters republish`: people look for it here as well.
app.command("muster_client.cli.operations:republish", name="republish")


@app.command
def credentials(
    *,
    cluster: Annotated[str | None, Parameter(help="For the agent of this cluster.")] = None,
    topic: Annotated[str | None, Parameter(help="For a program outside that writes this topic.")] = None,
    name: Annotated[str, Parameter(help="The name of that program.")] = "outside",
    data: Data = None,
) -> int:
    """Make a user of the stack's Kafka, or show the one that is there; the password stays in its file."""
    stack = Stack(Layout.of(data))
    try:
        if cluster is not None and topic is None:
            user = stack.grant_agent(cluster)
        elif topic is not None and cluster is None:
            user = stack.grant_producer(topic, name)
        else:
            raise StackError("name either --cluster ID, or --topic muster.triggers with --name PROGRAM")
        bootstrap = stack.status()["services"]["kafka"]["bootstrap"]
    except StackError as error:
        return _complain(error)
    lines = {
        "MUSTER_KAFKA_BOOTSTRAP": bootstrap,
        "MUSTER_KAFKA_SECURITY": "sasl_plaintext",
        "MUSTER_KAFKA_USER": user,
        "MUSTER_KAFKA_PASSWORD_FILE": str(stack.layout.bus_identities / user),
    }
    sys.stdout.write("".join(f"{key}={value}\n" for key, value in lines.items()))
    sys.stdout.write(f"# the mechanism is {MECHANISM}; the password file is this identity: keep it private\n")
    return 0


@app.command
def revoke(user: str, *, data: Data = None) -> int:
    """Take away a user that `muster bus credentials` made."""
    try:
        Stack(Layout.of(data)).revoke(user)
    except StackError as error:
        return _complain(error)
    sys.stdout.write(f"{user} cannot log in any more; `muster keys rotate kafka` also ends its open connections\n")
    return 0


@app.command(name="acls")
def show_acls(
    *,
    clusters: Annotated[list[str] | None, Parameter(name="--cluster", help="Whose agents need rules.")] = None,
) -> int:
    """Print the access rules for a Kafka that is not the stack's, as arguments of kafka-acls.sh, one rule a line."""
    rules = [rule for service in SERVICES for rule in acls.of_service(service)]
    try:
        rules += [rule for cluster in clusters or () for rule in acls.of_agent(cluster)]
    except ValueError as error:
        return _complain(error)
    sys.stdout.write("".join(f"{_line(rule)}\n" for rule in rules))
    return 0


def _line(rule: Acl) -> str:
    pattern = "prefixed" if rule.pattern is Pattern.PREFIXED else "literal"
    operation = rule.operation.name.title().replace("_", "")
    what = f"{_KINDS[rule.resource]} {rule.name} --resource-pattern-type {pattern}"
    return f"--add --allow-principal User:{rule.user} --operation {operation} {what}"


def _complain(error: Exception) -> int:
    sys.stderr.write(f"{error}\n")
    return 1

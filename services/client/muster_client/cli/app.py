"""The table of verbs, and what happens around each of them: parsing, errors, exit codes.

The entry point of the `muster` script. A verb's module is imported when the verb is used, so that `muster --help` and
completion do not pay for all of them. Verbs of the local stack (up, down, status, demo) and of the scheduler (the
calculators) come from the entry-point group `muster.commands`: whoever installs these has them, and this package never
imports them. Holds: every way out ends in one of `Exit`; with --json errors are JSON too.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points, version
from typing import Final

from cyclopts import App, CycloptsError, Group

from muster_client.cli.exits import Exit, exit_of
from muster_client.cli.failures import show_failure, show_usage_error
from muster_client.errors import Broken, MusterError

TRACEBACK: Final = "MUSTER_TRACEBACK"
COMMANDS_GROUP: Final = "muster.commands"
CLUSTERS_GROUP: Final = "muster.clusters"
_HERE: Final = "muster_client.cli"

_WORKLOADS: Final = Group("Workloads", sort_key=10)
_FLEET: Final = Group("Fleet and projects", sort_key=20)
_STACK: Final = Group("A stack on this machine", sort_key=30)
_PLANNING: Final = Group("For planning", sort_key=40)

_VERBS: Final = (
    ("run", f"{_HERE}.running:run", "Run a command on GPUs as if it ran here.", _WORKLOADS),
    ("submit", f"{_HERE}.submitting:submit", "Submit the workloads of a file.", _WORKLOADS),
    ("apply", f"{_HERE}.applying:apply", "Make the workloads and templates of a file as it says.", _WORKLOADS),
    ("validate", f"{_HERE}.validating:validate", "Check files without submitting them.", _WORKLOADS),
    ("list", f"{_HERE}.workloads:list_workloads", "List workloads.", _WORKLOADS),
    ("get", f"{_HERE}.workloads:get", "Show one workload.", _WORKLOADS),
    ("describe", f"{_HERE}.workloads:describe", "Tell everything about one workload.", _WORKLOADS),
    ("events", f"{_HERE}.happenings:events", "List what happened to a workload.", _WORKLOADS),
    ("why", f"{_HERE}.workloads:why", "Say why a workload waits.", _WORKLOADS),
    ("what-if", f"{_HERE}.asking:what_if", "Say what would become of workloads, without submitting them.", _WORKLOADS),
    ("logs", f"{_HERE}.following:logs", "Print the log of a workload.", _WORKLOADS),
    ("watch", f"{_HERE}.following:watch", "Follow what happens to workloads.", _WORKLOADS),
    ("suspend", f"{_HERE}.workloads:suspend", "Stop a workload and keep its place in the books.", _WORKLOADS),
    ("resume", f"{_HERE}.workloads:resume", "Let a suspended workload run again.", _WORKLOADS),
    ("scale", f"{_HERE}.scaling:scale", "Change how many replicas a service has.", _WORKLOADS),
    ("delete", f"{_HERE}.deleting:delete", "Delete workloads.", _WORKLOADS),
    ("explain", f"{_HERE}.explaining:explain", "Explain the fields of the workload language.", _WORKLOADS),
    ("login", f"{_HERE}.logging_in:login", "Store an address and credentials for the commands to come.", _FLEET),
    ("logout", f"{_HERE}.logging_in:logout", "Forget them.", _FLEET),
    ("audit", f"{_HERE}.access:audit", "List who did what, and what was refused.", _FLEET),
    ("usage", f"{_HERE}.operations:usage", "Show who has used how much.", _FLEET),
)
_GROUPS: Final = (
    ("departments", "Departments over projects, and their quotas.", {
        "list": ("departments:list_departments", "List departments."),
        "get": ("departments:get_department", "Tell everything about one department."),
        "create": ("departments:create_department", "Make a department."),
        "update": ("departments:update_department", "Change parts of a department."),
        "apply": ("departments:apply_departments", "Make or change the departments of files."),
        "set-quota": ("departments:set_department_quota", "Set what a department deserves in a node pool."),
        "delete": ("departments:delete_department", "Remove a department."),
    }),
    ("projects", "Projects and their quotas.", {
        "list": ("projects:list_projects", "List projects."),
        "get": ("projects:get_project", "Tell everything about one project."),
        "shares": ("projects:show_shares", "Show what projects hold, want, and may expect."),
        "create": ("projects:create_project", "Make a project."),
        "update": ("projects:update_project", "Change parts of a project."),
        "apply": ("projects:apply_projects", "Make or change the projects of files."),
        "set-quota": ("projects:set_quota", "Set what a project deserves in a node pool."),
        "delete": ("projects:delete_project", "Remove a project."),
    }),
    ("node-pools", "The nodes of a cluster by label.", {
        "list": ("node_pools:list_pools", "List node pools."),
        "create": ("node_pools:create_pool", "Make a node pool."),
        "apply": ("node_pools:apply_pools", "Make or change the node pools of files."),
        "delete": ("node_pools:delete_pool", "Remove a node pool."),
    }),
    ("access", "Who has which role where.", {
        "list": ("access:list_rules", "List who has which role where."),
        "grant": ("access:grant", "Give a role."),
        "revoke": ("access:revoke", "Take a role away."),
        "whoami": ("access:whoami", "Say who you are, and which roles you have."),
        "can": ("access:can", "Say whether you may do something."),
    }),
    ("applications", "Programs with an id and a secret.", {
        "list": ("access:list_applications", "List applications."),
        "create": ("access:create_application", "Make an application and show its secret, once."),
        "rotate": ("access:rotate_application", "Give an application a new secret."),
        "revoke": ("access:revoke_application", "End an application."),
    }),
    ("templates", "Templates that workloads inherit from.", {
        "list": ("templates:list_templates", "List templates."),
        "get": ("templates:get_template", "Show one template."),
        "apply": ("templates:apply_templates", "Make or change the templates of a file."),
        "delete": ("templates:delete_template", "Remove a template."),
    }),
    ("policies", "Defaults and rules for workloads.", {
        "list": ("policies:list_policies", "List policies."),
        "get": ("policies:get_policy", "Show one policy, or what holds at a place."),
        "apply": ("policy_folders:apply_policies", "Make or change the policies of files and folders."),
        "diff": ("policy_folders:diff_policies", "Show what `apply` would do."),
        "convert": ("policy_converting:convert_policies", "Print policies of v1 as documents of kind Policy."),
        "export": ("policy_folders:export_policies", "Write the policies into a folder, one file each."),
        "delete": ("policies:delete_policy", "Remove a policy."),
        "history": ("policies:list_versions", "List the versions of a policy."),
        "rollback": ("policies:roll_back", "Write an older version of a policy again."),
    }),
    ("triggers", "Rules that turn events into runs.", {
        "list": ("triggers:list_triggers", "List triggers."),
        "get": ("triggers:get_trigger", "Show one trigger."),
        "apply": ("triggers:apply_triggers", "Make or change the triggers of files."),
        "delete": ("triggers:delete_trigger", "Remove a trigger."),
        "test": ("triggers:try_trigger", "Say what a trigger would do with an event; nothing is made."),
        "firings": ("triggers:list_firings", "List what triggers did, the newest first."),
        "replay": ("triggers:replay_firing", "Fire again by the event of a firing."),
    }),
    ("archive", "Workloads that have been over for long.", {
        "list": ("archive:list_archived", "List archived workloads."),
    }),
    ("clusters", "The clusters of the fleet.", {
        "list": ("fleet:list_clusters", "List clusters."),
        "register": ("fleet:register_cluster", "Make a cluster known."),
        "join": ("joining:join_cluster", "Print what a Kubernetes cluster needs to become part of the fleet."),
        "check": ("fleet:check_cluster", "Check whether a cluster meets the requirements of Muster."),
        "drain": ("fleet:drain_cluster", "Drain all nodes of a cluster."),
        "leave": ("leaving:leave_cluster", "Take a cluster out of the fleet."),
        "adopt": ("fleet:adopt_cluster", "Bind a cluster to another agent instance."),
    }),
    ("nodes", "The nodes and who holds their devices.", {
        "list": ("fleet:list_nodes", "List nodes."),
        "describe": ("fleet:describe_node", "Tell everything about one node."),
        "cordon": ("fleet:cordon", "Keep new work off a node."),
        "drain": ("fleet:drain", "Keep new work off a node and move away what runs there."),
        "uncordon": ("fleet:uncordon", "Take a cordon or a drain back."),
        "set-layout": ("fleet:set_layout", "Change the MIG layout of a node of a Kubernetes cluster."),
        "force-gone": ("fleet:force_gone", "Declare that nothing on a node runs any more."),
    }),
    ("quarantine", "Workloads that the scheduler failed on and has set aside.", {
        "list": ("operations:list_quarantine", "List them, with what was raised."),
        "release": ("operations:release_quarantine", "Let them in again."),
    }),
    ("dead-letters", "What a service could not handle.", {
        "list": ("operations:list_dead_letters", "List dead letters."),
        "redrive": ("operations:redrive", "Try dead letters again."),
        "discard": ("operations:discard", "Give dead letters up, and let go on what waits behind them."),
        "resume": ("operations:resume_consumer", "Let a stopped consumer go on."),
        "gaps": ("operations:list_gaps", "List where versions are missing."),
        "republish": ("operations:republish", "Publish once more what is kept of a topic."),
    }),
)  # fmt: skip
_INSTALLED: Final = {
    "up": ("Start a stack on this machine.", _STACK),
    "down": ("Stop it.", _STACK),
    "status": ("Show how it is.", _STACK),
    "keys": ("Keys and passwords of a stack.", _STACK),
    "reset": ("Delete all its data.", _STACK),
    "backup": ("Save its database and keys.", _STACK),
    "restore": ("Replace its database by a backup.", _STACK),
    "export": ("Write its archive to a file.", _STACK),
    "bus": ("Who may use Kafka.", _STACK),
    "demo": ("Run every kind of workload on a stack of its own and check what happened.", _STACK),
    "fair-share": ("Divide GPUs among queues by the scheduler's own rules.", _PLANNING),
    "mig": ("Show how a GPU can be cut into MIG instances.", _PLANNING),
    "simulate": ("Run a fleet and its work in virtual time.", _PLANNING),
}

_OF_CLUSTERS: Final = {
    "cleanup": "Delete everything that agents created in a Kubernetes cluster; needs no control plane.",
}


def build() -> App:
    """The whole command."""
    app = App(
        name="muster",
        help="One control plane for GPU workloads over many clusters.",
        version=lambda: version("muster-client"),
        help_format="plaintext",
        result_action="return_value",
        suppress_keyboard_interrupt=False,
    )
    app["--help"].group = app["--version"].group = Group("About", sort_key=99)
    for name, where, text, group in _VERBS:
        app.command(where, name=name, help=text, group=group)
    for name, text, commands in _GROUPS:
        app.command(_noun(name, text, commands))
    for point in entry_points(group=CLUSTERS_GROUP):
        app["clusters"].command(point.value, name=point.name, help=_OF_CLUSTERS.get(point.name, ""))
    for point in entry_points(group=COMMANDS_GROUP):
        text, group = _INSTALLED.get(point.name, ("", _STACK))
        app.command(point.value, name=point.name, help=text, group=group)
    app.register_install_completion_command()
    return app


def _noun(name: str, text: str, commands: dict[str, tuple[str, str]]) -> App:
    noun = App(name=name, help=text, group=_FLEET)
    for verb, (where, line) in commands.items():
        noun.command(f"{_HERE}.{where}", name=verb, help=line)
    return noun


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command and leaves the process with its exit code."""
    sys.exit(int(run(sys.argv[1:] if arguments is None else arguments)))


def run(arguments: Sequence[str]) -> int:
    """Runs the command; returns its exit code."""
    wants_json = "--json" in _ours(arguments)
    try:
        answer = build()(_with_stdin(_with_default_verb(arguments)), exit_on_error=False, print_error=False)
        if inspect.iscoroutine(answer):
            answer = asyncio.run(answer)
    except CycloptsError as problem:
        show_usage_error(problem, as_json=wants_json)
        return Exit.INVALID
    except MusterError as problem:
        show_failure(problem, as_json=wants_json)
        return exit_of(problem)
    except (KeyboardInterrupt, asyncio.CancelledError):
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # Whoever read us has read enough (| head). Python would complain once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except Exception as problem:
        # A mistake of ours: a person gets a line and an exit code, and not the command's insides.
        if os.environ.get(TRACEBACK):
            raise
        show_failure(_mistake(problem), as_json=wants_json)
        return Exit.FAILED
    return answer if isinstance(answer, int) else Exit.OK


def _with_stdin(words: Sequence[str]) -> list[str]:
    """A lone hyphen as the path that it is: the parser takes everything that begins with one for an option."""
    ours = _ours(words)
    return [*("./-" if word == "-" else word for word in ours), *words[len(ours) :]]


def _ours(words: Sequence[str]) -> Sequence[str]:
    """The words before --: those after it are the user's own command."""
    return words[: words.index("--")] if "--" in words else words


def _mistake(problem: Exception) -> Broken:
    what = " ".join(f"{type(problem).__name__}: {problem}".split())
    return Broken(
        f"a mistake of this command itself, please report it: {what}\n  {TRACEBACK}=1 shows where it happened"
    )


def _with_default_verb(arguments: Sequence[str]) -> list[str]:
    """`muster clusters` and `muster clusters --json` list: a noun without a verb is a question."""
    nouns = {name: commands for name, _, commands in _GROUPS}
    words = list(arguments)
    if words and words[0] in nouns:
        rest = words[1:]
        asks_help = any(word in {"-h", "--help"} for word in rest)
        if not asks_help and (not rest or rest[0].startswith("-")):
            return [words[0], "list", *rest]
    return words

"""Which replicas a revision consists of, and what process each becomes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster_cluster_agent.domain.launch import Places, calls, hostfile, process
from muster_cluster_agent.domain.model import (
    Assignment,
    Framework,
    Pattern,
    Probe,
    Revision,
    Run,
    Share,
    Slice,
    Template,
)
from muster_cluster_agent.domain.plan import (
    InvalidCommand,
    MpiLauncher,
    MpiWorker,
    Peer,
    Plain,
    ReplicaPlan,
    TorchLauncher,
    Torchrun,
    replica_plans,
)
from muster_cluster_agent.domain.probes import InvalidProbe

ID = "0190c0de-0000-7000-8000-000000000001"
WORKERS = Run("worker", 0, 2, "n-0")
LAUNCHER = Run("launcher", 0, 1, "n-0")
COLOSSALAI = Framework.COLOSSALAI
PLACES = Places(
    folder="/state/r",
    cwd="/home",
    python="/py",
    shims="/shims",
    tools="/tools",
    base_env=(("PATH", "/bin"), ("HOME", "/root")),
    meeting_ports=(20001,),
    gang="w-b",
    ports={8080: 20002, 9000: 20003},
    mpi_prefix="/venv",
    torch_python="/torch/python",
    hosts_file="/l/hostfile",
    host_map="/l/hosts.json",
    calls_file="/l/calls.json",
)


def revision(pattern: Pattern, command: str, *runs: Run, **more: object) -> Revision:
    return replace(Revision(1, 2, pattern, Template(command=command), runs or (WORKERS,)), **more)  # type: ignore[arg-type]


def plans(of: Revision) -> tuple[ReplicaPlan, ...]:
    return replica_plans(Assignment(ID, 1, "", 1, (of,), project="p", name="w", grace=7), of)


def test_a_single_command_is_split_as_a_shell_splits_it() -> None:
    one = plans(replace(revision(Pattern.SINGLE, "sh -c"), template=Template(command="sh -c", args="'echo a b' $X")))[0]
    assert one.launch == Plain(("sh", "-c", "echo a b", "$X"))
    assert one.name.endswith("-g1-a2-worker-0-r0")
    assert one.grace == 7


@pytest.mark.parametrize("command", ["", "sh -c 'open", "a\0b"])
def test_a_command_that_cannot_be_run_is_refused(command: str) -> None:
    with pytest.raises(InvalidCommand):
        plans(revision(Pattern.SINGLE, command))


def test_an_mpi_launcher_waits_for_all_workers_and_wraps_the_command() -> None:
    found = plans(revision(Pattern.MPI, "python -m mpi4py t.py", LAUNCHER, WORKERS, slots_per_worker=2))
    launcher = found[-1]
    assert [one.launch for one in found[:2]] == [MpiWorker(2), MpiWorker(2)]
    assert isinstance(launcher.launch, MpiLauncher)
    assert launcher.after == tuple(one.name for one in found[:2])
    assert (launcher.launch.ranks, launcher.launch.wrap) == (4, True)
    assert hostfile(launcher.launch).splitlines() == [f"{one.name} slots=2" for one in found[:2]]
    made = process(launcher, PLACES)
    assert made.argv[:5] == ("/venv/bin/mpirun", "--prefix", "/venv", "-np", "4")
    assert made.env["PATH"] == "/tools:/bin"
    assert made.env["CUDA_VISIBLE_DEVICES"] == ""
    assert made.env["OMPI_MCA_orte_default_hostfile"] == "/l/hostfile"


def test_an_mpirun_of_ones_own_is_not_wrapped_and_processes_win() -> None:
    launcher = plans(revision(Pattern.MPI, "mpirun -np 3 prog", WORKERS, LAUNCHER, processes=3))[-1]
    assert isinstance(launcher.launch, MpiLauncher)
    assert (launcher.launch.ranks, launcher.launch.wrap) == (3, False)
    assert process(launcher, PLACES).argv == ("/venv/bin/mpirun", "-np", "3", "prog")
    own = plans(revision(Pattern.MPI, "/my/mpirun prog", WORKERS, LAUNCHER))[-1]
    assert process(own, replace(PLACES, mpi_prefix="")).argv == ("/my/mpirun", "prog")


def test_an_mpi_worker_is_the_exec_daemon() -> None:
    worker = plans(revision(Pattern.MPI, "prog", WORKERS, LAUNCHER))[0]
    made = process(worker, PLACES)
    assert made.argv == ("/py", "-I", "-S", "/shims/execd.py", "/state/r/exec.sock")
    assert made.env["PATH"] == "/tools:/bin"


@pytest.mark.parametrize(
    ("command", "argv", "python"),
    [
        ("torchrun t.py", ("t.py",), "/torch/python"),
        ("/my/bin/torchrun t.py", ("t.py",), "/my/bin/python"),
        ("python3 -m torch.distributed.run t.py --x", ("t.py", "--x"), "python3"),
    ],
)
def test_torchrun_goes_through_the_wrapper(command: str, argv: tuple[str, ...], python: str) -> None:
    shares = ((Share("GPU-0", whole=True), Share("GPU-1", whole=True)), (Share("GPU-2", portion_milli=500),))
    first, second = plans(revision(Pattern.GANG, command, replace(WORKERS, shares=shares)))
    assert isinstance(first.launch, Torchrun)
    assert isinstance(second.launch, Torchrun)
    assert (first.launch.nodes, first.launch.rank, first.launch.processes) == (2, 0, 2)
    assert (second.launch.rank, second.launch.processes) == (1, 1)
    made = process(first, PLACES)
    assert made.argv == (python, "/shims/trun.py", *argv)
    assert made.env["PET_MASTER_PORT"] == "20001"
    assert made.env["PET_MAX_RESTARTS"] == "0"
    assert made.env["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] == "1"
    assert "RANK" not in made.env
    assert made.env["CUDA_VISIBLE_DEVICES"] == "GPU-0,GPU-1"


def test_a_master_is_rank_zero_and_other_commands_get_the_environment_of_the_rendezvous() -> None:
    master = Run("master", 0, 1, "n-0")
    found = plans(revision(Pattern.GANG, "python t.py", WORKERS, master, master=Template(command="python m.py")))
    assert [(one.role, one.launch) for one in found] == [
        ("master", Peer(("python", "m.py"), 0, Framework.PYTORCH)),
        ("worker", Peer(("python", "t.py"), 1, Framework.PYTORCH)),
        ("worker", Peer(("python", "t.py"), 2, Framework.PYTORCH)),
    ]
    env = process(found[1], PLACES).env
    assert (env["RANK"], env["WORLD_SIZE"], env["MASTER_ADDR"]) == ("1", "3", "127.0.0.1")


def test_a_launcher_starts_torchrun_on_the_workers_through_their_daemons() -> None:
    template = Template(command="torchrun", args="--nproc_per_node=2 t.py 'a b' ${SEED}", env=(("SEED", "7"),))
    master = Template(command="torchrun", args="ignored", env=(("SEED", "7"), ("MORE", "x")))
    of = replace(
        revision(Pattern.MPI, "", WORKERS, LAUNCHER, slots_per_worker=2, framework=COLOSSALAI), template=template
    )
    *workers, launcher = plans(replace(of, master=master))
    assert [one.launch for one in workers] == [MpiWorker(2), MpiWorker(2)]
    assert launcher.after == tuple(one.name for one in workers)
    assert isinstance(launcher.launch, TorchLauncher)
    made = process(launcher, PLACES)
    assert made.argv == ("/py", "-I", "-S", "/shims/rsh.py", "--calls", "/l/calls.json")
    assert made.env["CUDA_VISIBLE_DEVICES"] == ""
    first, second = calls(launcher.launch, launcher, PLACES, made.env)
    assert first["host"] == workers[0].name
    line = "cd /home && exec /torch/python /shims/trun.py --nproc_per_node=2 t.py 'a b' 7"
    assert (first["command"], second["command"]) == (line, line)
    env = second["env"]
    assert isinstance(env, dict)
    assert (env["MORE"], env["PET_NNODES"], env["PET_NODE_RANK"], env["PET_NPROC_PER_NODE"]) == ("x", "2", "1", "2")
    assert (env["PET_MASTER_PORT"], "MUSTER_RECORD" in env) == ("20001", False)


def test_a_launcher_starts_nothing_but_torchrun() -> None:
    with pytest.raises(InvalidCommand, match="a launcher starts torchrun"):
        plans(revision(Pattern.MPI, "python t.py", WORKERS, LAUNCHER, framework=COLOSSALAI))


def test_a_trial_runs_alone_under_its_number() -> None:
    found = plans(revision(Pattern.TRIALS, "echo $(POD_INDEX)", Run("worker", 7, 2, "n-0")))
    assert [one.launch for one in found] == [Plain(("echo", "$(POD_INDEX)"))] * 2
    assert [process(one, PLACES).argv for one in found] == [("echo", "7"), ("echo", "8")]


def test_the_names_that_users_know() -> None:
    one, other = plans(revision(Pattern.SINGLE, "true"))
    env = process(other, PLACES).env
    assert {name: env[name] for name in ("RUNAI_PROJECT", "RUNAI_JOB_NAME", "JOB_NAME", "JOB_UUID", "POD_INDEX")} == {
        "RUNAI_PROJECT": "p",
        "RUNAI_JOB_NAME": "w",
        "JOB_NAME": "w",
        "JOB_UUID": ID,
        "POD_INDEX": "1",
    }
    assert env["POD_UUID"] != process(one, PLACES).env["POD_UUID"]


def test_counted_devices_count_for_torchrun_and_stay_unpinned() -> None:
    one = plans(revision(Pattern.GANG, "torchrun t.py", Run("worker", 0, 1, "n-0", slots=(("", 3),))))[0]
    assert isinstance(one.launch, Torchrun)
    assert one.launch.processes == 3
    env = process(one, PLACES).env
    assert "CUDA_VISIBLE_DEVICES" not in env
    assert env["MUSTER_DEVICES"] == '[{"count": 3}]'


def test_devices_are_handed_over_by_uuid_with_their_share() -> None:
    shares = (
        (
            Share("GPU-a", portion_milli=500),
            Share("GPU-b", memory_bytes=1 << 30),
            Share("GPU-c", slice=Slice("1g.5gb", 2, "MIG-x")),
            Share("GPU-d", slice=Slice("1g.5gb", 3)),
        ),
    )
    one = plans(revision(Pattern.SINGLE, "true", Run("worker", 0, 1, "n-0", shares=shares)))[0]
    env = process(one, PLACES).env
    assert env["CUDA_VISIBLE_DEVICES"] == "GPU-a,GPU-b,MIG-x,GPU-d"
    assert '"portion": 0.5' in env["MUSTER_DEVICES"]
    assert '"bytes": 1073741824' in env["MUSTER_DEVICES"]


def test_a_service_is_asked_on_its_first_port_and_references_are_expanded() -> None:
    template = Template(command="serve --port $(PORT) $(NOPE) $$(PORT)", ports=(8080, 9000), env=(("PET_X", "mine"),))
    one = plans(replace(revision(Pattern.SERVICE, ""), template=template))[0]
    assert one.probe == Probe()
    made = process(one, PLACES)
    assert made.argv == ("serve", "--port", "20002", "$(NOPE)", "$(PORT)")
    assert (made.env["MUSTER_PORT_9000"], made.env["PET_X"]) == ("20003", "mine")


def test_what_muster_sets_wins_over_the_user() -> None:
    template = Template(command="true", env=(("CUDA_VISIBLE_DEVICES", "all"), ("MUSTER_REPLICA", "x"), ("HOME", "/h")))
    env = process(plans(replace(revision(Pattern.SINGLE, ""), template=template))[0], PLACES).env
    assert env["CUDA_VISIBLE_DEVICES"] == ""
    assert env["MUSTER_REPLICA"].startswith("w-")
    assert env["HOME"] == "/h"


def test_only_who_says_so_is_asked_for_readiness() -> None:
    silent = replace(revision(Pattern.SINGLE, ""), template=Template(command="true", ports=(8080,)))
    assert plans(silent)[0].probe is None
    asked = replace(silent, template=Template(command="true", ports=(8080,), probe=Probe(path="/x", port=8080)))
    assert plans(asked)[0].probe == Probe(path="/x", port=8080)
    without_port = replace(silent, template=Template(command="true", probe=Probe(path="/x")))
    assert plans(without_port)[0].probe is None


def test_a_probe_asks_the_replica_itself_and_nothing_else() -> None:
    """The agent asks from inside the machine, where an undeclared port belongs to another program (A15)."""
    own = Template(command="true", ports=(8080,))
    elsewhere = replace(revision(Pattern.SINGLE, ""), template=replace(own, probe=Probe(path="/", port=5432)))
    with pytest.raises(
        InvalidProbe, match=r"port 5432, which is not one of the workload's ports \(8080\).*MUSTER_PORT_5432"
    ):
        plans(elsewhere)
    without = replace(revision(Pattern.SINGLE, ""), template=Template(command="true", probe=Probe(port=5432)))
    with pytest.raises(InvalidProbe, match=r"\(none\)"):
        plans(without)


@pytest.mark.parametrize(
    ("probe", "word"),
    [
        (Probe(path="/ HTTP/1.1\r\nX: y", port=8080), "path"),
        (Probe(path="/", host="h\r\n\r\nPOST /api/v1/workloads HTTP/1.1", port=8080), "host"),
        (Probe(path="/", host="h\x7f", port=8080), "host"),
    ],
)
def test_a_probe_is_one_request(probe: Probe, word: str) -> None:
    """A line break in the path or the host would let the agent send any request (A15)."""
    one = replace(revision(Pattern.SINGLE, ""), template=Template(command="true", ports=(8080,), probe=probe))
    with pytest.raises(InvalidProbe, match=f"the {word} of the readiness probe .* control characters are not allowed"):
        plans(one)

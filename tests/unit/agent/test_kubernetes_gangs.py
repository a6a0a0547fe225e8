"""Gangs as pods: how each member starts, what the run shares, and what no pod's description shows."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2
from muster_cluster_agent.adapters import specs
from muster_cluster_agent.domain.kubernetes import (
    host_ports,
    manifests,
    marks,
    programs,
    resources,
    roots,
    run_objects,
)
from muster_cluster_agent.domain.kubernetes.manifests import Style
from muster_cluster_agent.domain.kubernetes.resources import Resource
from muster_cluster_agent.domain.kubernetes.run_objects import KeyPair
from muster_cluster_agent.domain.model import Assignment, Revision, Run
from muster_cluster_agent.domain.plan import InvalidCommand, ReplicaPlan, replica_plans
from muster_cluster_agent.domain.sealed import opened
from muster_kernel.sealed import SEALED
from tests.support.kubernetes_pods import OWNER

ID = "33333333-3333-4333-8333-333333333333"
PAIR = KeyPair("private text", "public line\n")


def alone() -> ReplicaPlan:
    return gang(workload_pb2.FRAMEWORK_PYTORCH, workers=1, command="python t.py")[0]


def gang(
    framework: int, *, workers: int = 2, most: int = 0, master: str = "", master_network: bool = False, **fields: Any
) -> list[ReplicaPlan]:
    """A gang whose workers have two GPUs each; master: the role that comes with them, empty: none.

    master_network: the master alone uses the network of its node.
    """
    spec = workload_pb2.WorkloadSpec(kind=options_pb2.KIND_DISTRIBUTED, framework=framework, image="i", **fields)  # type: ignore[arg-type]
    runs = [Run("worker", 0, workers, "n-7", slots=(("", 2),)), *([Run(master, 0, 1, "n-7")] if master else [])]
    template = specs.template(spec, containers=True)
    revision = Revision(
        1, 0, specs.pattern(spec), template, tuple(runs), framework=specs.framework(spec), slots_per_worker=2
    )
    revision = replace(revision, least=1 if most else 0, most=most)
    if master_network:
        spec.host_network = True
        revision = replace(revision, master=specs.template(spec, containers=True))
    assignment = Assignment(ID, 1, "", 1, (revision,), project="p", namespace="runai-p", name="bert")
    return list(replica_plans(assignment, revision))


def main_of(plan: ReplicaPlan) -> dict[str, Any]:
    (main,) = manifests.pod(OWNER, plan, Style(), "uid")["spec"]["containers"]
    return dict(main)


def env_of(plan: ReplicaPlan) -> dict[str, Any]:
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in main_of(plan)["env"]}


def objects(plan: ReplicaPlan) -> Mapping[Resource, Any]:
    return dict(run_objects.objects_of(OWNER, plan, PAIR))


def test_torchrun_meets_at_the_name_of_worker_0_and_keeps_its_record_in_the_pods_status() -> None:
    first, second = gang(workload_pb2.FRAMEWORK_PYTORCH, command="torchrun train.py --lr ${LR}")
    main, env = main_of(second), env_of(second)
    assert main["command"] == ["python3"]
    assert main["args"] == ["/muster/trun.py", "train.py", "--lr", "${LR}"]
    address = f"worker-0.{first.gang}"
    assert (env["PET_MASTER_ADDR"], env["PET_MASTER_PORT"], env["PET_NODE_RANK"]) == (address, "29500", "1")
    assert (env["PET_NPROC_PER_NODE"], env["PET_MAX_RESTARTS"]) == ("2", "0")
    assert env["MUSTER_RECORD"] == "/dev/termination-log"
    assert main["volumeMounts"] == [{"name": "muster", "mountPath": "/muster", "readOnly": True}]
    pod = manifests.pod(OWNER, second, Style(), "uid")["spec"]
    assert pod["volumes"] == [{"name": "muster", "configMap": {"name": programs.programs_name()}}]
    assert (pod["hostname"], pod["subdomain"]) == ("worker-1", second.gang)


def test_an_elastic_gang_meets_at_a_store() -> None:
    first, _ = gang(workload_pb2.FRAMEWORK_PYTORCH, command="torchrun train.py", most=4)
    env = env_of(first)
    assert (env["PET_RDZV_ENDPOINT"], env["PET_NNODES"]) == (f"worker-0.{first.gang}:29400", "1:4")


def test_on_the_network_of_its_nodes_every_run_meets_at_ports_of_its_own() -> None:
    first, second = gang(workload_pb2.FRAMEWORK_PYTORCH, command="torchrun train.py", host_network=True)
    pod = manifests.pod(OWNER, first, Style(), "uid")["spec"]
    assert (pod["hostNetwork"], pod["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    port = int(env_of(first)["MASTER_PORT"])
    assert port == int(env_of(second)["MASTER_PORT"])
    assert host_ports.FIRST <= port < host_ports.FIRST + host_ports.NUMBER
    later = replace(first, gang=f"{first.gang}-1")
    assert int(env_of(later)["MASTER_PORT"]) != port
    assert "hostNetwork" not in manifests.pod(OWNER, alone(), Style(), "uid")["spec"]


def test_members_on_one_node_do_not_listen_on_the_same_port() -> None:
    first, _ = gang(workload_pb2.FRAMEWORK_TF, command="python t.py", host_network=True)
    ports = [place.rpartition(":")[2] for place in json.loads(env_of(first)["TF_CONFIG"])["cluster"]["worker"]]
    assert len({*ports}) == 2
    *workers, launcher = gang(workload_pb2.FRAMEWORK_MPI, master="launcher", command="./solve", host_network=True)
    listening = [main_of(worker)["readinessProbe"]["tcpSocket"]["port"] for worker in workers]
    assert len({*listening}) == 2
    assert [main_of(worker)["args"][1] for worker in workers] == [str(port) for port in listening]
    assert main_of(launcher)["args"][4] == "/muster-hosts/ssh_ports"
    hosts = objects(launcher)[resources.CONFIG_MAP]["data"]["ssh_ports"]
    assert hosts == "".join(
        f"Host worker-{index}.{launcher.gang}\n    Port {port}\n" for index, port in enumerate(listening)
    )


def test_members_agree_on_the_port_where_the_master_alone_uses_its_nodes_network() -> None:
    master, worker = gang(
        workload_pb2.FRAMEWORK_PYTORCH, workers=1, master="master", command="torchrun t.py", master_network=True
    )
    assert env_of(master)["MASTER_PORT"] == env_of(worker)["MASTER_PORT"] != "29500"
    assert "hostNetwork" not in manifests.pod(OWNER, worker, Style(), "uid")["spec"]


@given(st.text(min_size=1, max_size=60), st.integers(2, 500))
def test_places_of_one_run_have_different_ports_in_the_range(run: str, members: int) -> None:
    ports = [host_ports.host_port(run, place) for place in range(2 * members)]
    assert len({*ports}) == 2 * members
    assert min(ports) >= 20_000
    assert max(ports) < 30_000


def test_what_a_framework_needs_wins_over_what_its_user_sets() -> None:
    environment = [workload_pb2.EnvironmentVariable(label="MASTER_ADDR", value="elsewhere")]
    first, _ = gang(workload_pb2.FRAMEWORK_PYTORCH, command="python t.py", environment=environment)
    assert (env_of(first)["MASTER_ADDR"], env_of(first)["RANK"]) == (f"worker-0.{first.gang}", "0")


def test_every_member_is_named_where_the_framework_asks_for_all() -> None:
    _, second = gang(workload_pb2.FRAMEWORK_TF, command="python t.py")
    told = json.loads(env_of(second)["TF_CONFIG"])
    assert told["cluster"] == {"worker": [f"worker-0.{second.gang}:2222", f"worker-1.{second.gang}:2222"]}


def test_a_member_without_devices_sees_none_and_no_one_chooses_cards_by_a_variable() -> None:
    environment = [workload_pb2.EnvironmentVariable(label="NVIDIA_VISIBLE_DEVICES", value="all")]
    *workers, launcher = gang(workload_pb2.FRAMEWORK_MPI, master="launcher", command="./solve", environment=environment)
    assert env_of(launcher)["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert "NVIDIA_VISIBLE_DEVICES" not in env_of(workers[0])
    assert "resources" not in main_of(launcher)


def test_mpi_runs_an_sshd_in_each_worker_and_mpirun_over_their_names() -> None:
    worker, _, launcher = gang(workload_pb2.FRAMEWORK_MPI, master="launcher", command="./solve --x")
    serving = main_of(worker)
    assert [*serving["command"], *serving["args"]] == [
        "/bin/sh",
        "/muster/worker.sh",
        "2222",
        "/muster-keys",
        "/muster-ssh",
    ]
    assert serving["readinessProbe"] == {"tcpSocket": {"port": 2222}, "periodSeconds": 2}
    starting, env = main_of(launcher), env_of(launcher)
    assert starting["args"][5:] == ["mpirun", "-np", "4", "./solve", "--x"]
    assert env["OMPI_MCA_orte_default_hostfile"] == env["PRTE_MCA_prte_default_hostfile"] == "/muster-hosts/hostfile"
    assert env["OMPI_MCA_plm_rsh_args"] == env["PRTE_MCA_plm_ssh_args"] == "-F /muster-ssh/config"
    hosts = objects(launcher)[resources.CONFIG_MAP]
    name = launcher.gang
    assert hosts["data"] == {"hostfile": f"worker-0.{name} slots=2\nworker-1.{name} slots=2\n"}
    keys = objects(worker)[resources.SECRET]
    assert (keys["immutable"], base64.b64decode(keys["data"]["id"])) == (True, b"private text")
    assert resources.CONFIG_MAP not in objects(worker)


def test_an_mpirun_that_would_wait_for_ever_is_refused_with_a_reason() -> None:
    launcher = gang(workload_pb2.FRAMEWORK_MPI, master="launcher", command="mpirun --enable-recovery ./solve")[-1]
    with pytest.raises(InvalidCommand, match="leave it out"):
        manifests.pod(OWNER, launcher, Style(), "uid")


def test_a_colossalai_launcher_starts_torchrun_on_each_worker_in_its_own_folder() -> None:
    environment = [workload_pb2.EnvironmentVariable(label="LR", value="0.1")]
    *_, launcher = gang(
        workload_pb2.FRAMEWORK_COLOSSALAI,
        master="launcher",
        command='torchrun train.py "${LR} a"',
        working_dir="/w",
        environment=environment,
    )
    assert main_of(launcher)["args"][5:] == [
        "python3",
        "/muster/over_ssh.py",
        "/muster-ssh/config",
        "/muster-hosts/calls.json",
    ]
    asked = json.loads(objects(launcher)[resources.CONFIG_MAP]["data"]["calls.json"])
    first, second = asked["calls"]
    assert (first["host"], second["host"]) == (f"worker-0.{launcher.gang}", f"worker-1.{launcher.gang}")
    assert first["command"] == "cd /w && exec python3 /muster/trun.py train.py '0.1 a'"
    assert (asked["env"]["LR"], second["env"]["PET_NODE_RANK"]) == ("0.1", "1")
    assert second["env"]["PET_MASTER_ADDR"] == f"worker-0.{launcher.gang}"


def test_a_gang_has_a_name_for_each_member_a_budget_of_all_of_them_and_no_visitors() -> None:
    first, _ = gang(workload_pb2.FRAMEWORK_PYTORCH, command="torchrun t.py")
    made = objects(first)
    members = {marks.WORKLOAD: ID, marks.RUN: "g1-a0"}
    service = made[resources.SERVICE]["spec"]
    assert service == {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": members}
    assert made[resources.BUDGET]["spec"] == {"minAvailable": 2, "selector": {"matchLabels": members}}
    policy = made[resources.POLICY]["spec"]
    assert policy["ingress"] == [{"from": [{"podSelector": {"matchLabels": members}}]}]
    assert policy["podSelector"] == {"matchLabels": members}
    owned = run_objects.with_root(resources.SERVICE, made[resources.SERVICE], first, "uid")["metadata"][
        "ownerReferences"
    ]
    assert owned == [{"apiVersion": "v1", "kind": "ConfigMap", "name": first.gang, "uid": "uid", "controller": True}]


def test_a_root_names_what_belongs_to_it() -> None:
    worker, *_ = gang(workload_pb2.FRAMEWORK_MPI, master="launcher", command="./s")
    made = roots.manifest(OWNER, worker)
    names = [(resource, manifest["metadata"]["name"]) for resource, manifest in objects(worker).items()]
    said = {**made["metadata"]["annotations"], **roots.naming(names)["metadata"]["annotations"]}
    root = roots.root_of({**made, "metadata": {**made["metadata"], "uid": "u", "annotations": said}}, OWNER)
    assert root.objects == (*names,)
    assert resources.names_in("services/a,unknown/b,") == ((resources.SERVICE, "a"),)


def test_credentials_stand_in_a_secret_and_never_in_a_pod() -> None:
    environment = [workload_pb2.EnvironmentVariable(label="KEY", value=f"{SEALED}x:1")]
    first, _ = gang(workload_pb2.FRAMEWORK_PYTORCH, command="run --key '${KEY}' ${KEY}", environment=environment)
    plan = opened(first, {f"{SEALED}x:1": "hunter2"})
    assert plan is not None
    pod = manifests.pod(OWNER, plan, Style(), "uid")
    assert "hunter2" not in json.dumps(pod)
    assert SEALED not in json.dumps(pod)
    assert "hunter2" not in repr(plan)
    name = f"{plan.gang}-cred-worker"
    assert env_of(plan)["KEY"] == {"secretKeyRef": {"name": name, "key": "KEY"}}
    assert main_of(plan)["args"] == ["--key", "${KEY}", "$(KEY)"]
    secret = objects(plan)[resources.SECRET]
    assert (secret["metadata"]["name"], base64.b64decode(secret["data"]["KEY"])) == (name, b"hunter2")


def test_a_credential_without_a_value_starts_nothing() -> None:
    environment = [workload_pb2.EnvironmentVariable(label="KEY", value=f"{SEALED}x:1")]
    first, _ = gang(workload_pb2.FRAMEWORK_PYTORCH, command="run", environment=environment)
    assert opened(first, {}) is None


def test_credentials_of_a_launcher_reach_its_workers_by_name_alone() -> None:
    environment = [
        workload_pb2.EnvironmentVariable(label="TOKEN", value=f"{SEALED}x:1"),
        workload_pb2.EnvironmentVariable(label="KEY", value="SECRET:store,key"),
    ]
    *_, launcher = gang(
        workload_pb2.FRAMEWORK_COLOSSALAI,
        master="launcher",
        command="torchrun t.py ${TOKEN} ${KEY} 'a b'",
        environment=environment,
    )
    plan = opened(launcher, {f"{SEALED}x:1": "hunter2"})
    assert plan is not None
    text = objects(plan)[resources.CONFIG_MAP]["data"]["calls.json"]
    assert "hunter2" not in text
    asked = json.loads(text)
    assert asked["forward"] == ["TOKEN", "KEY"]
    assert asked["calls"][0]["command"] == """exec python3 /muster/trun.py t.py "${TOKEN}" "${KEY}" 'a b'"""


def test_a_card_is_not_chosen_by_a_variable_of_a_secret() -> None:
    environment = [workload_pb2.EnvironmentVariable(label="NVIDIA_VISIBLE_DEVICES", value="SECRET:mine,all")]
    first, _ = gang(workload_pb2.FRAMEWORK_PYTORCH, command="run", environment=environment)
    assert "NVIDIA_VISIBLE_DEVICES" not in env_of(first)


def test_ports_of_any_role_stay_open_and_lead_to_those_that_have_them() -> None:
    ports = [workload_pb2.Port(label="p", container=6006)]
    first, _ = gang(workload_pb2.FRAMEWORK_PYTORCH, command="torchrun t.py", ports=ports)
    ingress = objects(first)[resources.POLICY]["spec"]["ingress"]
    assert ingress[1] == {"ports": [{"port": 6006}]}
    assert main_of(first)["ports"] == [{"containerPort": 6006, "name": "p-6006"}]

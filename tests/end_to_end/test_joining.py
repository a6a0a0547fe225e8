"""A Kubernetes cluster joins a running stack, works, and leaves without a trace: the commands as the guide has them.

The API server is a real one. The agent is a process on this machine, with the token of the account that was joined, the
rights that were printed and the credentials of the printed Secret; the test plays the cluster's scheduler and kubelets.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.support.kubernetes import MISSING, Cluster, built, cluster
from tests.support.kubernetes_agents import NODE, Player
from tests.support.processes import free_port
from tests.support.shells import Shell
from tests.support.stacks import RunningStack, running_stack
from tests.support.waiting import eventually_now

pytestmark = pytest.mark.skipif(not built(), reason=MISSING)

NAME: Final = "lab"
MERGE: Final = {"Content-Type": "application/merge-patch+json"}
OURS: Final = f"muster.io/cluster={NAME}"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    folder = tmp_path_factory.mktemp("stack")
    for parent in (folder, folder.parent, folder.parent.parent):
        parent.chmod(0o711)  # root's PostgreSQL runs as another user, who must get through
    with running_stack(folder / "data", {"north": "cluster: north\nnodes: [{name: n}]\n"}) as running:
        yield running


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("kubernetes"), rbac=True) as found:
        asyncio.run(Player(found.http).add_node())
        yield found


def documents(text: str) -> list[Any]:
    return list(yaml.safe_load_all(text))


@contextmanager
def agent(kubernetes: Cluster, applied: list[Any], shell: Shell, folder: Path) -> Iterator[Path]:
    """The agent of the joined cluster, from what was applied and nothing else; its log."""
    by_kind = {one["kind"]: one for one in applied}
    account, secret = by_kind["ServiceAccount"]["metadata"], by_kind["Secret"]["metadata"]
    path = f"/api/v1/namespaces/{secret['namespace']}/secrets/{secret['name']}"
    for name, value in kubernetes.http.get(path).json()["data"].items():
        file = folder / name
        file.touch(mode=0o600)
        file.write_bytes(base64.b64decode(value))
    for name, text in by_kind["ConfigMap"]["data"].items():
        (folder / name).write_text(text)
    settings = folder / "cluster.yaml"
    settings.write_text(f"{settings.read_text()}kubeconfig: kubeconfig\n")
    token = kubernetes.token(account["namespace"], account["name"])
    (folder / "kubeconfig").write_text(yaml.safe_dump(kubeconfig(kubernetes.url, token)))
    services = shell.stack.stack.status()["services"]
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")},
        "MUSTER_INSTANCE": f"agent-{NAME}",
        "MUSTER_CLUSTER_FILE": str(settings),
        "MUSTER_TRUST_FILE": str(folder / "trust.json"),
        "MUSTER_APPLICATION_FILE": str(folder / "application.json"),
        "MUSTER_SUBMISSION_ADDRESS": services["submission"]["grpc"],
        "MUSTER_KAFKA_BOOTSTRAP": services["kafka"]["bootstrap"],
        "MUSTER_KAFKA_SECURITY": "sasl_plaintext",
        "MUSTER_KAFKA_USER": f"agent-{NAME}",
        "MUSTER_KAFKA_PASSWORD_FILE": str(folder / "kafka-password"),
        "MUSTER_METRICS_LISTEN": f"127.0.0.1:{free_port()}",
    }
    log = folder / "agent.log"
    with (
        log.open("wb") as out,
        subprocess.Popen([sys.executable, "-m", "muster_cluster_agent"], env=env, stdout=out, stderr=out) as process,
    ):
        try:
            yield log
        finally:
            process.terminate()


def kubeconfig(url: str, token: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": url, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "u", "user": {"token": token}}],
    }


def delete(kubernetes: Cluster, objects: list[Any]) -> None:
    """`kubectl delete -f -`, with the part of the controllers that end namespaces."""
    for one in objects:
        path = f"{kubernetes.collection(one)}/{one['metadata']['name']}"
        kubernetes.http.delete(path).raise_for_status()
        if one["kind"] == "Namespace":
            for left in kubernetes.labelled(""):
                kind, inside, _ = left.split("/", 2)
                assert inside != one["metadata"]["name"] or kind in {"serviceaccounts", "configmaps", "events"}, left
            finalized = {**kubernetes.http.get(path).json(), "spec": {"finalizers": []}}
            kubernetes.http.put(f"{path}/finalize", json=finalized).raise_for_status()


def pods(kubernetes: Cluster) -> list[Any]:
    answer = kubernetes.http.get("/api/v1/pods", params={"labelSelector": OURS})
    return list(answer.json()["items"])


def state(shell: Shell) -> list[str]:
    return [one["state"] for one in shell.json("clusters", "list") if one["id"] == NAME]


def path_of(pod: Any) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def test_a_cluster_joins_works_and_leaves(kubernetes: Cluster, stack: RunningStack, tmp_path: Path) -> None:
    shell = Shell(stack, tmp_path)
    before = kubernetes.labelled("")
    printed = documents(shell("clusters", "join", NAME))
    kubernetes.apply(printed)
    again = documents(shell("clusters", "join", NAME))
    assert [one["kind"] for one in printed if one not in again] == ["Secret"]
    shell("projects", "create", "team-a", "--quota", "4")
    player = Player(kubernetes.http)
    with agent(kubernetes, printed, shell, tmp_path) as log:
        try:
            eventually_now(lambda: state(shell), lambda found: found == ["Ready"])
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{log.read_text()[-3000:]}") from None
        found = json.loads(shell("clusters", "check", NAME, "--json"))
        assert [one for one in found["findings"] if one["level"] == "error"] == []
        shell("submit", "-p", "team-a", "-f", shell.document("bert", "python train.py", "gpu: {value: 1}"))
        (pod,) = eventually_now(lambda: pods(kubernetes))
        assert pod["metadata"]["namespace"] == "runai-team-a"
        asyncio.run(player.bind(path_of(pod)))
        asyncio.run(player.run(path_of(pod)))
        eventually_now(lambda: shell.json("get", "bert", "-p", "team-a"), lambda one: one["phase"] == "Running")
        told = shell("clusters", "leave", NAME, code=1)
        assert "cluster lab cannot leave the fleet: 1 replica is not GONE: drain the cluster first" in told
        shell("clusters", "drain", NAME)
        draining = eventually_now(lambda: pods(kubernetes), lambda found: "deletionTimestamp" in found[0]["metadata"])
        asyncio.run(player.end(path_of(draining[0]), 143))
        eventually_now(lambda: pods(kubernetes), lambda found: not found)
        left = eventually_now(lambda: shell.run("clusters", "leave", NAME), lambda ran: ran.returncode == 0)
    rest = documents(left.stdout)
    delete(kubernetes, rest)
    assert NAME not in [c["id"] for c in shell.json("clusters", "list")]
    new = kubernetes.labelled("") - before
    # The API server keeps events of others, and makes some objects of its own in its own time.
    own = ("events/", "leases/kube-system/", "configmaps/kube-system/", "endpointslices/default/")
    assert {one for one in new if not one.startswith(own)} == set()
    assert not (stack.layout.bus_identities / f"agent-{NAME}").exists()
    assert f"agent-{NAME}" not in [one["name"] for one in shell.json("applications", "list")]
    told = shell("clusters", "check", NAME, code=4)
    assert "the agent of cluster lab is not connected" in told
    assert NODE in {one.rpartition("/")[2] for one in before}
    shell("delete", "bert", "-p", "team-a")


def node_told(shell: Shell) -> Any:
    (found,) = [one for one in shell.json("nodes", "list") if one["cluster"] == NAME]
    return found


def test_the_layout_of_a_node_is_changed_once_it_is_empty(
    kubernetes: Cluster, stack: RunningStack, tmp_path: Path
) -> None:
    """The test plays the mig-manager: it follows one label of the node, and answers in another."""
    shell, player = Shell(stack, tmp_path), Player(kubernetes.http)
    path, config = f"/api/v1/nodes/{NODE}", "nvidia.com/mig.config"

    def change(below: str, content: Any) -> None:
        kubernetes.http.patch(f"{path}{below}", json=content, headers=MERGE).raise_for_status()

    def asked() -> str:
        return str(kubernetes.http.get(path).json()["metadata"]["labels"].get(config, ""))

    settings = tmp_path / "more.yaml"
    settings.write_text("mig_manager: true\n")
    printed = documents(shell("clusters", "join", NAME, "--cluster-file", str(settings)))
    kubernetes.apply(printed)
    shell("projects", "create", "team-b", "--quota", "4")
    with agent(kubernetes, printed, shell, tmp_path):
        eventually_now(lambda: state(shell), lambda found: found == ["Ready"])
        assert "has no MIG" in shell("nodes", "set-layout", NAME, NODE, "all-1g.10gb", code=1)
        assert "has no node" in shell("nodes", "set-layout", NAME, "nowhere", "all-1g.10gb", code=3)
        assert "no layout that an operator sets" in shell("nodes", "set-layout", "north", "n", "all-1g.10gb", code=1)
        change("", {"metadata": {"labels": {"nvidia.com/mig.capable": "true"}}})
        shell("submit", "-p", "team-b", "-f", shell.document("gpt", "python train.py", "gpu: {value: 1}"))
        (pod,) = eventually_now(lambda: pods(kubernetes))
        asyncio.run(player.bind(path_of(pod)))
        asyncio.run(player.run(path_of(pod)))
        eventually_now(lambda: shell.json("get", "gpt", "-p", "team-b"), lambda one: one["phase"] == "Running")
        ordered = eventually_now(
            lambda: shell.run("nodes", "set-layout", NAME, NODE, "all-1g.10gb"), lambda ran: ran.returncode == 0
        )
        assert "waits until nothing of Muster is left on the node" in ordered.stdout
        assert "is being changed to all-1g.10gb already" in shell("nodes", "set-layout", NAME, NODE, "other", code=1)
        assert asked() == ""
        asyncio.run(player.end(path_of(pod), 0))
        eventually_now(asked, lambda label: label == "all-1g.10gb")
        assert node_told(shell)["layout"]["applying"]
        sliced = {"nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": "14"}
        change("/status", {"status": {"allocatable": sliced, "capacity": sliced}})
        change("", {"metadata": {"labels": {f"{config}.state": "success"}}})
        told = eventually_now(lambda: node_told(shell), lambda one: "layout" not in one)
        assert {device["mode"] for device in told["devices"]} == {"mig"}
        shell("nodes", "set-layout", NAME, NODE, "no-such")
        eventually_now(asked, lambda label: label == "no-such")
        change("", {"metadata": {"labels": {f"{config}.state": "failed"}}})
        told = eventually_now(lambda: node_told(shell), lambda one: "layout" not in one)
        assert "its log on the node says why" in told["layoutFailure"]

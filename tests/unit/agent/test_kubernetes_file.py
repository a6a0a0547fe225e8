"""The cluster file of the Kubernetes back end: every error at once, and which back end a file names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from muster_cluster_agent.adapters.file_reader import backend_named
from muster_cluster_agent.adapters.kubernetes.cluster_file import parse
from muster_cluster_agent.adapters.kubernetes.support import KUBERNETES, support_of
from muster_cluster_agent.domain.kubernetes.device_slices import DeviceNames
from muster_cluster_agent.domain.kubernetes.device_sources import DeviceSource
from muster_cluster_agent.domain.kubernetes.kai import KaiSettings
from muster_cluster_agent.errors import ClusterFileError
from muster_kernel.reasons import RefusalCode
from muster_language import Kind, catalogue

WHERE = Path("/etc/muster/cluster.yaml")


def test_a_file_that_says_little_means_the_usual() -> None:
    file = parse("cluster: north\nbackend: kubernetes\n", where=WHERE)
    assert (file.cluster, file.kubeconfig, file.namespace, file.managed) == ("north", None, "muster", True)
    assert (file.style.resource, file.counting.resource, file.counting.gone_after) == ("nvidia.com/gpu",) * 2 + (900.0,)
    assert (file.rate, file.burst) == (200.0, 400.0)


def test_a_file_that_says_everything() -> None:
    text = """
cluster: north
backend: kubernetes
kubeconfig: admin.conf
context: lab
namespace: gpu-system
namespaces: listed
scheduler: kai-scheduler
priority_class: muster
runtime_class: nvidia
devices: {resource: amd.com/gpu}
tolerate: [{key: gpu, operator: Exists, effect: NoSchedule}]
pull_secrets: [registry]
node_gone_after: never
rate: {calls: 50, burst: 100}
drain_taints: {ToBeDeletedByClusterAutoscaler: 600, spot: 120}
service_accounts: {vision: trainer, audio: reader}
"""
    file = parse(text, where=WHERE)
    assert (file.kubeconfig, file.context, file.managed) == (Path("/etc/muster/admin.conf"), "lab", False)
    assert file.style.tolerate == ({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"},)
    assert (file.counting.resource, file.counting.tolerated, file.counting.gone_after) == ("amd.com/gpu", {"gpu"}, None)
    assert (file.style.scheduler, file.style.pull_secrets, file.rate) == ("kai-scheduler", ("registry",), 50.0)
    assert file.style.service_accounts == (("audio", "reader"), ("vision", "trainer"))
    assert file.counting.drains == (("ToBeDeletedByClusterAutoscaler", 600.0), ("spot", 120.0))


def test_a_level_of_security_is_for_namespaces_that_the_agent_makes() -> None:
    text = "cluster: north\nbackend: kubernetes\npod_security: {level}\nnamespaces: {mode}\n"
    assert parse(text.format(level="baseline", mode="managed"), where=WHERE).pod_security == "baseline"
    with pytest.raises(ClusterFileError, match="label the namespaces yourself"):
        parse(text.format(level="baseline", mode="listed"), where=WHERE)
    with pytest.raises(ClusterFileError, match="'strict' is not one of privileged, baseline, restricted"):
        parse(text.format(level="strict", mode="managed"), where=WHERE)


def test_an_image_for_notebooks_lets_jupyter_in() -> None:
    without = parse("cluster: north\nbackend: kubernetes\n", where=WHERE)
    assert "jupyter" in support_of(without.allowed, without.style).refused_words
    text = "cluster: north\nbackend: kubernetes\nimages: {notebook: team/notebook:7}\n"
    found = parse(text, where=WHERE)
    support = support_of(found.allowed, found.style)
    assert "jupyter" not in support.refused_words
    assert support.notebook == "team/notebook:7"


def test_what_a_cluster_gives_is_honoured_there() -> None:
    bare = parse("cluster: north\nbackend: kubernetes\n", where=WHERE)
    needing = {"exposedUrls", "gitSync", "tensorboard", "tensorboardLogdir"}
    assert needing <= {*support_of(bare.allowed, bare.style).refused_words}
    assert "isPrivateServiceUrl" in support_of(bare.allowed, bare.style).ignored_words
    text = (
        "images: {git: g, tensorboard: t}\nurls: {domain: lab.example, annotations: {auth: 'https://a/?u={users}'}}\n"
    )
    found = parse(f"cluster: north\nbackend: kubernetes\n{text}", where=WHERE)
    support = support_of(found.allowed, found.style)
    assert needing.isdisjoint(support.refused_words)
    assert "isPrivateServiceUrl" not in support.ignored_words
    assert "exposedUrls=authorizedUsers" not in support.refused_words
    assert "exposedUrls=authorizedGroups" in support.refused_words, "no annotation tells the gateway of groups"


@pytest.mark.parametrize(
    ("urls", "words"),
    [
        ("{class: nginx}", "urls.domain: the domain below which addresses are made is required"),
        ("{domain: Lab_1}", "urls.domain: expected a domain such as lab.example.org, not 'Lab_1'"),
        ("{domain: a.b, tls: maybe}", "urls.tls: expected true or false"),
        ("{domain: a.b, tsl: true}", "urls.tsl: not known here"),
    ],
)
def test_addresses_outside_need_a_domain(urls: str, words: str) -> None:
    with pytest.raises(ClusterFileError, match=re.escape(words)):
        parse(f"cluster: north\nbackend: kubernetes\nurls: {urls}\n", where=WHERE)


def test_pods_are_bound_directly_where_the_file_says_so() -> None:
    assert not parse("cluster: north\nbackend: kubernetes\n", where=WHERE).style.direct
    assert parse("cluster: north\nbackend: kubernetes\nbinder: direct\n", where=WHERE).style.direct
    with pytest.raises(ClusterFileError, match="no scheduler looks at a pod with `binder: direct`"):
        parse("cluster: north\nbackend: kubernetes\nbinder: direct\nscheduler: kai\n", where=WHERE)
    with pytest.raises(ClusterFileError, match="'by hand' is not one of pinned, direct"):
        parse("cluster: north\nbackend: kubernetes\nbinder: by hand\n", where=WHERE)


def test_every_error_is_said_with_its_place() -> None:
    text = "backend: kubernetes\nnodes: []\ncontext: x\nnamespaces: all\nrate: {calls: 0}\ntolerate: [{operator: In}]\n"
    with pytest.raises(ClusterFileError) as caught:
        parse(text, where=WHERE)
    said = str(caught.value)
    for words in (
        "file.nodes: not known here",
        "file.cluster: the cluster's id is required",
        "file.context: it is a context of a kubeconfig",
        "file.namespaces: 'all' is not one of managed, listed",
        "rate.calls: expected more than 0",
        "tolerate[0].operator: 'In' is not one of Equal, Exists",
    ):
        assert f"{WHERE}: {words}" in said


def test_the_guides_file_is_one() -> None:
    page = (Path(__file__).parents[3] / "docs/guides/kubernetes-clusters.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    file = parse(text, where=WHERE)
    assert (file.cluster, file.kubeconfig, file.context) == ("lab", Path("/etc/muster/lab.kubeconfig"), "lab-admin")
    for code in RefusalCode:
        assert f"`{code}`" in page


@pytest.mark.parametrize(
    ("text", "backend"),
    [
        ("backend: kubernetes", "kubernetes"),
        ("backend: local", "local"),
        ("cluster: x", "local"),
        ("backend: [", "local"),
        ("- 1", "local"),
    ],
)
def test_a_file_names_its_back_end(tmp_path: Path, text: str, backend: str) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(text)
    assert backend_named(file) == backend
    assert backend_named(tmp_path / "none") == "local"


def test_no_field_with_a_default_is_refused() -> None:
    single = {Kind.WORKSPACE, Kind.TRAINING}
    set_by_default = {row.name for row in catalogue().rows if row.default and single & row.kinds}
    assert "slots_per_worker" in set_by_default
    assert set_by_default.isdisjoint(KUBERNETES.refused)


def test_what_needs_more_than_a_container_is_refused_before_placement() -> None:
    refused = set(KUBERNETES.refused_words)
    assert {"exposedUrls", "gitSync", "gpuMemory", "hostIpc", "hostNetwork", "volumes"} <= refused
    assert {"image", "command", "gpu", "runAsUid", "jobType", "masterSpec", "pvcs", "ports"}.isdisjoint(
        refused | set(KUBERNETES.ignored_words)
    )


def test_a_cluster_allows_what_reaches_into_its_nodes() -> None:
    found = parse("cluster: c\nbackend: kubernetes\nallow: [hostPath]\n", where=WHERE)
    assert {"volumes", "mountPropagation"}.isdisjoint(support_of(found.allowed, found.style).refused_words)
    assert "hostIpc" in support_of(found.allowed, found.style).refused_words
    with pytest.raises(ClusterFileError, match="expected words of hostPath, hostIpc, hostNetwork, not rootkit"):
        parse("cluster: c\nbackend: kubernetes\nallow: [hostPath, rootkit]\n", where=WHERE)


def test_drivers_of_devices_have_names_of_their_own() -> None:
    usual = parse("cluster: north\nbackend: kubernetes\n", where=WHERE)
    assert (usual.device_source, usual.device_names) == (DeviceSource.AUTO, DeviceNames())
    text = "devices: {source: slices, driver: gpu.example.com, model: model, memory: memory, whole: [gpu, card]}\n"
    found = parse(f"cluster: north\nbackend: kubernetes\n{text}", where=WHERE)
    assert found.device_source is DeviceSource.SLICES
    assert found.device_names == DeviceNames("gpu.example.com", "gpu.example.com", model="model", whole=("gpu", "card"))


def test_device_claims_need_a_scheduler() -> None:
    direct = "cluster: north\nbackend: kubernetes\nbinder: direct\n"
    assert parse(direct, where=WHERE).device_source is DeviceSource.COUNTED
    with pytest.raises(ClusterFileError, match="device claims are allocated by a scheduler; `binder: direct` has none"):
        parse(f"{direct}devices: {{source: slices}}\n", where=WHERE)


def test_kai_needs_a_queue_and_a_scheduler() -> None:
    usual = "cluster: north\nbackend: kubernetes\n"
    assert parse(usual, where=WHERE).style.kai is None
    found = parse(f"{usual}devices: {{source: kai, queue: muster}}\n", where=WHERE)
    assert (found.device_source, found.style.kai) == (DeviceSource.KAI, KaiSettings("muster", "kai-scheduler"))
    for text, error in (
        ("devices: {source: kai}", "devices.queue: KAI-Scheduler schedules the pods of its queues"),
        ("binder: direct\ndevices: {source: kai, queue: muster}", "KAI-Scheduler gives the devices"),
    ):
        with pytest.raises(ClusterFileError, match=error):
            parse(f"{usual}{text}\n", where=WHERE)


def test_hami_has_a_scheduler_of_its_own() -> None:
    usual = "cluster: north\nbackend: kubernetes\n"
    assert parse(usual, where=WHERE).style.hami_scheduler == "hami-scheduler"
    found = parse(f'{usual}devices: {{source: hami, hami_scheduler: ""}}\n', where=WHERE)
    assert (found.device_source, found.style.hami_scheduler) == (DeviceSource.HAMI, "")
    with pytest.raises(ClusterFileError, match="HAMi's scheduler gives its devices"):
        parse(f"{usual}binder: direct\ndevices: {{source: hami}}\n", where=WHERE)

"""The cluster file: what it may hold, and that every error is named at once."""

from __future__ import annotations

import time

import pytest

from muster_cluster_agent.adapters.local.cluster_file import derived_uuid, parse
from muster_cluster_agent.domain.fleet import Foreign, Identity, Mig, NodeState, SlotGroup, Taint
from muster_cluster_agent.domain.model import Slice
from muster_cluster_agent.errors import ClusterFileError

FULL = """
cluster: local-a
pool_label: pool
node_gone_after: 60
dead_man: 840
log_budget: 1Mi
profile: {identity: ANONYMOUS, portions: false, mig: STATIC}
nodes:
  - name: a-0
    labels: {pool: h100, zone: z1}
    taints: [{key: k, value: v, effect: NoExecute}]
    cpu: 500m
    memory: 1Gi
    resources: {vendor.example/nic: 2, ephemeral-storage: 100Gi}
    state: DRAINING
    drain_deadline: 2027-01-01T00:00:00Z
    maintenance: [{from: 2027-01-02T00:00:00Z, to: 2027-01-02T06:00:00Z}]
    devices:
      - {uuid: GPU-x, model: A100-40GB, memory: 40Gi, healthy: false, trouble: Xid 79}
      - {model: A100-40GB, memory: 40Gi, mig: {slices: [{profile: 1g.5gb, start: 2, uuid: MIG-1}]}}
  - {name: a-1, devices: {count: 2, model: H100-80GB, memory: 80Gi}}
  - {name: a-2, anonymous: {count: 4, model: A30-24GB, memory: 24Gi}}
foreign:
  - {node: a-0, cpu: 2, memory: 1Gi, devices: [GPU-x], resources: {vendor.example/nic: 1}}
  - {node: a-2, anonymous: 1}
"""


def test_everything_that_a_file_may_say() -> None:
    file = parse(FULL, where="c.yaml")
    first, second, third = file.nodes
    assert (file.cluster, file.node_gone_after, file.dead_man, file.log_budget) == ("local-a", 60, 840, 1 << 20)
    assert (file.profile.identity, file.profile.mig, file.profile.portions) == (Identity.ANONYMOUS, Mig.STATIC, False)
    assert (first.pool, second.pool) == ("h100", "default")
    assert (first.cpu_milli, first.memory_bytes, first.state) == (500, 1 << 30, NodeState.DRAINING)
    assert first.drain_deadline == 1_798_761_600
    assert first.maintenance == ((1_798_848_000, 1_798_869_600),)
    assert first.taints == (Taint("k", "v", "NoExecute"),)
    assert first.foreign == Foreign(2000, 1 << 30, ("GPU-x",), extended=(("vendor.example/nic", 1),))
    assert first.extended == (("ephemeral-storage", 100 << 30), ("vendor.example/nic", 2))
    assert (first.devices[0].healthy, first.devices[0].trouble) == (False, "Xid 79")
    assert first.devices[1].mig_enabled
    assert first.devices[1].slices == (Slice("1g.5gb", 2, "MIG-1"),)
    assert second.devices[1].uuid == derived_uuid("local-a/a-1/1")
    assert third.slots == (SlotGroup("", 4, model="A30-24GB", memory_bytes=24 << 30),)
    assert third.foreign.slots == (("", 1),)


def test_the_least_that_a_file_has_to_say() -> None:
    file = parse("cluster: c\nnodes: [{name: n}]", where="c.yaml")
    assert (file.dead_man, file.nvml, file.nodes[0].devices, file.nodes[0].state) == (
        None,
        False,
        (),
        NodeState.READY,
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nodes: [", "not valid YAML"),
        ("[]", "expected names with values"),
        ("cluster: c", "at least one node"),
        ("nodes: [{name: n}]", "the cluster's id is required"),
        ("cluster: c\nnodes: [{}]", "a node needs a name"),
        ("cluster: c\nnodes: [{name: n}, {name: n}]", "'n' stands twice"),
        ("cluster: c\nnodes: [{name: n, devices: [{uuid: x}, {uuid: x}]}]", "'x' stands twice"),
        ("cluster: c\nnodes: [{name: n, cpu: lots}]", "nodes[0].cpu"),
        ("cluster: c\nnodes: [{name: n, state: BROKEN}]", "not one of READY"),
        ("cluster: c\nnodes: [{name: n, colour: red}]", "nodes[0].colour: not known here"),
        ("cluster: c\nnodes: nonsense", "expected a list"),
        ("cluster: c\ndead_man: 0.5\nnodes: [{name: n}]", "file.dead_man: 0.5 s; at least 1.0 s"),
        ("cluster: c\nforeign: [{node: x}]\nnodes: [{name: n}]", "there is no node 'x'"),
        ("cluster: c\nnodes: [{name: n, devices: {count: -1}}]", "a whole number from 0 to"),
        ("cluster: c\nnodes: [{name: n, devices: {count: 99999}}]", "99999 devices on one node; at most 1024"),
        ("cluster: c\nnodes: [{name: n, labels: {zone: [a]}}]", "nodes[0].labels: expected a text"),
        ("cluster: c\nnodes: [{name: n, labels: here}]", "nodes[0].labels: expected names with values"),
        ("cluster: c\nforeign: [{node: n, devices: x}]\nnodes: [{name: n}]", "foreign[0].devices: expected a list"),
        ("cluster: c\nnodes: [{name: n, drain_deadline: 2027-13-45}]", "not valid YAML"),
        ("cluster: c\nprofile: {mig: ON_DEMAND}\nnodes: [{name: n}]", "not one of NONE, STATIC, DYNAMIC"),
        ("cluster: c\nprofile: {identity: 7}\nnodes: [{name: n}]", "'7' is not one of UUID, ANONYMOUS"),
        ("cluster: c\nprofile: {portions: maybe}\nnodes: [{name: n}]", "expected true or false"),
        ("cluster: [c]\nnodes: [{name: n}]", "expected a text"),
    ],
)
def test_what_is_wrong_is_named(text: str, said: str) -> None:
    with pytest.raises(ClusterFileError) as raised:
        parse(text, where="c.yaml")
    assert said in str(raised.value)
    assert "c.yaml" in str(raised.value)


def test_a_fleet_of_many_devices_is_read_in_time_that_grows_with_it() -> None:
    """Looking each UUID up among all the others took minutes, in which the agent said nothing to anybody."""
    nodes = ", ".join(f"{{name: n{at}, devices: {{count: 1000}}}}" for at in range(60))
    started = time.process_time()
    assert sum(len(node.devices) for node in parse(f"cluster: c\nnodes: [{nodes}]", where="c.yaml").nodes) == 60_000
    assert time.process_time() - started < 10


def test_all_errors_are_named_at_once() -> None:
    with pytest.raises(ClusterFileError) as raised:
        parse("nodes: [{name: n, cpu: x, memory: y}]\nwhat: 1", where="c.yaml")
    assert len(str(raised.value).splitlines()) == 4

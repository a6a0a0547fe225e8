"""Merging layers: the worked example of the language, presence, exclusive groups, tombstones, objects, provenance."""

from __future__ import annotations

from muster_language import Kind, Layer, LayerName, WorkloadSpec, language_layer, merge, overlay, read

HEAD = "apiVersion: run.ai/v2alpha1\nkind: {kind}\nspec:\n"


def layer(name: LayerName, body: str, kind: str = "TrainingWorkload") -> Layer:
    document = read(HEAD.format(kind=kind) + body)[0]
    assert document.violations == []
    return Layer(name, document.spec)


def test_items_merge_by_label_as_the_language_says() -> None:
    merged = merge(
        [
            layer(
                LayerName.TENANT,
                "  ports: {items: {a: {value: {container: 8080, external: 30100}},"
                " b: {value: {container: 8081, external: 30101}}}}\n",
            ),
            layer(
                LayerName.TEMPLATE,
                "  ports: {items: {a: {value: {container: 8100, external: 30100}},"
                " team: {value: {container: 8111, external: 30111}}}}\n",
            ),
            layer(
                LayerName.WORKLOAD,
                "  ports: {items: {b: {deleted: true}, mine: {value: {container: 8222, external: 30222}}}}\n",
            ),
        ]
    )
    assert [(port.label, port.external, port.container) for port in merged.spec.ports] == [
        ("a", 30100, 8100),
        ("team", 30111, 8111),
        ("mine", 30222, 8222),
    ]
    assert merged.provenance == {
        "ports.a": LayerName.TEMPLATE,
        "ports.team": LayerName.TEMPLATE,
        "ports.mine": LayerName.WORKLOAD,
    }
    assert [(each.path, each.layer, each.by) for each in merged.cleared] == [
        ("ports.b", LayerName.TENANT, LayerName.WORKLOAD)
    ]


def test_an_item_is_replaced_whole() -> None:
    merged = merge(
        [
            layer(LayerName.TENANT, "  ports: {items: {a: {value: {container: 1, external: 2}}}}\n"),
            layer(LayerName.WORKLOAD, "  ports: {items: {a: {value: {container: 3}}}}\n"),
        ]
    )
    assert not merged.spec.ports[0].HasField("external")


def test_a_later_layer_brings_an_item_back_at_its_first_place() -> None:
    merged = merge(
        [
            layer(LayerName.TENANT, "  environment: {items: {A: {value: '1'}, B: {value: '2'}}}\n"),
            layer(LayerName.TEMPLATE, "  environment: {items: {A: {deleted: true}}}\n"),
            layer(LayerName.WORKLOAD, "  environment: {items: {A: {value: '3', deleted: false}}}\n"),
        ]
    )
    assert [(item.label, item.value, item.HasField("deleted")) for item in merged.spec.environment] == [
        ("A", "3", False),
        ("B", "2", False),
    ]


def test_unset_default_and_zero_are_three_things() -> None:
    zero = merge(
        [language_layer(Kind.TRAINING), layer(LayerName.WORKLOAD, "  backoffLimit: {value: 0}\n")],
    )
    unset = merge([language_layer(Kind.TRAINING), layer(LayerName.WORKLOAD, "  image: {value: x}\n")])
    said = merge([language_layer(Kind.TRAINING), layer(LayerName.WORKLOAD, "  backoffLimit: {value: 6}\n")])
    assert (zero.spec.backoff_limit, unset.spec.backoff_limit, said.spec.backoff_limit) == (0, 6, 6)
    assert unset.provenance["backoffLimit"] == LayerName.LANGUAGE
    assert said.provenance["backoffLimit"] == LayerName.WORKLOAD
    assert not unset.spec.HasField("preemptible")


def test_an_exclusive_member_clears_the_group_below() -> None:
    half = layer(LayerName.TEMPLATE, "  gpu: {value: 0.5}\n")
    for body, devices in (("  gpu: {value: 2}\n", 2), ("  gpu: {value: 0}\n", 0)):
        merged = merge([half, layer(LayerName.WORKLOAD, body)])
        assert not merged.spec.HasField("gpu_portion_request")
        assert merged.spec.gpu_devices_request == devices
        assert [each.path for each in merged.cleared] == ["compute.gpuPortionRequest"]
    memory = merge([half, layer(LayerName.WORKLOAD, "  gpuMemory: {value: 4G}\n")])
    assert not memory.spec.HasField("gpu_portion_request")
    two = layer(LayerName.TEMPLATE, "  gpu: {value: 2}\n")
    portion = merge([two, layer(LayerName.WORKLOAD, "  gpu: {value: 0.5}\n")])
    assert not portion.spec.HasField("gpu_devices_request")
    kept = merge([two, layer(LayerName.WORKLOAD, "  gpu: {value: 4}\n")])
    assert (kept.spec.gpu_devices_request, kept.cleared) == (4, [])


def test_what_is_a_workload_s_own_is_not_inherited() -> None:
    template = layer(
        LayerName.TEMPLATE,
        "  name: {value: base}\n  usage: Template\n  active: {value: false}\n  image: {value: x}\n",
    )
    merged = merge([language_layer(Kind.TRAINING), template, layer(LayerName.WORKLOAD, "  name: {value: own}\n")])
    assert (merged.spec.name, merged.spec.active, merged.spec.image) == ("own", True, "x")
    assert merged.spec.usage == 1


def test_objects_and_the_master_merge_member_by_member() -> None:
    low = layer(LayerName.TEMPLATE, "  readinessProbe: {value: {path: /a, port: 1}}\n", "InferenceWorkload")
    high = layer(LayerName.WORKLOAD, "  readinessProbe: {value: {port: 2}}\n", "InferenceWorkload")
    merged = merge([low, high])
    assert (merged.spec.readiness_probe.path, merged.spec.readiness_probe.port) == ("/a", 2)
    assert merged.provenance["probes.readiness.handler.httpGet.path"] == LayerName.TEMPLATE
    master = WorkloadSpec()
    master.master_spec.gpu_devices_request = 2
    own = WorkloadSpec()
    own.master_spec.gpu_portion_request = 0.5
    own.master_spec.environment.add(label="A", value="1")
    both = merge([Layer(LayerName.TEMPLATE, master), Layer(LayerName.WORKLOAD, own)])
    assert both.spec.master_spec.gpu_portion_request == 0.5
    assert not both.spec.master_spec.HasField("gpu_devices_request")
    assert both.provenance["masterSpec.environmentVariables.A"] == LayerName.WORKLOAD
    assert both.cleared[0].path == "masterSpec.compute.gpuDevicesRequest"


def test_the_fast_form_gives_the_same_spec_and_changes_nothing() -> None:
    low = layer(LayerName.WORKLOAD, "  gpu: {value: 0.5}\n  nodePools: {value: [a, b]}\n").spec
    high = layer(LayerName.WORKLOAD, "  gpu: {value: 2}\n  nodePools: {value: c}\n").spec
    before = (low.SerializeToString(), high.SerializeToString())
    fast = overlay(low, high)
    assert fast == merge([Layer(LayerName.WORKLOAD, low), Layer(LayerName.WORKLOAD, high)]).spec
    assert (low.SerializeToString(), high.SerializeToString()) == before
    assert overlay(fast) == fast


def test_a_port_without_a_label_is_named_by_its_number() -> None:
    spec = WorkloadSpec()
    spec.ports.add(container=80)
    assert overlay(spec).ports[0].label == "p-80"

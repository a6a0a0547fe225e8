"""Fields of v1 that are judged on what they become: `gpu`, NFS volumes, values for all items, the source of ids."""

from __future__ import annotations

import pytest

from muster.workload.v1 import workload_pb2
from muster_language import Kind, WorkloadSpec
from muster_language.spec import set_kind
from tests.support.policies_v1 import effective, issues, policy, workload

_CHANGED = "the administrator prohibited changing the value of this field"


def _rest(**fields: float | str) -> WorkloadSpec:
    spec = WorkloadSpec(name="w", image="img", **fields)  # type: ignore[arg-type]
    set_kind(spec, Kind.TRAINING)
    return spec


@pytest.mark.parametrize(
    ("own", "refused"),
    [
        (workload("gpu: {value: 2}"), False),
        (workload("gpu: {value: 3}"), True),
        (workload("gpuDevices: {value: 3}"), True),
        (_rest(gpu_devices_request=4, gpu_portion_request=0.5), False),
        (_rest(gpu_devices_request=5, gpu_portion_request=0.5), True),
        (_rest(gpu_devices_request=2, gpu_memory_request="1G"), False),
        (_rest(gpu_devices_request=3, gpu_memory_request="1G"), True),
        (workload("migProfile: {value: 1g.5gb}, gpuDevices: {value: 3}"), True),
        (workload("gpu: {value: 0}"), False),
        (workload(""), False),
    ],
)
def test_gpu_is_devices_times_portion(own: WorkloadSpec, refused: bool) -> None:
    # The language itself refuses a share of several devices, in words of its own.
    found = [each for each in issues(own, policy("gpu: {rules: {max: 2}}")) if each.startswith("gpu:")]
    assert found == (["gpu: must be no greater than 2"] if refused else [])


def test_gpu_bounds_of_one_replica() -> None:
    house = policy("gpu: {rules: {min: 0.5, max: 4, step: 0.5}}", "Distributed")
    assert issues(workload("gpu: {value: 4}", "Distributed"), house) == []
    assert issues(workload("gpu: {value: 0.6}", "Distributed"), house) == ["gpu: must be 0.5 plus a multiple of 0.5"]
    assert issues(workload("gpu: {value: 0}", "Distributed"), house) == ["gpu: must be no less than 0.5"]


def test_gpu_is_exact_to_a_hundredth() -> None:
    own = _rest(gpu_devices_request=3, gpu_portion_request=0.33)
    assert not any(each.startswith("gpu:") for each in issues(own, policy("gpu: {rules: {max: 0.99}}")))
    assert "gpu: must be no greater than 0.98" in issues(own, policy("gpu: {rules: {max: 0.98}}"))
    assert issues(workload("gpu: {value: 0.29}"), policy("gpu: {rules: {min: 0.29, max: 0.29}}")) == []


def test_gpu_that_users_may_not_change() -> None:
    house = policy("gpu: {rules: {canEdit: false}, value: 1}")
    for same in ("", "gpu: {value: 1}", "gpuDevices: {value: 1}"):
        assert issues(workload(same), house) == []
    for other in ("gpu: {value: 2}", "gpu: {value: 0}", "gpuMemory: {value: 1G}", "migProfile: {value: 1g.5gb}"):
        assert issues(workload(other), house) == [f"gpu: {_CHANGED}"]


def test_a_portion_that_the_language_refuses_does_not_stop_the_judge() -> None:
    assert any(
        each.startswith("gpu") for each in issues(_rest(gpu_portion_request=7.5), policy("gpu: {rules: {max: 1}}"))
    )


def test_the_source_of_the_ids() -> None:
    house = policy("runAsUser: {rules: {canEdit: false}, value: false}")
    assert issues(workload("runAsUser: {value: false}"), house) == []
    assert issues(workload("uidGidSource: {value: fromTheImage}"), house) == []
    assert issues(workload("runAsUser: {value: true}"), house) == [f"runAsUser: {_CHANGED}"]
    assert issues(workload("uidGidSource: {value: fromIdpToken}"), house) == [f"runAsUser: {_CHANGED}"]
    assert issues(workload("uidGidSource: {value: custom}, runAsUid: {value: 5}"), house) == [f"runAsUser: {_CHANGED}"]


def test_ids_of_a_user_with_a_default_run_as_user() -> None:
    house = policy("runAsUser: {rules: {canEdit: false}, value: true}")
    spec = effective(workload("runAsUid: {value: 5}"), house)
    assert spec.uid_gid_source == workload_pb2.UID_GID_SOURCE_CUSTOM


def test_preemptible_is_what_the_class_makes_of_it() -> None:
    house = policy("preemptible: {rules: {canEdit: false, required: true}}", "Interactive")
    changed = [f"preemptible: {_CHANGED}"]
    assert issues(workload("", "Interactive"), house) == ["preemptible: a value is required"]
    assert issues(workload("preemptible: {value: true}", "Interactive"), house) == changed
    assert issues(workload("priorityClass: {value: interactive-preemptible}", "Interactive"), house) == changed
    default = policy("preemptible: {rules: {canEdit: false}, value: true}", "Interactive")
    assert issues(workload("priorityClass: {value: interactive-preemptible}", "Interactive"), default) == []


def test_the_service_type_of_all_ports() -> None:
    house = policy("serviceType: {rules: {canEdit: false, options: [NodePort, ClusterIP]}, value: NodePort}")
    port = "ports: {items: {a: {value: {container: 80}}}}"
    assert effective(workload(port), house).ports[0].service_type == workload_pb2.SERVICE_TYPE_NODE_PORT
    assert issues(workload(f"{port}, serviceType: {{value: NodePort}}"), house) == []
    assert issues(workload("ports: {items: {a: {value: {container: 80, serviceType: NodePort}}}}"), house) == []
    assert issues(workload(f"{port}, serviceType: {{value: ClusterIP}}"), house) == [f"ports.a.serviceType: {_CHANGED}"]
    own = workload("ports: {items: {a: {value: {container: 80, serviceType: LoadBalancer}}}}")
    assert issues(own, house) == [
        f"ports.a.serviceType: {_CHANGED}",
        "ports.a.serviceType: must be one of: NodePort, ClusterIP",
    ]


def test_a_service_type_of_the_user_changes_a_port_of_the_policy() -> None:
    house = policy("serviceType: {rules: {canEdit: false}}\nports: {items: {a: {value: {container: 80}}}}")
    assert issues(workload(""), house) == []
    assert issues(workload("serviceType: {value: NodePort}"), house) == [f"ports.a.serviceType: {_CHANGED}"]


def test_a_hardwired_port_may_be_repeated_with_a_default_service_type() -> None:
    house = policy(
        """
serviceType: {value: NodePort}
ports: {items: {a: {rules: {canEdit: false, canRemove: false}, value: {container: 80}}}}
"""
    )
    assert issues(workload("ports: {items: {a: {value: {container: 80}}}}"), house) == []
    assert issues(workload("ports: {items: {a: {value: {container: 81}}}}"), house) == [
        "ports: the administrator prohibited modifying item 'a'"
    ]


def test_mount_propagation_of_all_host_paths() -> None:
    volume = "volumes: {items: {a: {value: {path: /x, mountPath: /y%s}}}}"
    house = policy("mountPropagation: {rules: {canEdit: false}, value: false}")
    assert issues(workload(volume % ""), house) == []
    assert issues(workload(f"mountPropagation: {{value: false}}, {volume % ''}"), house) == []
    assert issues(workload(volume % ", mountPropagation: None"), house) == []
    changed = [f"volumes.a.mountPropagation: {_CHANGED}"]
    assert issues(workload(f"mountPropagation: {{value: true}}, {volume % ''}"), house) == changed
    assert issues(workload(volume % ", mountPropagation: HostToContainer"), house) == changed
    required = policy("mountPropagation: {rules: {required: true}}")
    assert issues(workload(volume % ""), required) == ["volumes.a.mountPropagation: a value is required"]
    assert issues(workload(f"mountPropagation: {{value: false}}, {volume % ''}"), required) == []


def test_servers_of_nfs_volumes_wherever_they_are_written() -> None:
    house = policy("volumes: {itemRules: {nfsServer: {options: [nas]}}}")
    for server, expected in (("nas", []), ("evil", ["nfs.a.nfsServer: must be one of: nas"])):
        volume = workload(f"volumes: {{items: {{a: {{value: {{path: /x, mountPath: /y, nfsServer: {server}}}}}}}}}")
        nfs = workload(f"nfs: {{items: {{a: {{value: {{sourcePath: /x, targetPath: /y, nfsServer: {server}}}}}}}}}")
        assert issues(volume, house) == issues(nfs, house) == expected
    assert issues(workload("volumes: {items: {a: {value: {path: /x, mountPath: /y}}}}"), house) == []


def test_a_server_of_the_policy_that_users_may_not_change() -> None:
    house = policy(
        """
volumes:
  itemRules: {nfsServer: {canEdit: false}}
  items: {a: {value: {path: /x, mountPath: /y, nfsServer: nas}}}
"""
    )
    same = workload("volumes: {items: {a: {value: {path: /z, mountPath: /y, nfsServer: nas}}}}")
    other = workload("volumes: {items: {a: {value: {path: /x, mountPath: /y, nfsServer: evil}}}}")
    assert issues(workload(""), house) == issues(same, house) == []
    assert issues(other, house) == [f"nfs.a.nfsServer: {_CHANGED}"]


_VOLUMES = "volumes: {items: {a: {rules: {%s}, value: {path: /x, mountPath: /y%s}}}}"


@pytest.mark.parametrize("server", ["", ", nfsServer: nas"])
def test_flags_of_a_default_volume_with_and_without_a_server(server: str) -> None:
    def own(item: str) -> WorkloadSpec:
        return workload(f"volumes: {{items: {{a: {{{item}}}}}}}")

    same, removed = own(f"value: {{path: /x, mountPath: /y{server}}}"), own("deleted: true")
    changed = own(f"value: {{path: /other, mountPath: /y{server}}}")
    moved = own("value: {path: /x, mountPath: /y, nfsServer: evil}")
    both = policy(_VOLUMES % ("canEdit: false, canRemove: false", server))
    kept = policy(_VOLUMES % ("canRemove: false", server))
    fixed = policy(_VOLUMES % ("canEdit: false", server))
    modifying = ["volumes: the administrator prohibited modifying item 'a'"]
    assert [issues(own, both) for own in (same, removed, changed, moved)] == [[], modifying, modifying, modifying]
    removing = ["volumes: the administrator prohibited removing item 'a'"]
    assert [issues(own, kept) for own in (same, removed, changed)] == [[], removing, []]
    assert [issues(own, fixed) for own in (same, removed, changed, moved)] == [[], [], modifying, modifying]


def test_at_least_one_item() -> None:
    house = policy("ports: {rules: {required: true}}")
    assert issues(workload(""), house) == ["ports: a value is required"]
    assert issues(workload("ports: {items: {a: {value: {container: 80}}}}"), house) == []


def test_items_that_users_may_not_add() -> None:
    house = policy("environment: {rules: {canAdd: false}, items: {A: {value: x}}}")
    assert issues(workload("environment: {items: {A: {value: y}}}"), house) == []
    assert issues(workload("environment: {items: {B: {value: y}}}"), house) == [
        "environment: the administrator prohibited adding new items"
    ]


def test_the_spec_of_a_gang_judges_the_workers_and_what_a_master_says() -> None:
    house = policy(
        """
image: {rules: {options: [img, other]}}
memory: {rules: {required: true}, value: 1Gi}
ports: {rules: {required: true}, itemRules: {container: {min: 1000}}}
""",
        "Distributed",
    )
    port = "ports: {items: {a: {value: {container: 1000}}}}"
    assert issues(workload(port, "Distributed"), house) == []
    assert issues(workload(port, "Distributed", "masterSpec: {tty: {value: true}}"), house) == []
    siblings = "masterSpec: {image: {value: third}, ports: {items: {b: {value: {container: 9}}}}}"
    assert issues(workload(port, "Distributed", siblings), house) == [
        "masterSpec.image: must be one of: img, other",
        "masterSpec.ports.b.container: must be no less than 1000",
    ]


def test_the_master_spec_judges_the_master_as_it_is_completed() -> None:
    house = policy(
        "gpu: {rules: {max: 4}, value: 2}",
        "Distributed",
        siblings="masterSpec: {gpu: {rules: {max: 1}}, tty: {value: true}}",
    )
    assert issues(workload("", "Distributed"), house) == []
    assert issues(workload("", "Distributed", "masterSpec: {stdin: {value: true}}"), house) == [
        "masterSpec.gpu: must be no greater than 1"
    ]
    spec = effective(workload("", "Distributed", "masterSpec: {gpu: {value: 1}, stdin: {value: true}}"), house)
    assert (spec.gpu_devices_request, spec.master_spec.gpu_portion_request, spec.master_spec.tty) == (2, 1, True)
    assert not spec.tty


def test_a_limit_of_a_gang_is_per_worker() -> None:
    house = policy("gpu: {rules: {max: 5}}", "Distributed")
    assert issues(workload("gpu: {value: 2}", "Distributed"), house) == []
    assert issues(workload("gpu: {value: 6}", "Distributed"), house) == ["gpu: must be no greater than 5"]


@pytest.mark.parametrize("flags", ["", "rules: {canEdit: false, canRemove: false}, "])
def test_an_effective_spec_with_a_volume_of_a_server_is_admitted_again(flags: str) -> None:
    volume = f"volumes: {{items: {{a: {{{flags}value: {{path: /x, mountPath: /y, nfsServer: nas}}}}}}}}"
    house = policy(volume)
    spec = effective(workload(""), house)
    assert effective(spec, house) == spec
    spec.nfs[0].server = "evil"
    assert issues(spec, house) == (["volumes: the administrator prohibited modifying item 'a'"] if flags else [])


def test_items_of_one_label_in_two_fields_are_two() -> None:
    nfs = "nfs: {items: {a: {value: {sourcePath: /x, targetPath: /n, nfsServer: nas}}}}"
    house = policy(f"volumes: {{rules: {{canAdd: false}}}}\n{nfs}")
    own = workload("volumes: {items: {a: {value: {path: /x, mountPath: /y}}}}")
    assert issues(own, house) == ["volumes: the administrator prohibited adding new items"]
    both = policy(
        f"""
volumes: {{items: {{a: {{rules: {{canRemove: false}}, value: {{path: /x, mountPath: /y}}}}}}}}
{nfs}
"""
    )
    gone = workload("volumes: {items: {a: {deleted: true}}}")
    assert issues(gone, both) == ["volumes: the administrator prohibited removing item 'a'"]

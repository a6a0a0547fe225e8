"""Pod templates of Kubernetes, lowered into the catalogue's fields: policy judges them like any other spec.

Called by colossal.py for each type of replica. What has no field here is refused with its path rather than dropped:
a template that silently loses its sidecar or its affinity would run as something else.
Holds: agents render pods from the fields alone; nothing of the template reaches a cluster by another way.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final

from muster.workload.v1 import workload_pb2
from muster_language.catalogue import catalogue
from muster_language.documents.nodes import Mapping, Node, entry
from muster_language.documents.takers import taker
from muster_language.kubernetes.pod_resources import read_resources
from muster_language.kubernetes.pod_volumes import read_mounts, read_volumes
from muster_language.kubernetes.pods import Pod

NODE_TYPE: Final = "run.ai/type"

# Members of a container, of a pod and of a security context -> the proto name of the field that says the same.
_CONTAINER: Final = MappingProxyType(
    {
        "image": "image",
        "imagePullPolicy": "image_pull_policy",
        "workingDir": "working_dir",
        "tty": "tty",
        "stdin": "stdin",
        "readinessProbe": "readiness_probe",
    }
)
_POD: Final = MappingProxyType({"hostIPC": "host_ipc", "hostNetwork": "host_network"})
_SECURITY: Final = MappingProxyType(
    {
        "runAsUser": "run_as_uid",
        "runAsGroup": "run_as_gid",
        "runAsNonRoot": "run_as_non_root",
        "allowPrivilegeEscalation": "allow_privilege_escalation",
        "readOnlyRootFilesystem": "read_only_root_filesystem",
    }
)


class PodReader(Pod):
    """Reads one template."""

    def pod(self, node: Mapping) -> None:
        """Reads the template."""
        self.each(node, self.at, {"metadata": self._metadata, "spec": self._spec})

    def _metadata(self, node: Node, path: str) -> None:
        self.each(node, path, {"labels": self._map(self.spec.labels), "annotations": self._map(self.spec.annotations)})

    def _map(self, items: Any) -> Callable[[Node, str], None]:
        def read(node: Node, path: str) -> None:
            for key, value in node.entries if isinstance(node, Mapping) else []:
                text = self.findings.text(value, f"{path}.{key.text}")
                if text is not None:
                    items.add(label=key.text, value=text)

        return read

    def _spec(self, node: Node, path: str) -> None:
        volumes = entry(node, "volumes") if isinstance(node, Mapping) else None
        if volumes is not None:
            self.volumes = read_volumes(self, volumes[1], f"{path}.volumes")
        known = {word: self.setter(name) for word, name in _POD.items()}
        known |= {
            "containers": self._containers,
            "volumes": lambda *_: None,
            "nodeSelector": self._selector,
            "tolerations": self._tolerations,
            "imagePullSecrets": self._pull_secrets,
            "securityContext": self._security,
        }
        self.each(node, path, known)

    def _containers(self, node: Node, path: str) -> None:
        listed = self.listed(node, path)
        named = [each for each in listed if self.text(each[0], "name", each[1]) == self.role]
        chosen = named or listed
        if len(listed) != 1 or len(chosen) != 1:
            self.findings.say(path, node, f"{len(listed)} containers: a replica has one", f"one, called {self.role}")
            return
        container, here = chosen[0]
        known = {word: self.setter(name) for word, name in _CONTAINER.items()}
        known |= {
            "name": lambda *_: None,
            "env": self._env,
            "ports": self._ports,
            "resources": lambda inner, at: read_resources(self, inner, at),
            "volumeMounts": lambda inner, at: read_mounts(self, inner, at),
            "securityContext": self._security,
        }
        self.each(container, here, known)

    def _env(self, node: Node, path: str) -> None:
        for variable, here in self.listed(node, path):
            source = entry(variable, "valueFrom")
            value = self._secret(source[1], f"{here}.valueFrom") if source else self.text(variable, "value", here)
            name = self.text(variable, "name", here)
            self.findings.unknown(variable, ["name", "value", "valueFrom"], f"{here}.")
            self.findings.moved[f"{self.base}.environment.items.{name}"] = here
            self.spec.environment.add(label=name, value=value)

    def _secret(self, node: Node, path: str) -> str:
        reference = entry(node, "secretKeyRef") if isinstance(node, Mapping) else None
        if reference is None or not isinstance(reference[1], Mapping) or len(node[0]) != 1:
            self.findings.say(
                path, node, "only a key of a Secret can be named here", "secretKeyRef: {name: .., key: ..}"
            )
            return ""
        inner, here = reference[1], f"{path}.secretKeyRef"
        return f"SECRET:{self.text(inner, 'name', here)},{self.text(inner, 'key', here)}"

    def _ports(self, node: Node, path: str) -> None:
        row = catalogue().by_name["ports"]
        container = next(each for each in row.members if each.name == "container")
        for port, here in self.listed(node, path):
            self.findings.unknown(port, ["name", "containerPort"], f"{here}.")
            number = entry(port, "containerPort")
            if number is None:
                self.findings.say(here, port, "containerPort is missing", "containerPort: 8000")
                continue
            item = self.spec.ports.add()
            taker(container)(self.findings, number[1], f"{here}.containerPort", item)
            item.label = self.text(port, "name", here) or f"p-{item.container}"
            self.findings.moved[f"{self.base}.ports.items.{item.label}"] = here

    def _selector(self, node: Node, path: str) -> None:
        self.each(node, path, {NODE_TYPE: self.setter("node_type")})

    def _pull_secrets(self, node: Node, path: str) -> None:
        names = [self.text(item, "name", here) for item, here in self.listed(node, path)]
        self.spec.image_pull_secrets.values.extend(name for name in names if name)

    def _tolerations(self, node: Node, path: str) -> None:
        row = catalogue().by_name["tolerations"]
        known = {member.yaml: taker(member) for member in row.members}
        for index, (toleration, here) in enumerate(self.listed(node, path)):
            item = self.spec.tolerations.add(label=f"toleration-{index}")
            self.findings.moved[f"{self.base}.tolerations.items.{item.label}"] = here
            for key, value in toleration.entries:
                take = known.get("seconds" if key.text == "tolerationSeconds" else key.text)
                if take is None:
                    self.findings.say(f"{here}.{key.text}", key, f"{key.text} is no member of a toleration")
                else:
                    take(self.findings, value, f"{here}.{key.text}", item)

    def _security(self, node: Node, path: str) -> None:
        known = {word: self.setter(name) for word, name in _SECURITY.items()}
        known |= {
            "supplementalGroups": self._groups,
            "capabilities": self._capabilities,
            "seccompProfile": lambda inner, at: self.each(inner, at, {"type": self.setter("seccomp_profile")}),
        }
        self.each(node, path, known)
        if self.spec.HasField("run_as_uid") or self.spec.HasField("run_as_gid"):
            self.spec.uid_gid_source = workload_pb2.UID_GID_SOURCE_CUSTOM

    def _groups(self, node: Node, path: str) -> None:
        self.spec.supplemental_groups = ",".join(self.findings.words(node, path))

    def _capabilities(self, node: Node, path: str) -> None:
        self.each(node, path, {"add": self.setter("capabilities"), "drop": self._drop})

    def _drop(self, node: Node, path: str) -> None:
        if self.findings.words(node, path) == ["ALL"]:
            self.spec.drop_all_capabilities = True
        else:
            self.findings.say(path, node, "capabilities are dropped all or none", "[ALL]")

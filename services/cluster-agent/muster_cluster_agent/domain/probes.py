"""How a replica is asked whether it is ready, and which questions are refused. Pure; called by `domain.plan`."""

from __future__ import annotations

from muster_cluster_agent.domain.model import Pattern, Probe, Template


class InvalidProbe(ValueError):
    """The readiness probe asks something other than the replica itself."""


def probe_of(pattern: Pattern, template: Template) -> Probe | None:
    """Return how a replica is asked. A service without a probe is asked on its first port. Raises InvalidProbe."""
    asked = template.probe
    if asked is not None and (asked.port or template.ports):
        _check_probe(asked, template.ports)
        return asked
    if pattern is Pattern.SERVICE and template.ports:
        return Probe()
    return None


def _check_probe(probe: Probe, ports: tuple[int, ...]) -> None:
    """Refuse a probe by which the agent would speak to others than the replica, or in words of the user's choice.

    The agent asks from inside the machine. An undeclared port is some other process there, and a line break in the
    path or the host would end the header and let the probe send any request.
    """
    if probe.port and probe.port not in ports:
        known = ", ".join(map(str, ports)) or "none"
        raise InvalidProbe(
            f"the readiness probe asks port {probe.port}, which is not one of the workload's ports ({known}): "
            f"add it to ports; the server then finds the port to listen on in MUSTER_PORT_{probe.port}"
        )
    for name, text in (("path", probe.path), ("host", probe.host)):
        if any(character <= " " or character == "\x7f" for character in text):
            raise InvalidProbe(
                f"the {name} of the readiness probe is {text!r}: spaces and control characters are not allowed"
            )

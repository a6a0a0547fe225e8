"""What policy says against a workload, as sentences for people."""

from __future__ import annotations


def issue(path: str, rule: str, given: str, allowed: str, details: str) -> str:
    """One issue in a line: path, what was given, what is allowed, or the policy's own sentence where it has one."""
    if details:
        return f"{path}: {details}" if path and not details.startswith(path) else details
    parts = [f"{given} is not allowed" if given else f"does not meet the rule {rule}"]
    if allowed:
        parts.append(f"allowed: {allowed}")
    return f"{path}: {'; '.join(parts)}" if path else "; ".join(parts)

"""The policy file of earlier releases: a start beside one that still holds rules would silently rule nothing."""

from __future__ import annotations

from pathlib import Path

import yaml

from muster_policy.errors import OldPolicyFile


def check_old_file(path: Path | None) -> None:
    """Raises OldPolicyFile where the file that MUSTER_POLICY_FILE names holds a document."""
    if path is None or not path.exists():
        return
    try:
        said = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        rules_nothing = isinstance(said, dict) and said.keys() <= {"name"}  # as a fresh stack wrote it
    except (yaml.YAMLError, UnicodeDecodeError):
        rules_nothing = False
    if not rules_nothing:
        raise OldPolicyFile(
            f"MUSTER_POLICY_FILE names {path}, which holds rules; policies stand in the database now. Write them as "
            "documents of kind Policy, one for each kind of workload, apply them with `muster policies apply -f FILE` "
            "once policy runs, and take the setting away or empty the file first"
        )

"""Resources by which a cluster counts devices and MIG slices, as the vendor's device plugin names them.

Under the plugin's `mixed` strategy a slice of profile 1g.5gb is a unit of nvidia.com/mig-1g.5gb. A plus sign cannot
stand in the name of a resource: 1g.5gb+me is nvidia.com/mig-1g.5gb.me.
"""

from __future__ import annotations

import re
from typing import Final

MIG_RESOURCE: Final = "mig-"
"""How the names of MIG resources begin, after the vendor's domain."""
_MEDIA: Final = ".me"
_ANY: Final = "*"
_PROFILE: Final = re.compile(r"[1-9][0-9]*g\.[1-9][0-9]*gb(\+me)?")


def mig_resource(family: str, profile: str) -> str:
    """The resource of a profile. family: the resource itself, or `VENDOR/mig-*` for every MIG resource of a vendor."""
    return family.replace(_ANY, profile.replace("+", "."), 1)


def mig_profile(resource: str) -> str:
    """The MIG profile whose slices are units of the resource; empty: it is no MIG resource."""
    word = resource.partition("/")[2]
    if not word.startswith(MIG_RESOURCE):
        return ""
    profile = word.removeprefix(MIG_RESOURCE)
    profile = f"{profile.removesuffix(_MEDIA)}+me" if profile.endswith(_MEDIA) else profile
    return profile if is_mig_profile(profile) else ""


def is_mig_profile(name: str) -> bool:
    """Whether the name has the form of a MIG profile, such as 3g.40gb or 1g.5gb+me."""
    return _PROFILE.fullmatch(name) is not None

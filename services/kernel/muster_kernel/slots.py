"""Resources by which a cluster counts devices and MIG slices, as the vendor's device plugin names them.

Under the plugin's `mixed` strategy a slice of profile 1g.5gb is a unit of nvidia.com/mig-1g.5gb. A plus sign cannot
stand in the name of a resource: 1g.5gb+me is nvidia.com/mig-1g.5gb.me.
"""

from __future__ import annotations

import re
from typing import Final

_MIG: Final = "mig-"
_MEDIA: Final = ".me"
_ANY: Final = "*"
_PROFILE: Final = re.compile(r"[1-9][0-9]*g\.[1-9][0-9]*gb(\+me)?")


def mig_family(resource: str) -> str:
    """Return the family of all MIG resources of a resource's vendor, such as `nvidia.com/mig-*`."""
    return f"{resource.partition('/')[0]}/{_MIG}{_ANY}"


def mig_resource(family: str, profile: str) -> str:
    """Return the resource of a profile. family: of `mig_family`, or one resource, which is returned as it is."""
    return family.replace(_ANY, profile.replace("+", "."), 1)


def mig_profile(resource: str) -> str:
    """Return the MIG profile whose slices are units of the resource; empty: it is no MIG resource."""
    word = resource.partition("/")[2]
    return profile_of(word.removeprefix(_MIG)) if word.startswith(_MIG) else ""


def profile_of(word: str) -> str:
    """Return the profile that a part of a resource's or a product's name means; empty: none."""
    profile = f"{word.removesuffix(_MEDIA)}+me" if word.endswith(_MEDIA) else word
    return profile if is_mig_profile(profile) else ""


def is_mig_profile(name: str) -> bool:
    """Return whether the name has the form of a MIG profile, such as 3g.40gb or 1g.5gb+me."""
    return _PROFILE.fullmatch(name) is not None

"""An entry of the inventory about a namespace's objects has a bound, and says where there is more."""

from __future__ import annotations

import pytest

from muster_cluster_agent.adapters import encode
from muster_cluster_agent.domain.fleet import Fleet, NamespaceObjects, Profile, difference
from muster_cluster_agent.domain.kubernetes.objects import MOST_BYTES, MOST_NAMES, objects_of


def test_few_objects_are_named_in_order() -> None:
    assert objects_of("p", {"b", "a"}, {"c"}) == NamespaceObjects("p", ("a", "b"), ("c",))


@pytest.mark.parametrize(("name", "most"), [("{:05}", MOST_NAMES), ("{:0253}", MOST_BYTES // 256)])
def test_of_many_the_first_are_named(name: str, most: int) -> None:
    names = [name.format(number) for number in range(MOST_NAMES + 1)]
    found = objects_of("p", names, names)
    assert found == NamespaceObjects("p", tuple(names[:most]), tuple(names[:most]), truncated=True)
    assert encode.objects(found).ByteSize() <= 2 * MOST_BYTES + 100


def test_what_changed_is_told_by_namespace() -> None:
    profile = Profile("kubernetes", names_objects=True)
    same, old, new = NamespaceObjects("a", ("x",)), NamespaceObjects("b", ("x",)), NamespaceObjects("b", ("y",))
    found = difference(
        Fleet(profile, (), (same, old, NamespaceObjects("c"))), Fleet(profile, (), (same, new, NamespaceObjects("d")))
    )
    assert found is not None
    assert (found.objects, found.removed_namespaces) == ((new, NamespaceObjects("d")), ("c",))
    assert not found.empty

"""How far replicas are confined, which rights a grant has, and which folders a project may name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_cluster_agent.domain.confinement import (
    Confinement,
    Grant,
    Host,
    Level,
    Right,
    Root,
    ability,
    access,
    below,
    handled,
    of_spec,
    overlaps,
    roots_of,
)

READ_FILE, WRITE_FILE, READ_DIR, MAKE_REG = 1 << 2, 1 << 1, 1 << 3, 1 << 8
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
ABIS = range(1, 9)


@pytest.mark.parametrize(
    ("host", "level", "why"),
    [
        (Host(root=True, landlock=7), Level.USER_AND_LANDLOCK, ""),
        (Host(root=True, landlock=1), Level.USER_AND_LANDLOCK, ""),
        (Host(root=True, landlock=7, missing=("CAP_SYS_ADMIN",)), Level.NONE, "root lacks CAP_SYS_ADMIN"),
        (Host(root=True, landlock=0), Level.NONE, "no Landlock"),
        (Host(root=False, landlock=7), Level.LANDLOCK, ""),
        (Host(root=False, landlock=6), Level.LANDLOCK, ""),
        (Host(root=False, landlock=5), Level.NONE, "version 5; without root at least 6"),
        (Host(root=False, landlock=0), Level.NONE, "no Landlock"),
    ],
)
def test_the_level_is_the_highest_that_the_machine_offers(host: Host, level: Level, why: str) -> None:
    found = ability(host, waived=False)
    assert found.level is level
    assert why in found.text
    assert not found.waived


def test_a_cluster_file_can_waive_it() -> None:
    found = ability(Host(root=True, landlock=7), waived=True)
    assert (found.level, found.waived) == (Level.NONE, True)
    assert found.text == "none: the cluster file says `confinement: none`"


@pytest.mark.parametrize("landlock", ABIS)
@pytest.mark.parametrize("right", Right)
def test_a_rule_names_only_what_the_version_handles_and_for_a_file_only_what_files_have(
    right: Right, landlock: int
) -> None:
    known, _ = handled(landlock)
    of_folder, of_file = (access(right, folder=folder, landlock=landlock) for folder in (True, False))
    assert of_folder & ~known == 0
    assert of_file & of_folder == of_file
    assert of_file & (READ_DIR | MAKE_REG) == 0


def test_what_the_rights_are() -> None:
    read, write, device, names = (
        access(right, folder=True, landlock=7) for right in (Right.READ, Right.WRITE, Right.DEVICE, Right.LIST)
    )
    assert read & READ_FILE
    assert not read & (WRITE_FILE | MAKE_REG | TRUNCATE)
    assert write & WRITE_FILE
    assert write & MAKE_REG
    assert not write & IOCTL_DEV
    assert device & IOCTL_DEV
    assert names == READ_DIR


def test_signals_and_abstract_sockets_are_kept_apart_from_version_6_on() -> None:
    assert [handled(landlock)[1] for landlock in (1, 5, 6, 7)] == [0, 0, 3, 3]


paths = st.text("abc/. ", min_size=1, max_size=20).map(lambda text: f"/{text}")
confinements = st.builds(
    Confinement,
    landlock=st.integers(1, 8),
    grants=st.lists(st.builds(Grant, paths, st.sampled_from(Right)), max_size=5).map(tuple),
    uid=st.none() | st.integers(1000, 1 << 31),
    tmp=paths,
    accounts=st.none() | st.tuples(paths, paths),
)


@given(confinements)
def test_a_spec_holds_it_whole(confinement: Confinement) -> None:
    assert of_spec(confinement.as_spec()) == confinement


@pytest.mark.parametrize("broken", [{}, {"landlock": 7}, {**Confinement(7, ()).as_spec(), "grants": [["/x", "own"]]}])
def test_a_broken_spec_is_no_confinement(broken: dict[str, object]) -> None:
    with pytest.raises((KeyError, ValueError)):
        of_spec(broken)


ROOTS = (Root("/data/images", frozenset({"vision"})), Root("/data/open", write=True))


def test_a_project_has_its_own_roots_and_those_of_all() -> None:
    assert roots_of("vision", ROOTS) == ROOTS
    assert roots_of("speech", ROOTS) == ROOTS[1:]


@pytest.mark.parametrize(
    ("path", "root"),
    [
        ("/data/open", "/data/open"),
        ("/data/open/a/b", "/data/open"),
        ("/data/opened", None),
        ("/data", None),
        ("/", None),
    ],
)
def test_a_path_lies_below_a_root_or_not(path: str, root: str | None) -> None:
    found = below(path, ROOTS)
    assert (found.path if found else None) == root


@pytest.mark.parametrize(
    ("path", "touches"),
    [("/srv", True), ("/srv/muster", True), ("/srv/muster/work", True), ("/srv/muster2", False), ("/data", False)],
)
def test_a_folder_that_holds_a_private_one_or_lies_in_it_overlaps(path: str, touches: bool) -> None:
    assert overlaps(path, ["/srv/muster"]) == ("/srv/muster" if touches else "")

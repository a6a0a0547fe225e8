"""What a cluster file may say of access, and the message for each thing that it may not."""

from __future__ import annotations

import pwd
from pathlib import Path

import pytest

from muster_cluster_agent.adapters.local import access, cluster_file
from muster_cluster_agent.adapters.local.access import Access, UidRange
from muster_cluster_agent.adapters.local.accounts import Accounts, NoAccount
from muster_cluster_agent.domain.confinement import Root
from muster_cluster_agent.errors import ClusterFileError

FILE = "cluster: c\nnodes: [{name: n-0}]\n"


def test_a_file_says_what_projects_may_name_and_which_users_replicas_are() -> None:
    text = f"{FILE}roots: [{{path: /data, projects: [a, b], write: true}}]\nuids: {{first: 70000, count: 10}}\n"
    found = cluster_file.parse(f"{text}confinement: none\n", where="f").access
    assert found == Access((Root("/data", frozenset({"a", "b"}), write=True),), UidRange(70000, 70009), waived=True)


def test_without_a_word_of_it_replicas_are_confined_and_name_nothing() -> None:
    assert cluster_file.parse(FILE, where="f").access == Access()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("roots: [{path: data}]", "roots[0].path: expected an absolute path without `..`"),
        ("roots: [{path: /a/../b}]", "roots[0].path: expected an absolute path without `..`"),
        ("roots: [{}]", "roots[0].path: expected an absolute path"),
        ("roots: [{path: /a, mode: rw}]", "roots[0].mode: not known here; allowed are path, projects, write"),
        ("roots: [{path: /a, projects: a}]", "roots[0].projects: expected a list"),
        ("roots: /a", "roots: expected a list"),
        ("uids: {first: 10}", "uids: first 10 and count 1000; expected first from 1000"),
        ("uids: {first: 70000, count: 0}", "count from 1 to 1000000"),
        ("uids: {first: 1e9999}", "uids.first: expected a whole number"),
        ("confinement: off", "file.confinement: False is not one of auto, none"),
        ("confinement: landlock", "file.confinement: 'landlock' is not one of auto, none"),
    ],
)
def test_what_is_wrong_is_named(text: str, error: str) -> None:
    with pytest.raises(ClusterFileError) as caught:
        cluster_file.parse(f"{FILE}{text}\n", where="f")
    assert error in str(caught.value)


def _errors(path: Path | str, private: Path) -> list[str]:
    return access.check(Access((Root(str(path)),)), [str(private)], root=True)


def test_a_root_is_a_folder_of_this_machine_that_holds_nothing_of_the_stack(tmp_path: Path) -> None:
    real = tmp_path.resolve()
    private, data = real / "muster", real / "data"
    private.mkdir()
    data.mkdir()
    (real / "link").symlink_to(data)
    assert _errors(data, private) == []
    (missing,) = _errors(real / "none", private)
    assert missing.endswith("is not a folder of this machine; make it, or take the root out")
    (link,) = _errors(real / "link", private)
    assert f"leads through a link to {data}" in link
    for opened in (private, private / "credentials", real):
        (error,) = _errors(opened, private)
        assert f"would open {private}" in error
    for system in ("/", "/etc", "/proc"):
        (error,) = _errors(system, private)
        assert "is a folder of the system" in error


def test_users_that_the_machine_knows_are_not_given_to_replicas() -> None:
    known = max((entry for entry in pwd.getpwall()), key=lambda entry: entry.pw_uid)
    (error, *_) = access.taken(UidRange(known.pw_uid, known.pw_uid + 5))
    assert error.startswith(f"uids: the range {known.pw_uid} to {known.pw_uid + 5} is taken: user {known.pw_name} has")
    asked = Access(uids=UidRange(known.pw_uid, known.pw_uid + 5))
    assert error in access.check(asked, [], root=True)
    assert access.check(asked, [], root=False) == []


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def test_each_project_has_a_user_of_its_own_and_keeps_it(tmp_path: Path) -> None:
    wanted = UidRange(70000, 70001)
    folder = _folder(tmp_path / "a")
    accounts = Accounts(folder, wanted, tmp_path / "uids")
    one, other = accounts.of("p"), accounts.of("q")
    assert (one.uid, other.uid) == (70000, 70001)
    files = [Path(file).stat().st_ino for file in one.files]
    again = Accounts(folder, wanted, tmp_path / "uids")
    assert again.of("p") == one
    assert [Path(file).stat().st_ino for file in one.files] == files, "a replica that is starting has them open"
    with pytest.raises(NoAccount, match="each of the users 70000 to 70001 belongs to a project already"):
        again.of("r")
    passwd, group = (Path(file).read_text().splitlines() for file in one.files)
    assert passwd[-1].startswith("muster-70000:x:70000:70000:")
    assert group[-1] == "muster-70000:x:70000:"
    assert passwd[:-1] == Path("/etc/passwd").read_text().splitlines()


def test_agents_of_a_machine_have_ranges_of_their_own(tmp_path: Path) -> None:
    registry = tmp_path / "uids"
    first = Accounts(_folder(tmp_path / "a"), None, registry).range
    second = Accounts(_folder(tmp_path / "b"), None, registry).range
    assert first.last < second.first
    assert Accounts(tmp_path / "a", None, registry).range == first
    with pytest.raises(ClusterFileError, match=f"is taken: {second.text} belongs to the agent of {tmp_path}"):
        Accounts(tmp_path / "a", second, registry)


def test_the_range_of_an_agent_that_has_gone_is_free_again(tmp_path: Path) -> None:
    registry = tmp_path / "uids"
    gone = _folder(tmp_path / "a")
    first = Accounts(gone, None, registry).range
    for path in gone.iterdir():
        path.unlink()
    gone.rmdir()
    assert Accounts(_folder(tmp_path / "b"), None, registry).range == first

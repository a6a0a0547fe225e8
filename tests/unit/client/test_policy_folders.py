"""`muster policies` with files and folders: one transaction, errors at their places, and a folder that stays equal."""

from __future__ import annotations

import json
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
from google.rpc import code_pb2

from muster.api.v1 import policies_pb2 as api
from muster_client.cli.policy_folders import file_name
from tests.support.plane_world import Failure, World, bad_request
from tests.unit.client.conftest import Command
from tests.unit.client.test_policy_verbs import RESEARCH, TENANT


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkout: policies in folders, and YAML of another kind in a hidden one."""
    made = tmp_path / "policies"
    (made / "teams").mkdir(parents=True)
    (made / ".github").mkdir()
    (made / "z.yaml").write_text(TENANT)
    (made / "teams" / "research.yml").write_text(RESEARCH)
    (made / ".github" / "ci.yaml").write_text("on: push\n")
    (made / "README.md").write_text("# policies\n")
    (made / "notes.yaml").write_text("# nothing yet\n")
    return made


def test_a_folder_is_applied_in_one_call_and_again_changes_nothing(muster: Command, world: World, folder: Path) -> None:
    first = muster("policies", "apply", "-f", str(folder), "--source", "git", "--reason", "review 12")
    assert (first.code, first.err) == (0, "")
    assert first.out.splitlines() == [
        "training policy of department research: created (research-trainings, version 1)",
        "training policy of tenant: created (house, version 1)",
        "2 created",
    ]
    (asked,) = world.asked("ApplyPolicies")
    assert [each.file for each in asked.texts] == [f"{folder}/teams/research.yml", f"{folder}/z.yaml"]
    assert (asked.source, asked.reason, asked.prune, bool(asked.idempotency_key)) == ("git", "review 12", False, True)
    again = muster("policies", "apply", "-f", str(folder))
    assert again.out.splitlines()[-1] == "2 unchanged"
    told = json.loads(muster("policies", "apply", "-f", str(folder), "--json").out)
    assert [each["outcome"] for each in told["policies"]] == ["unchanged", "unchanged"]
    assert (told["policies"][1]["policy"]["source"], told["dryRun"]) == ("git", False)


def test_a_dry_run_says_what_would_be_done_and_does_nothing(muster: Command, world: World, folder: Path) -> None:
    ran = muster("policies", "apply", "-f", str(folder), "--dry-run")
    assert ran.out.splitlines()[0] == (
        "training policy of department research: would be created (research-trainings, version 1)"
    )
    assert not world.shelf.policies
    assert json.loads(muster("policies", "apply", "-f", str(folder), "--dry-run", "--json").out)["dryRun"] is True
    assert all(each.validate_only for each in world.asked("ApplyPolicies"))


def test_prune_removes_what_its_source_no_longer_has(muster: Command, world: World, folder: Path) -> None:
    by_hand = folder.parent / "hand.yaml"
    by_hand.write_text(RESEARCH.replace("department: research", "project: ads"))
    assert muster("policies", "apply", "-f", str(by_hand)).code == 0
    assert muster("policies", "apply", "-f", str(folder), "--source", "git").code == 0
    (folder / "teams" / "research.yml").unlink()
    words = ["policies", "apply", "-f", str(folder), "--source", "git", "--prune"]
    assert muster(*words).out.splitlines() == [
        "training policy of tenant: unchanged (house, version 1)",
        "training policy of department research: removed (research-trainings, version 2)",
        "1 unchanged, 1 removed",
    ]
    (folder / "z.yaml").unlink()
    empty = muster(*words)
    assert (empty.code, empty.err) == (1, "the texts hold no policy: all 1 of git would go\n")
    assert muster(*words, "--allow-empty").code == 0
    assert [each.scope.unit for each in world.shelf.policies.values()] == ["ads"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--prune"], "name it with --source"),
        (["--allow-empty", "--source", "git"], "give --prune too"),
        (["--tenant"], "name its kind with --workload too"),
        (["--name", "house"], "name its kind with --workload too"),
        (["--workload", "training"], "training: which scope?"),
        (["--workload", "trainin", "--tenant"], "did you mean training?"),
        (["--workload", "training", "--tenant", "--cluster", "north"], "--tenant and --cluster are given"),
    ],
)
def test_options_that_do_not_go_together(
    muster: Command, world: World, folder: Path, words: list[str], said: str
) -> None:
    ran = muster("policies", "apply", "-f", str(folder), *words)
    assert ran.code == 2
    assert said in ran.err
    assert not world.calls


def test_every_error_of_every_file_is_said_before_anything_is_sent(muster: Command, world: World, folder: Path) -> None:
    bad = folder / "bad.yaml"
    bad.write_text(f"{TENANT}---\n{RESEARCH}".replace("max: 8", "maxx: 8").replace("backoffLimit", "backofLimit"))
    (folder / "zz.yaml").write_bytes(b"kind: Policy\nname: \xff\n")
    (folder / "zzz.yaml").symlink_to("nowhere")
    (folder / "z.yaml").write_text("kind: Policy\nworkload: trainin\nscope: everywhere\npolicy: {}\n")
    ran = muster("policies", "apply", "-f", str(folder))
    assert ran.code == 2
    assert [line for line in ran.err.splitlines() if not line.startswith("  ")] == [
        f'{bad}:9:33: policy.rules.compute.gpuDevicesRequest.maxx: unknown field "maxx"; did you mean max?',
        f'{bad}:21:5: policy.rules.backofLimit: unknown field "backofLimit"; did you mean backoffLimit?',
        f"{folder}/z.yaml:2:11: workload: trainin is not a kind of workload; did you mean training?",
        f"{folder}/z.yaml:3:8: scope: this is not a scope",
        f"{folder}/zz.yaml:2:7: byte 19 (0xff) is not UTF-8",
        f"{folder}/zzz.yaml: No such file or directory",
        "6 errors, nothing was applied",
    ]
    told = json.loads(muster("policies", "apply", "-f", str(folder), "--json").err)
    assert [(each["file"], each.get("line")) for each in told["error"]["violations"]] == [
        (str(bad), 9),
        (str(bad), 21),
        (f"{folder}/z.yaml", 2),
        (f"{folder}/z.yaml", 3),
        (f"{folder}/zz.yaml", 2),
        (f"{folder}/zzz.yaml", None),
    ]
    assert not world.calls


@pytest.mark.parametrize(("text", "said"), [("", "no policy document in it"), ("kind: [", "this is not YAML")])
def test_a_file_without_a_policy(muster: Command, world: World, tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(text)
    for verb in ("apply", "diff"):
        ran = muster("policies", verb, "-f", str(file))
        assert ran.code == 2
        assert said in ran.err
    assert muster("policies", "apply", "-f", str(tmp_path / "none")).code == 2
    assert not world.calls


def test_a_refusal_of_the_control_plane_has_the_place_in_the_file(muster: Command, folder: Path) -> None:
    (folder / "teams" / "research.yml").write_text(
        f"# of the team\n---\n{RESEARCH.replace('backoffLimit: {max: 6}', 'compute: {gpuDevicesRequest: {max: 4}}')}"
    )
    ran = muster("policies", "apply", "-f", str(folder))
    file = f"{folder}/teams/research.yml"
    assert ran.code == 1
    said = 'rules.compute.gpuDevicesRequest: Field "compute.gpuDevicesRequest" already has rules in'
    assert ran.err.splitlines() == [
        f"{file}:12:15: {said} tenant",
        f'{folder}/z.yaml:9:5: {said} department: "research"',
        "2 errors, nothing was applied",
    ]


def test_places_that_the_control_plane_gives_are_taken_apart(muster: Command, world: World, folder: Path) -> None:
    file = f"{folder}/z.yaml"
    details = [bad_request((f"{file}:4:8", "scope: no"), (f"{file}:2", "twice"), (f"{file}:1: rules.nothing", "why"))]
    world.fail("ApplyPolicies", Failure(code_pb2.INVALID_ARGUMENT, "3 errors", details))
    ran = muster("policies", "apply", "-f", str(folder))
    assert ran.err.splitlines()[:3] == [
        f"{file}:4:8: scope: no",
        f"{file}:2:1: twice",
        f"{file}:8:3: rules.nothing: why",
    ]
    other = [bad_request(("reason", "too long"), (f"{file}:4:8", "scope: no"))]
    world.fail("ApplyPolicies", Failure(code_pb2.INVALID_ARGUMENT, "2 errors", other))
    ran = muster("policies", "apply", "-f", str(folder))
    assert ran.err.splitlines() == ["muster: 2 errors", "reason: too long", f"{file}:4:8: scope: no"]


def test_a_policy_of_another_source_is_taken_over_once_that_is_meant(
    muster: Command, world: World, folder: Path
) -> None:
    assert muster("policies", "apply", "-f", str(folder), "--source", "git").code == 0
    refused = muster("policies", "apply", "-f", str(folder / "z.yaml"), "--source", "other")
    assert (refused.code, refused.err.splitlines()[0]) == (
        1,
        f"{folder}/z.yaml:1:1: the policy belongs to the source 'git'",
    )
    taken = muster("policies", "apply", "-f", str(folder / "z.yaml"), "--source", "other", "--take-ownership")
    assert taken.out == "training policy of tenant: changed (house, version 2)\n"


def test_a_body_without_a_frame_is_framed_by_options(
    muster: Command, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = "defaults: null\nrules:\n  backoffLimit: {max: 6}\n"
    words = ["policies", "apply", "-f", "-", "--workload", "training", "-p", "vision", "--name", "house"]
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(body.encode())))
    assert muster(*words).out == "training policy of project vision: created (house, version 1)\n"
    (text,) = world.asked("ApplyPolicies")[0].texts
    assert (text.text, text.workload, text.scope.level, text.scope.unit) == (body, "training", "project", "vision")
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(body.encode())))
    alone = muster("policies", "apply", "-f", "-")
    assert alone.err.startswith("<stdin>:1:1: kind: the document does not say what it is")
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(TENANT.encode())))
    framed = muster(*words)
    assert framed.err.startswith("<stdin>:1:1: kind: the document names its kind and scope itself")
    assert (alone.code, framed.code) == (2, 2)


def test_diff_shows_what_apply_would_do(muster: Command, world: World, folder: Path) -> None:
    (folder / "z.yaml").rename(folder / "z.txt")
    assert muster("policies", "apply", "-f", str(folder), "--source", "git").code == 0
    same = muster("policies", "diff", "-f", str(folder), "--source", "git")
    assert (same.code, same.out) == (0, "1 unchanged\n")
    (folder / "z.txt").rename(folder / "z.yaml")
    research = folder / "teams" / "research.yml"
    research.write_text(RESEARCH.replace("max: 6", "max: 3"))
    ran = muster("policies", "diff", "-f", str(folder), "--source", "git")
    assert ran.code == 1
    assert ran.out.splitlines() == [
        "training policy of department research: would be changed (research-trainings, version 2)",
        "--- training policy of department research, version 1",
        f"+++ {research}",
        "@@ -7,4 +7,4 @@",
        "     compute: {cpuCoreRequest: 1}",
        "     environmentVariables: {instances: [{name: HF_HOME, value: /models}]}",
        "   rules:",
        "-    backoffLimit: {max: 6}",
        "+    backoffLimit: {max: 3}",
        "training policy of tenant: would be created (house, version 1)",
        "--- /dev/null",
        f"+++ {folder}/z.yaml",
        "@@ -0,0 +1,10 @@",
        *(f"+{line}" for line in TENANT.splitlines()),
        "1 changed, 1 created",
    ]
    research.unlink()
    told = json.loads(muster("policies", "diff", "-f", str(folder), "--source", "git", "--json").out)
    assert [each["outcome"] for each in told["policies"]] == ["created", "removed"]
    assert told["policies"][1]["diff"].splitlines()[1:3] == ["+++ /dev/null", "@@ -1,10 +0,0 @@"]
    assert told["different"] is True
    (only,) = world.shelf.policies.values()
    assert (only.version, only.document) == (1, RESEARCH), "nothing was done"


def test_a_policy_that_changes_its_source_alone_is_a_difference(muster: Command, folder: Path) -> None:
    assert muster("policies", "apply", "-f", str(folder)).code == 0
    ran = muster("policies", "diff", "-f", str(folder / "z.yaml"), "--source", "git")
    assert (ran.code, ran.out.splitlines()) == (
        1,
        ["training policy of tenant: would be changed (house, version 2)", "1 changed"],
    )


def test_an_error_of_diff_is_no_difference(muster: Command, world: World, folder: Path) -> None:
    """Exit 1 says that there are differences, whatever the error would be elsewhere."""
    assert muster("policies", "apply", "-f", str(folder), "--source", "git").code == 0
    assert muster("policies", "diff", "-f", str(folder), "--source", "other").code == 2
    told = json.loads(muster("policies", "diff", "-f", str(folder), "--source", "other", "--json").err)
    assert told["error"]["code"] == "FAILED_PRECONDITION"
    world.fail("ApplyPolicies", Failure(code_pb2.PERMISSION_DENIED, "you may not"))
    assert muster("policies", "diff", "-f", str(folder)).code == 5


def test_an_export_is_applied_without_a_change(muster: Command, world: World, folder: Path, tmp_path: Path) -> None:
    (folder / "more.yaml").write_text(
        '# für alle\n---\n\n# of a project\nkind: Policy\nworkload: inference\nscope: {project: "ads"}\n'
        "policy:\n  # on purpose\n  rules: {}\n\n\n---\n"
    )
    assert muster("policies", "apply", "-f", str(folder), "--source", "git").code == 0
    target = tmp_path / "out" / "policies"
    ran = muster("policies", "export", str(target))
    assert (ran.code, ran.out) == (0, f"{target}: 3 policies\n")
    assert sorted(each.name for each in target.iterdir()) == [
        "inference-project-ads.yaml",
        "training-department-research.yaml",
        "training-tenant.yaml",
    ]
    documents = {file_name(each): each.document for each in world.shelf.policies.values()}
    assert {each.name: each.read_text() for each in target.iterdir()} == documents
    assert "# on purpose" in documents["inference-project-ads.yaml"]
    assert muster("policies", "diff", "-f", str(target)).out == "3 unchanged\n"
    assert muster("policies", "apply", "-f", str(target)).out.splitlines()[-1] == "3 unchanged"
    told = json.loads(muster("policies", "export", str(target), "--json").out)
    assert {each["file"] for each in told["policies"]} == {each.name for each in target.iterdir()}
    assert muster("policies", "delete", "inference", "-p", "ads").code == 0
    stale = muster("policies", "export", str(target))
    assert stale.code == 2
    assert "would be applied with it: inference-project-ads.yaml" in stale.err
    one = muster("policies", "export", str(tmp_path / "one"), "--tenant")
    assert one.out == f"{tmp_path}/one: 1 policy\n"


@pytest.mark.parametrize(
    "text",
    [
        "kind: Policy\r\nworkload: training\r\nscope: tenant\r\npolicy: {}\r\n",
        "\ufeffkind: Policy\nworkload: training\nscope: tenant\npolicy: {}",
        "--- {kind: Policy, workload: training, scope: tenant, policy: {}}\n...\n# the end\n",
        'kind: Policy\nname: |-\n  a\nworkload: training\nscope: {project: "x\\u2028y"}\npolicy: {}\n\n---\n# end\n',
    ],
)
def test_texts_of_every_editor_stay_unchanged(muster: Command, world: World, tmp_path: Path, text: str) -> None:
    file, target = tmp_path / "p.yaml", tmp_path / "out"
    file.write_bytes(text.encode())
    assert muster("policies", "apply", "-f", str(file)).code == 0
    assert muster("policies", "apply", "-f", str(file)).out.count(": unchanged (") == 1
    assert muster("policies", "export", str(target)).code == 0
    assert muster("policies", "diff", "-f", str(target)).out == "1 unchanged\n"


def test_an_export_goes_nowhere_else(muster: Command, world: World, tmp_path: Path) -> None:
    """Names come from others: no unit of a scope leads out of the folder."""
    for number, unit in enumerate(("../../out", "a/b", "..", ".hidden", "ü x")):
        policy = api.Policy(id=f"x-{number}", name="p", workload="training", document="kind: Policy\n")
        policy.scope.level, policy.scope.unit = "department", unit
        world.shelf.policies[policy.id] = policy
    target = tmp_path / "deep" / "target"
    assert muster("policies", "export", str(target)).code == 0
    names = sorted(each.relative_to(tmp_path).as_posix() for each in tmp_path.rglob("*.yaml"))
    assert names == [
        "deep/target/training-department-%C3%BC%20x.yaml",
        "deep/target/training-department-..%2F..%2Fout.yaml",
        "deep/target/training-department-...yaml",
        "deep/target/training-department-.hidden.yaml",
        "deep/target/training-department-a%2Fb.yaml",
    ]
    assert len({file_name(each) for each in world.shelf.policies.values()}) == 5


def test_an_export_into_what_is_no_folder(muster: Command, world: World, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    ran = muster("policies", "export", str(file))
    assert (ran.code, file.read_text()) == (2, "mine")
    assert muster("policies", "export", str(file / "below")).code == 2

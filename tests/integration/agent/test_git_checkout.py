"""The program that checks a repository out before a replica starts, with git's own server behind a password."""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import pytest
from aiohttp import web

from muster_cluster_agent import shims

PASSWORD = "a b%\"'$x"
IDENTITY = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_CONFIG_GLOBAL": "/dev/null",
}


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *words],  # noqa: S607
        cwd=folder,
        env={**os.environ, **IDENTITY},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


@dataclass
class Served:
    """A repository with three commits: the first one tagged v1, the last one on the branch `other`."""

    url: str
    ids: tuple[str, str, str]


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    work = tmp_path / "work"
    work.mkdir()
    git(work, "init", "-q", "-b", "main")
    ids = []
    for number in range(3):
        if number == 2:
            git(work, "checkout", "-q", "-b", "other")
        (work / "file").write_text(f"{number}\n")
        git(work, "add", "file")
        git(work, "commit", "-q", "-m", str(number))
        ids.append(git(work, "rev-parse", "HEAD"))
    git(work, "tag", "v1", ids[0])
    git(work, "checkout", "-q", "main")
    git(tmp_path, "clone", "-q", "--bare", str(work), "served.git")

    async def answer(request: web.Request) -> web.Response:
        asked = f"Basic {base64.b64encode(f'ann:{PASSWORD}'.encode()).decode()}"
        if request.headers.get("Authorization") != asked:
            return web.Response(status=401, headers={"WWW-Authenticate": "Basic"})
        return await through_git(tmp_path, request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    yield Served(f"http://127.0.0.1:{port}/served.git", (ids[0], ids[1], ids[2]))
    await runner.cleanup()


async def through_git(root: Path, request: web.Request) -> web.Response:
    """One request to git's own CGI program."""
    env = {
        **os.environ,
        "GIT_PROJECT_ROOT": str(root),
        "GIT_HTTP_EXPORT_ALL": "1",
        "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
        "PATH_INFO": request.path,
        "QUERY_STRING": request.query_string,
        "REQUEST_METHOD": request.method,
        "CONTENT_TYPE": request.content_type,
        "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding", ""),
    }
    process = await asyncio.create_subprocess_exec(
        "git", "http-backend", env=env, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate(await request.read())
    head, _, body = output.partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
    status = int(headers.pop("Status", "200").split()[0])
    return web.Response(status=status, headers=headers, body=body)


async def checked_out(
    folder: Path, url: str, branch: str = "", revision: str = "", password: str = PASSWORD
) -> tuple[int, str]:
    """Exit code and messages of the program."""
    env = {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "MUSTER_GIT_USERNAME": "ann",
        "MUSTER_GIT_PASSWORD": password,
    }
    Path(folder).mkdir()  # noqa: ASYNC240
    process = await asyncio.create_subprocess_exec(
        "/bin/sh",
        str(files(shims) / "git.sh"),
        str(folder),
        url,
        branch,
        revision,
        env=env,
        stderr=asyncio.subprocess.PIPE,
    )
    _, messages = await process.communicate()
    assert process.returncode is not None
    return process.returncode, messages.decode()


@pytest.mark.parametrize(
    ("branch", "revision", "content"),
    [
        ("", "", "1"),  # the server's own branch
        ("other", "", "2"),
        ("", "v1", "0"),
        ("main", "{0}", "0"),
        ("", "{2}", "2"),
        ("main", "{short}", "0"),
    ],
)
async def test_a_revision_is_checked_out(
    served: Served, tmp_path: Path, branch: str, revision: str, content: str
) -> None:
    asked = revision.format(*served.ids, short=served.ids[0][:9])
    folder = tmp_path / "a folder"
    assert await checked_out(folder, served.url, branch, asked) == (0, "")
    assert (folder / "file").read_text() == f"{content}\n"
    assert git(folder, "-c", "safe.directory=*", "rev-parse", "HEAD") == served.ids[int(content)]
    assert git(folder, "-c", "safe.directory=*", "branch", "--show-current") == branch
    assert (folder / "file").stat().st_mode & 0o022 == 0o022, "the image of the replica may have another user"
    kept = "".join(each.read_text(errors="replace") for each in (folder / ".git").iterdir() if each.is_file())
    assert PASSWORD not in kept


async def test_without_a_revision_the_history_stays_at_the_server(served: Served, tmp_path: Path) -> None:
    await checked_out(tmp_path / "f", served.url, "main")
    assert git(tmp_path / "f", "-c", "safe.directory=*", "rev-list", "--count", "HEAD") == "1"


@pytest.mark.parametrize(
    ("branch", "revision", "password", "words"),
    [
        ("", "", "wrong", "Authentication failed"),
        ("", "", "", "could not read Username"),
        ("none", "", PASSWORD, "couldn't find remote ref refs/heads/none"),
        ("", "none", PASSWORD, "none"),
        ("", "--upload-pack=x", PASSWORD, "begins with a dash"),
    ],
)
async def test_what_is_wrong_is_said(
    served: Served, tmp_path: Path, branch: str, revision: str, password: str, words: str
) -> None:
    code, messages = await checked_out(tmp_path / "f", served.url, branch, revision, password)
    assert code != 0
    assert words in messages
    assert PASSWORD not in messages


async def test_other_ways_than_http_and_ssh_are_closed(tmp_path: Path) -> None:
    code, messages = await checked_out(tmp_path / "f", "ext::sh -c 'touch pwned'")
    assert code != 0
    assert "transport 'ext' not allowed" in messages
    assert not (tmp_path / "f" / "pwned").exists()


async def test_a_private_key_is_used_with_ssh_and_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    seen = tmp_path / "seen"
    ssh = programs / "ssh"
    ssh.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" >> {seen}\nstat -c %a .git/muster-key >> {seen}\n'
        f"cat .git/muster-key >> {seen}\nexit 1\n"
    )
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----"
    code, _ = await checked_out(tmp_path / "f", "git@git.example:a/b.git", password=key)
    assert code != 0
    lines = seen.read_text().splitlines()
    assert lines[:2] == ["-i", ".git/muster-key"]
    assert "git@git.example" in lines
    assert "600" in lines
    assert "abc" in lines
    assert not (tmp_path / "f" / ".git" / "muster-key").exists()


async def test_an_image_without_git_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    sh = shutil.which("sh")
    assert sh is not None
    (programs / "sh").symlink_to(sh)
    monkeypatch.setenv("PATH", str(programs))
    code, messages = await checked_out(tmp_path / "f", "https://git.example/a")
    assert (code, "the image for git in the cluster file has no git" in messages) == (127, True)

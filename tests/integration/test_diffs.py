"""What a task's branch changes, over a real socket and real git: the list, one file, the patch."""

import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from orchestrator.formats.diffs.unified_diff import Hunk
from orchestrator.workspaces.evaluation import changes
from orchestrator.workspaces.evaluation.changes import list_changes
from orchestrator.workspaces.git import Git, GitError
from tests.fakes.in_process_daemon import InProcessDaemon, create_daemon
from tests.fakes.repositories import Trap, commit, git, repository

AWS_KEY = "AKIA" + "ABCDEFGHIJKLMNOP"


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InProcessDaemon:
    """A daemon in a home without settings, and a repository."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    repository(
        tmp_path / "repo", {"kept.py": "a = 1\nb = 2\nc = 3\n", "gone.txt": "away\n", "moved.txt": "long\n" * 20}
    )
    return create_daemon(tmp_path / "data")


async def submitted(client: httpx.AsyncClient, tmp_path: Path) -> str:
    body = {"text": "Change it", "repo": str(tmp_path / "repo")}
    found: str = (await client.post("/api/tasks", json=body)).json()["id"]
    return found


def worktree_of(daemon: InProcessDaemon, task_id: str, tmp_path: Path) -> Path:
    """The task's worktree as its first stage makes it."""
    task = daemon.supervisor.tasks[task_id]
    made = daemon.workspace.prepare(task_id, tmp_path / "repo", task.source.base_commit, task.source.branch)
    return made.worktree


async def begun(client: httpx.AsyncClient, daemon: InProcessDaemon, tmp_path: Path) -> tuple[str, Path]:
    """A submitted task and its worktree."""
    task_id = await submitted(client, tmp_path)
    await daemon.inbox.settled()
    return task_id, worktree_of(daemon, task_id, tmp_path)


def seen(daemon: InProcessDaemon, task_id: str, worktree: Path) -> None:
    """Let the daemon take in what was committed there."""
    daemon.workspace.clone_of(task_id).take_in(worktree, task_id)


def with_patch(repo: Path, patch: bytes) -> dict[str, str]:
    """The files of a repository after a patch was applied to it."""
    subprocess.run(["git", "-C", repo, "apply", "-"], input=patch, check=True)
    files = (path for path in repo.rglob("*") if path.is_file() and ".git" not in path.parts)
    return {str(path.relative_to(repo)): path.read_text() for path in files}


async def listed(client: httpx.AsyncClient, task_id: str) -> dict[str, Any]:
    answer = await client.get(f"/api/tasks/{task_id}/diff")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_every_kind_of_change_is_listed_and_each_file_shows_its_lines(
    client: httpx.AsyncClient, daemon: InProcessDaemon, tmp_path: Path
) -> None:
    task_id, worktree = await begun(client, daemon, tmp_path)
    (worktree / "gone.txt").unlink()
    (worktree / "moved.txt").rename(worktree / "there.txt")
    (worktree / "kept.py").write_text("a = 1\nb = 20\nc = 3\n")
    (worktree / "new.bin").write_bytes(bytes(range(256)))
    (worktree / "link").symlink_to("/etc/passwd")
    (worktree / "run.sh").write_text("true\n")
    (worktree / "run.sh").chmod(0o755)
    git(worktree, "add", "-A")
    git(worktree, "update-index", "--add", "--cacheinfo", f"160000,{git(worktree, 'rev-parse', 'HEAD')},module")
    git(worktree, "commit", "--quiet", "-m", "everything")
    seen(daemon, task_id, worktree)
    found = await listed(client, task_id)
    shown = {one["path"]: (one["status"], one["kind"], one["additions"], one["binary"]) for one in found["files"]}
    assert shown == {
        "gone.txt": ("removed", "file", 0, False),
        "kept.py": ("modified", "file", 1, False),
        "link": ("added", "link", 1, False),
        "module": ("added", "submodule", 1, False),
        "new.bin": ("added", "file", None, True),
        "run.sh": ("added", "file", 1, False),
        "there.txt": ("renamed", "file", 0, False),
    }
    assert (found["complete"], found["additions"], found["deletions"]) == (True, 4, 2)
    assert [one["subject"] for one in found["commits"]] == ["everything"]
    file = (await client.get(f"/api/tasks/{task_id}/diff", params={"path": "kept.py"})).json()
    assert [(line["old"], line["new"], line["text"]) for line in file["hunks"][0]["lines"]] == [
        (1, 1, "a = 1"),
        (2, None, "b = 2"),
        (None, 2, "b = 20"),
        (3, 3, "c = 3"),
    ]
    binary = (await client.get(f"/api/tasks/{task_id}/diff", params={"path": "new.bin"})).json()
    assert binary["hunks"] == []


async def test_the_patch_applies_to_the_base_and_comes_as_a_diff(
    client: httpx.AsyncClient, daemon: InProcessDaemon, tmp_path: Path
) -> None:
    task_id, worktree = await begun(client, daemon, tmp_path)
    commit(worktree, {"kept.py": "a = 1\nc = 3", "sub/new file.txt": "x\n" * 5000, 'q"uote\\ .txt': "y\n"})
    seen(daemon, task_id, worktree)
    for how in ({"params": {"format": "patch"}}, {"headers": {"Accept": "text/x-diff"}}):
        answer = await client.get(f"/api/tasks/{task_id}/diff", **how)  # type: ignore[arg-type]  # either way to ask
        assert answer.headers["content-type"].startswith("text/x-diff")
    applied = with_patch(tmp_path / "repo", answer.content)
    assert applied["kept.py"] == "a = 1\nc = 3"
    assert applied["sub/new file.txt"] == "x\n" * 5000


async def test_a_secret_is_masked_in_lines_names_messages_and_the_patch(
    client: httpx.AsyncClient, daemon: InProcessDaemon, tmp_path: Path
) -> None:
    task_id, worktree = await begun(client, daemon, tmp_path)
    commit(worktree, {"kept.py": f"key = '{AWS_KEY}'\n", f"{AWS_KEY}.txt": "x\n"}, f"use {AWS_KEY}")
    seen(daemon, task_id, worktree)
    found = await listed(client, task_id)
    file = await client.get(f"/api/tasks/{task_id}/diff", params={"path": "kept.py"})
    patch = await client.get(f"/api/tasks/{task_id}/diff", params={"format": "patch"})
    for text in (str(found), file.text, patch.text):
        assert "REDACTED" in text
        assert AWS_KEY not in text
    hidden = next(one for one in found["files"] if "REDACTED" in one["path"])
    by_id = await client.get(f"/api/tasks/{task_id}/diff", params={"path": hidden["id"]})
    assert by_id.json()["hunks"][0]["lines"][0]["text"] == "x"


NAMES = (b"\xff\xfe.txt", b"new\nline", b"-rf", b'"quoted"', b":(glob)**", b"tab\there", b"\xed\x95\x9c.md", b" ")


async def test_a_file_of_any_name_can_be_looked_at(
    client: httpx.AsyncClient, daemon: InProcessDaemon, tmp_path: Path
) -> None:
    task_id, worktree = await begun(client, daemon, tmp_path)
    commit(worktree, {os.fsdecode(name): f"{number}\n" for number, name in enumerate(NAMES)})
    seen(daemon, task_id, worktree)
    found = await listed(client, task_id)
    assert len(found["files"]) == len(NAMES)
    assert all(one["path"].isprintable() for one in found["files"])
    texts = set()
    for one in found["files"]:
        file = (await client.get(f"/api/tasks/{task_id}/diff", params={"path": one["id"]})).json()
        texts.add(file["hunks"][0]["lines"][0]["text"])
    assert texts == {str(number) for number in range(len(NAMES))}


async def test_a_long_diff_comes_in_parts_and_a_huge_line_is_cut(
    client: httpx.AsyncClient, daemon: InProcessDaemon, tmp_path: Path
) -> None:
    task_id, worktree = await begun(client, daemon, tmp_path)
    commit(worktree, {"long.txt": "".join(f"{number}\n" for number in range(9000)), "wide.txt": "w" * 1_000_000})
    seen(daemon, task_id, worktree)
    read: list[str] = []
    line: int | None = 0
    while line is not None:
        params = {"path": "long.txt", "line": str(line)}
        part = (await client.get(f"/api/tasks/{task_id}/diff", params=params)).json()
        read += [row["text"] for hunk in part["hunks"] for row in hunk["lines"]]
        assert sum(len(hunk["lines"]) for hunk in part["hunks"]) <= 4000
        line = part["nextLine"]
    assert read == [str(number) for number in range(9000)]
    wide = (await client.get(f"/api/tasks/{task_id}/diff", params={"path": "wide.txt"})).json()
    (row,) = wide["hunks"][0]["lines"]
    assert len(row["text"]) + row["leftOut"] == 1_000_000
    assert len(row["text"]) < 5000


async def test_a_patch_above_its_bound_says_that_it_was_cut(
    client: httpx.AsyncClient, daemon: InProcessDaemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.daemon.history.diffs.LARGEST_PATCH", 20_000)
    task_id, worktree = await begun(client, daemon, tmp_path)
    commit(worktree, {f"{number}.txt": "x\n" * 1000 for number in range(20)})
    seen(daemon, task_id, worktree)
    patch = (await client.get(f"/api/tasks/{task_id}/diff", params={"format": "patch"})).text
    assert patch.endswith("# cut here: the patch is larger than 20000 bytes\n")
    assert len(patch) < 21_000


async def test_what_is_not_there_is_said(client: httpx.AsyncClient, daemon: InProcessDaemon, tmp_path: Path) -> None:
    task_id = await submitted(client, tmp_path)
    await daemon.inbox.settled()
    early = await client.get(f"/api/tasks/{task_id}/diff")
    assert (early.status_code, "no branch yet" in early.json()["detail"]) == (404, True)
    worktree = worktree_of(daemon, task_id, tmp_path)
    assert (await listed(client, task_id))["files"] == []
    missing = await client.get(f"/api/tasks/{task_id}/diff", params={"path": "none.txt"})
    assert (missing.status_code, missing.json()["type"].rpartition(":")[2]) == (404, "no-such-file")
    commit(worktree, {"kept.py": "a\n"})
    seen(daemon, task_id, worktree)
    daemon.workspace.remove(task_id)
    assert [one["path"] for one in (await listed(client, task_id))["files"]] == ["kept.py"]


def test_programs_that_a_repository_names_are_not_run(tmp_path: Path) -> None:
    base = repository(tmp_path / "repo")
    head = commit(tmp_path / "repo", {"a.txt": "two\n", ".gitattributes": "* diff=trap filter=trap\n"})
    trap = Trap(tmp_path / "trap")
    trap.set_in(tmp_path / "repo/.git")
    found = list_changes(Git.own(tmp_path / "repo/.git"), base, head)
    with changes.compare(Git.own(tmp_path / "repo/.git"), base, head) as sections:
        assert len(list(sections)) > 2
    assert (len(found.files), trap.sprung) == (2, "")


def test_a_change_of_too_many_files_is_listed_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = repository(tmp_path / "repo")
    head = commit(tmp_path / "repo", {f"{number}.txt": "x\n" for number in range(30)})
    monkeypatch.setattr(changes, "MOST_FILES", 10)
    found = list_changes(Git.own(tmp_path / "repo/.git"), base, head)
    assert (len(found.files), found.complete, found.counted) == (10, False, False)
    monkeypatch.setattr(changes, "_LARGEST_LIST", 1000)
    found = list_changes(Git.own(tmp_path / "repo/.git"), base, head)
    assert (found.complete, all(one.path.endswith(".txt") for one in found.files)) == (False, True)


def test_git_that_takes_too_long_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = repository(tmp_path / "repo")
    head = commit(tmp_path / "repo", {f"{number}.txt": "x\n" * 2000 for number in range(200)})
    repo = Git.own(tmp_path / "repo/.git")
    monkeypatch.setattr(changes, "LONGEST_PATCH_TIME", 0.0)
    with changes.compare(repo, base, head) as sections:
        for late in [one for one in threading.enumerate() if isinstance(one, threading.Timer)]:
            late.join()  # git waits for a reader until then: its pipe is smaller than the patch
        with pytest.raises(GitError, match="did not end in time"):
            list(sections)


def test_a_page_gives_git_ten_seconds_and_compares_no_file_of_more_than_a_mebibyte(tmp_path: Path) -> None:
    assert changes.LONGEST_TIME <= 10
    base = repository(tmp_path / "repo", {"large.txt": "a\n" * 600_000, "small.txt": "a\n"})
    head = commit(tmp_path / "repo", {"large.txt": "b\n" * 600_000, "small.txt": "b\n"})
    repo = Git.own(tmp_path / "repo/.git")
    large, small = list_changes(repo, base, head).files
    assert (large.binary, large.added, small.binary, small.added) == (True, None, False, 1)
    with changes.compare(repo, base, head, large) as sections:
        assert not [one for one in sections if isinstance(one, Hunk)]
    with changes.compare(repo, base, head) as sections:
        assert len([one for one in sections if isinstance(one, Hunk)]) > 1, "the patch can be applied as a whole"


async def test_a_change_in_letters_of_several_bytes_is_not_withheld(
    client: httpx.AsyncClient, daemon: InProcessDaemon, tmp_path: Path
) -> None:
    task_id, worktree = await begun(client, daemon, tmp_path)
    commit(worktree, {"한국어.md": "".join("🦊" * 1000 + "\n" for _ in range(250))})
    seen(daemon, task_id, worktree)
    file = (await client.get(f"/api/tasks/{task_id}/diff", params={"path": "한국어.md"})).json()
    assert {line["text"] for hunk in file["hunks"] for line in hunk["lines"]} == {"🦊" * 1000}

"""The inbox over real files and a real store: what is taken, when, in which order, and what is refused."""

import grp
import os
import pwd
import socket
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from orchestrator.core.task.task import Task
from orchestrator.core.task.task_policy import Autonomy
from orchestrator.daemon.intake.folder import InboxRefused, is_known, opened, require_safe
from orchestrator.daemon.intake.records import IntakeKind, IntakeRecord
from orchestrator.daemon.intake.ticket_file import LARGEST
from orchestrator.settings.sections.intake import InboxSettings
from tests.fakes.in_process_daemon import InProcessDaemon, create_daemon, serving
from tests.fakes.repositories import commit, git
from tests.fakes.waiting import running, until

PATIENCE = 30.0
EVER = (datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


class Site:
    """An in-process daemon with an inbox, and a repository."""

    def __init__(self, root: Path, **settings: object) -> None:
        self.root, self.folder, self.repo = root, root / "inbox", root / "repo"
        self.repo.mkdir()
        git(self.repo, "init", "--quiet", "--initial-branch=main")
        commit(self.repo, {"README.md": "# x\n"})
        self.folder.mkdir(mode=0o700)
        self.desk = create_daemon(root / "data")
        self.set(**settings)

    def set(self, **settings: object) -> None:
        values = {"folder": self.folder, "repo": self.repo, "settle": 0.05, **settings}
        inbox = InboxSettings.model_validate(values)
        self.desk.settings = self.desk.settings.model_copy(update={"inbox": inbox})

    def put(self, name: str, content: str | bytes = "Do it\n") -> Path:
        """Put a whole file into the inbox, as `mv` does."""
        draft = self.root / "draft"
        draft.write_bytes(content if isinstance(content, bytes) else content.encode())
        return draft.rename(self.folder / name)

    @property
    def tasks(self) -> list[Task]:
        return sorted(self.desk.supervisor.tasks.values(), key=lambda task: task.timing.created_at)

    def records(self, kind: IntakeKind) -> list[IntakeRecord]:
        return [one for one in self.desk.service.intake.records.newest(1000) if one.kind is kind]

    def reason(self, name: str) -> str:
        return (self.folder / "refused" / f"{name}.reason.txt").read_text().strip()


@asynccontextmanager
async def taking(site: Site) -> AsyncIterator[InProcessDaemon]:
    """Run the daemon with its inbox."""
    async with serving(site.desk), running(site.desk.service.intake.run_inbox()):
        yield site.desk


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


async def test_a_file_becomes_a_task_and_is_moved_to_done_with_the_id_beside_it(site: Site) -> None:
    site.put("slug.md", "---\ntitle: Slugs\npriority: high\nbudget: 3\nchecks:\n  - t=true\n---\nAdd slugify\n")
    async with taking(site):
        await until((site.folder / "done" / "slug.md").exists)
        (task,) = site.tasks
        note = orjson.loads((site.folder / "done" / "slug.md.task.json").read_bytes())
        assert note["task"] == task.id
        assert (task.title, task.schedule.priority, task.policy.caps.usd) == ("Slugs", "high", 3.0)
        assert "true" in {check.command for check in task.evaluation.checks}
        (record,) = site.records(IntakeKind.TAKEN)
        assert (record.source, record.name, record.task) == ("inbox", "slug.md", task.id)
        assert "sha256 " in record.evidence
        assert sorted(names_in(site.folder)) == ["done", "refused", "taking"]
        await until(lambda: not list((site.root / "data/intake/pending").iterdir()))


async def test_json_is_taken_as_the_api_takes_it(site: Site) -> None:
    body = {"text": "Do it", "title": "From JSON", "repo": str(site.repo), "autonomy": "interactive", "usd": 2}
    site.put("a.json", orjson.dumps(body))
    async with taking(site):
        await until(lambda: site.tasks)
    (task,) = site.tasks
    assert (task.title, task.policy.autonomy, task.policy.caps.usd) == ("From JSON", Autonomy.INTERACTIVE, 2.0)


async def test_a_file_that_is_half_written_is_taken_only_when_it_is_whole(site: Site) -> None:
    async with taking(site):
        with (site.folder / "slow.md").open("w") as slow:
            slow.write("Add ")
            slow.flush()
            site.put("whole.md")
            await until((site.folder / "done" / "whole.md").exists)
            await until(lambda: site.desk.service.intake.inbox.state.waiting == 1)
            assert (site.folder / "slow.md").exists()
            slow.write("slugify")
        await until((site.folder / "done" / "slow.md").exists)
        assert (site.folder / "done" / "slow.md").read_text() == "Add slugify"
        assert len(site.tasks) == 2


async def test_files_are_taken_in_the_order_of_their_times_and_unfinished_ones_are_left(site: Site) -> None:
    for number in (3, 1, 2):
        path = site.put(f"{number}.md", f"Task {number}\n")
        os.utime(path, (1_700_000_000 + number,) * 2)
    for name in (".hidden.md", "a.md~", "b.part", "c.tmp", ".d.md.swp"):
        site.put(name)
    async with taking(site):
        await until(lambda: len(list((site.folder / "done").glob("*.md"))) == 3)
    assert [task.title for task in site.tasks] == ["Task 1", "Task 2", "Task 3"]
    assert len([name for name in names_in(site.folder) if name not in {"done", "refused", "taking"}]) == 5


async def test_a_full_queue_keeps_files_waiting_and_loses_none(site: Site) -> None:
    site.set(most_waiting=2)
    for number in range(5):
        site.put(f"{number}.md", f"Task {number}\n")
    async with taking(site) as desk:
        await until(lambda: "wait to begin" in desk.service.intake.inbox.state.trouble)
        assert 2 <= len(site.tasks) <= 3
        assert desk.service.intake.troubles()[0].startswith("inbox: ")
        site.set(most_waiting=100)
        desk.service.intake.hurry()
        await until(lambda: len(site.tasks) == 5)
        await until(lambda: not desk.service.intake.troubles())


async def test_tasks_whose_start_time_has_not_come_keep_no_file_waiting(site: Site) -> None:
    site.set(most_waiting=2)
    for number in range(5):
        site.put(f"{number}.md", f"---\nat: 2099-01-01T00:00:00Z\n---\nTask {number}\n")
    async with taking(site) as desk:
        await until(lambda: len(site.tasks) == 5)
        await until(lambda: not desk.service.intake.troubles())


async def test_a_repository_that_is_missing_for_all_refuses_no_file_and_is_told_once(site: Site) -> None:
    site.set(repo=site.root / "nowhere")
    site.put("a.md")
    async with taking(site) as desk:
        await until(desk.service.intake.troubles)
        site.set()
        desk.service.intake.hurry()
        await until((site.folder / "done" / "a.md").exists)
        await until(lambda: site.records(IntakeKind.RECOVERED))
    assert len(site.records(IntakeKind.FAILED)) == 1
    assert not site.records(IntakeKind.REFUSED)


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


def _link_out(path: Path) -> None:
    secret = path.parent.parent / "secret"
    secret.write_text("the secret")
    path.symlink_to(secret)


def _hard_link(path: Path) -> None:
    secret = path.parent.parent / "secret"
    secret.write_text("the secret")
    path.hardlink_to(secret)


def _unreadable(path: Path) -> None:
    path.write_text("Do it")
    path.chmod(0)


def _text(content: str | bytes) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    return write


HOSTILE: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "a FIFO": ("pipe", _fifo, "a FIFO"),
    "a socket": ("sock", _socket, "a socket"),
    "a link out": ("link.md", _link_out, "a link"),
    "a link to itself": ("loop.md", lambda path: path.symlink_to(path), "a link"),
    "a link to nothing": ("gone.md", lambda path: path.symlink_to("/nowhere/at/all"), "a link"),
    "a link to a device": ("zero.md", lambda path: path.symlink_to("/dev/zero"), "a link"),
    "a hard link": ("hard.md", _hard_link, "a second name"),
    "too large": ("large.md", _text(b"x" * (LARGEST + 1)), "larger than 1 MiB"),
    "sparse and huge": ("sparse.md", lambda path: os.truncate(_made(path), 1 << 40), "larger than 1 MiB"),
    "empty": ("empty.md", _text(""), "empty"),
    "only spaces": ("spaces.md", _text(" \n\t\n"), "empty"),
    "binary": ("binary.md", _text(b"\x7fELF\0\0\0"), "is not text"),
    "not UTF-8": ("latin.md", _text(b"caf\xe9"), "is not UTF-8"),
    "a YAML bomb": ("bomb.md", _text("---\na: &a [x, x]\nb: [*a, *a]\n---\nDo it"), "anchors"),
    "deep YAML": ("deep.md", _text("---\na: " + "[" * 500 + "\n---\nDo it"), "front matter"),
    "an object in YAML": ("tag.md", _text("---\na: !!python/object:os.system x\n---\nDo it"), "tags"),
    "an unknown option": ("typo.md", _text("---\nbudgt: 3\n---\nDo it"), "did you mean 'budget'?"),
    "deep JSON": ("deep.json", _text("[" * 100_000), "not JSON"),
    "a JSON list": ("list.json", _text("[]"), "no object"),
    "JSON without text": ("none.json", _text("{}"), "text"),
    "a relative repository": ("rel.md", _text("---\nrepo: ../../etc\n---\nDo it"), "no absolute path"),
    "a repository that is none": ("etc.md", _text("---\nrepo: /etc\n---\nDo it"), "/etc"),
    "a NUL in the repository": ("nul.json", _text('{"text": "x", "repo": "/tmp/\\u0000x"}'), "no absolute path"),
    "an endless budget": ("inf.md", _text("---\nbudget: inf\n---\nDo it"), "usd"),
    "a negative budget": ("neg.json", _text('{"text": "x", "usd": -1}'), "usd"),
    "an unknown pipeline": ("pipe.md", _text("---\npipeline: nothing\n---\nDo it"), "no pipeline"),
    "a branch as an option": ("base.md", _text("---\nbase: --upload-pack=x\n---\nDo it"), "--upload-pack"),
    "a key that is a path": ("key.md", _text("---\nticket: ../../x\n---\nDo it"), "not a ticket key"),
    "an unknown predecessor": ("after.md", _text("---\nafter: [NOPE-1]\n---\nDo it"), "no task NOPE-1"),
    "a secret in the text": ("key.txt", _text("-----BEGIN " + "PRIVATE KEY-----\nAAAA"), "must not be passed on"),
    "a name of control characters": ("a\x1b[2J\nb.md", _text("Do it"), "control characters"),
    "a name that is not UTF-8": (os.fsdecode(b"caf\xe9.md"), _text("Do it"), "not UTF-8"),
    "a name that turns text around": ("a\u202egnp.md", _text("Do it"), "control characters"),
    "a name that is too long": ("x" * 240, _text("Do it"), "longer than"),
}


def _made(path: Path) -> Path:
    path.write_bytes(b"x")
    return path


async def test_hostile_files_are_refused_with_the_reason_and_harm_nothing(site: Site) -> None:
    if os.geteuid():  # root reads everything
        HOSTILE["unreadable"] = ("closed.md", _unreadable, "cannot be read")
    for name, make, _ in HOSTILE.values():
        make(site.folder / name)
    (site.folder / "folder.md").mkdir()
    site.put("good.md", "Do it\n")
    async with taking(site):
        await until((site.folder / "done" / "good.md").exists)
        await until(lambda: len(site.records(IntakeKind.REFUSED)) == len(HOSTILE) + 1)
        reasons = [path.read_text() for path in (site.folder / "refused").glob("*.reason.txt")]
        assert len(reasons) == len(HOSTILE)
        for form, (_, _, words) in HOSTILE.items():
            assert any(words in reason for reason in reasons), (form, sorted(reasons))
        assert len(site.tasks) == 1
        left = set(names_in(site.folder)) - {"done", "refused", "taking"}
        assert left == {"folder.md"}
        assert not names_in(site.folder / "taking")
        assert all(name.isprintable() for name in names_in(site.folder / "refused"))
        assert (site.root / "secret").read_text() == "the secret"
        noted = await site.desk.service.intake.notes(*EVER)
        assert any("more were refused" in line for line in noted)


def test_a_folder_that_anybody_can_write_in_is_no_inbox(tmp_path: Path) -> None:
    folder = tmp_path / "inbox"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(InboxRefused, match="chmod o-w"):
        require_safe(folder)
    folder.chmod(0o1777)
    with pytest.raises(InboxRefused, match="every user"):
        require_safe(folder)
    folder.chmod(0o770)
    require_safe(folder)
    (tmp_path / "file").write_text("")
    with pytest.raises(InboxRefused, match="no folder"):
        require_safe(tmp_path / "file")
    above = tmp_path / "above"
    (above / "inbox").mkdir(parents=True)
    above.chmod(0o777)
    with pytest.raises(InboxRefused, match="exchange"):
        require_safe(above / "inbox")


def test_folders_below_that_were_exchanged_for_links_are_not_followed(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "inbox", tmp_path / "elsewhere"
    folder.mkdir(mode=0o700)
    elsewhere.mkdir()
    (folder / "done").symlink_to(elsewhere)
    with pytest.raises(InboxRefused, match="done"), opened(folder):
        pass
    (folder / "done").unlink()
    (folder / "done").mkdir()
    (folder / "done").chmod(0o777)
    with pytest.raises(InboxRefused, match="alone"), opened(folder):
        pass
    assert not list(elsewhere.iterdir())


async def test_an_inbox_that_is_not_safe_takes_nothing_until_it_is(site: Site) -> None:
    site.put("a.md")
    site.folder.chmod(0o777)
    async with taking(site) as desk:
        await until(lambda: any("chmod o-w" in one for one in desk.service.intake.troubles()))
        assert not site.tasks
        found = await desk.service.oversight.doctor.examine()
        assert any(one.name == "inbox" and "chmod o-w" in one.text for one in found.findings)
        site.folder.chmod(0o700)
        desk.service.intake.hurry()
        await until((site.folder / "done" / "a.md").exists)


def test_files_of_other_users_count_if_they_or_their_group_are_listed() -> None:
    other = next(one for one in pwd.getpwall() if one.pw_uid not in {0, os.geteuid()})
    group = grp.getgrgid(other.pw_gid).gr_name
    assert not is_known(other.pw_uid, (), ())
    assert is_known(other.pw_uid, (other.pw_name,), ())
    assert is_known(other.pw_uid, (), (group,))
    assert not is_known(other.pw_uid, ("nobody-else",), ("no-such-group",))
    assert not is_known(2**31 - 7, (other.pw_name,), (group,))
    assert is_known(os.geteuid(), (), ())


async def test_files_of_listed_users_choose_nothing_that_runs_or_costs_more(site: Site) -> None:
    if os.geteuid():
        pytest.skip("only root can give files to another user")
    other = next(one for one in pwd.getpwall() if one.pw_uid)
    site.set(users=[other.pw_name], budget=2)
    site.folder.chmod(0o755)
    for name, options in {
        "run.md": "checks:\n  - a=b", "else.md": "repo: /srv/x", "merge.md": "auto_merge: true", "fine.md": "budget: 9",
    }.items():  # fmt: skip
        path = site.folder / f".{name}"
        path.write_text(f"---\n{options}\n---\nDo it\n")
        os.chown(path, other.pw_uid, other.pw_gid)
        path.rename(site.folder / name)
    async with taking(site):
        await until((site.folder / "done" / "fine.md").exists)
        await until(lambda: len(site.records(IntakeKind.REFUSED)) == 3)
    (task,) = site.tasks
    assert task.policy.caps.usd == 2
    assert "other users may name" in site.reason("else.md")


async def test_a_file_that_was_taken_is_the_same_one_after_a_restart_on_another_device(site: Site) -> None:
    site.put("a.md", "Add slugify\n")
    inbox = site.desk.service.intake.inbox
    with opened(site.folder) as folder:
        (file,) = folder.listing(10).oldest
        moved = folder.take(file)
        inode, size, changed, device = moved.version
        renumbered = replace(moved, version=(inode + 1, size, changed, device + 1))
        async with serving(site.desk):
            (site.folder / "done").rmdir()  # the task is committed, and then the file cannot be moved
            with suppress(OSError):
                await inbox._process(folder, moved, site.desk.settings.inbox)  # noqa: SLF001 - the crash comes within
            with suppress(OSError):
                await inbox._process(folder, renumbered, site.desk.settings.inbox)  # noqa: SLF001 - as after a reboot
    assert len(site.tasks) == 1


async def test_a_task_that_was_committed_before_a_crash_is_not_made_again(site: Site) -> None:
    site.put("a.md", "Add slugify\n")
    inbox = site.desk.service.intake.inbox
    async with serving(site.desk):
        with opened(site.folder) as folder:
            (file,) = folder.listing(10).oldest
            moved = folder.take(file)
            site.folder.joinpath("done").chmod(0o500)  # the task is committed, and then the file cannot be moved
            if os.geteuid() == 0:
                site.folder.joinpath("done").chmod(0o700)
                (site.folder / "done").rmdir()
            with suppress(OSError):
                await inbox._process(folder, moved, site.desk.settings.inbox)  # noqa: SLF001 - the crash comes within
        assert len(site.tasks) == 1
        assert names_in(site.folder / "taking") == ["a.md"]
    if (site.folder / "done").exists():
        site.folder.joinpath("done").chmod(0o700)
    async with taking(site):
        await until((site.folder / "done" / "a.md").exists)
    assert len(site.tasks) == 1
    note = orjson.loads((site.folder / "done" / "a.md.task.json").read_bytes())
    assert note["task"] == site.tasks[0].id
    assert stat.S_IMODE((site.folder / "done" / "a.md.task.json").stat().st_mode) == 0o600

"""Reading an outbox that an untrusted process fills."""

import hashlib
import os
import socket
import stat
import time
from pathlib import Path

import pytest

from orchestrator.workspaces.outbox import MAX_ENTRIES, Imported, OutboxError, OutboxLimits, import_files, read_text

ALLOWED = ("analysis.md", "plan.md", "design-v*.md")


@pytest.fixture
def outbox(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@pytest.fixture
def task(tmp_path: Path) -> Path:
    (tmp_path / "task").mkdir()
    return tmp_path / "task"


def reasons(taken: Imported) -> dict[str, str]:
    return {refusal.name: refusal.reason for refusal in taken.refused}


def test_requested_files_are_read_completely_and_stored_privately(outbox: Path, task: Path) -> None:
    (outbox / "analysis.md").write_text("# Größe\n")
    (outbox / "design-v2.md").write_text("")
    taken = import_files(outbox, ALLOWED, task)
    assert [(file.name, file.size, file.new) for file in taken.files] == [
        ("analysis.md", 10, True),
        ("design-v2.md", 0, True),
    ]
    assert taken.files[0].sha256 == hashlib.sha256("# Größe\n".encode()).hexdigest()
    assert taken.refused == ()
    assert read_text(task, "analysis.md") == "# Größe\n"
    assert stat.S_IMODE((task / "analysis.md").stat().st_mode) == 0o600
    assert {path.name for path in task.iterdir()} == {"analysis.md", "design-v2.md"}


def test_what_a_terminal_would_obey_is_taken_out(outbox: Path, task: Path) -> None:
    content = "\x1b[2Jall\x1b]0;title\x07 \u202egreen\u200b\tGröße\r\n"
    (outbox / "plan.md").write_bytes(content.encode())
    taken = import_files(outbox, ALLOWED, task)
    assert read_text(task, "plan.md") == "all]0;title green\tGröße\n"
    assert taken.files[0].sha256 == hashlib.sha256((task / "plan.md").read_bytes()).hexdigest()
    assert not import_files(outbox, ALLOWED, task).files[0].new


def test_the_same_content_is_not_written_again(outbox: Path, task: Path) -> None:
    (outbox / "plan.md").write_text("one")
    import_files(outbox, ALLOWED, task)
    before = (task / "plan.md").stat()
    again = import_files(outbox, ALLOWED, task)
    assert (again.files[0].new, (task / "plan.md").stat().st_ino) == (False, before.st_ino)
    (outbox / "plan.md").write_text("two")
    assert import_files(outbox, ALLOWED, task).files[0].new
    assert read_text(task, "plan.md") == "two"


def test_files_that_were_not_requested_stay_where_they_are(outbox: Path, task: Path) -> None:
    for name in (
        "state.json",
        "journal.jsonl",
        ".analysis.md",
        "analysis.md.bak",
        "design-v1.md\n",
        "bad\udcff.md",
        "\x1b[2J",
    ):
        (outbox / name).write_text("x")
    taken = import_files(outbox, ALLOWED, task)
    assert taken.files == ()
    assert len(taken.refused) == 7
    assert all(refusal.name.isprintable() and refusal.reason.isprintable() for refusal in taken.refused)
    assert list(task.iterdir()) == []


def test_a_wide_pattern_admits_no_hidden_or_unprintable_name(outbox: Path, task: Path) -> None:
    for name in ("a\nb", "tab\t", "\udcff", ".hidden", "n" * 240):
        (outbox / name).write_text("x")
    assert import_files(outbox, ("*",), task).files == ()


def test_anything_but_a_plain_file_is_refused_at_once(outbox: Path, task: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (outbox / "design-v1.md").symlink_to(secret)
    (outbox / "design-v2.md").hardlink_to(secret)
    os.mkfifo(outbox / "design-v3.md")
    (outbox / "design-v4.md").mkdir()
    (outbox / "design-v5.md").symlink_to("design-v5.md")
    (outbox / "design-v6.md").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(outbox / "s"))
        (outbox / "s").rename(outbox / "design-v7.md")
        taken = import_files(outbox, ALLOWED, task)
    assert taken.files == ()
    assert reasons(taken) == {
        "design-v1.md": "it is a link",
        "design-v2.md": "it has more than one name (a hard link); copy it instead",
        "design-v3.md": "it is not a regular file",
        "design-v4.md": "it is not a regular file",
        "design-v5.md": "it is a link",
        "design-v6.md": "it is a link",
        "design-v7.md": "it is not a regular file",
    }


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a device")
def test_a_device_is_refused(outbox: Path, task: Path) -> None:
    os.mknod(outbox / "plan.md", 0o600 | stat.S_IFCHR, os.makedev(1, 5))
    assert reasons(import_files(outbox, ALLOWED, task)) == {"plan.md": "it is not a regular file"}


def test_a_gibibyte_and_a_thousand_links_are_quick_and_harmless(outbox: Path, task: Path) -> None:
    with (outbox / "analysis.md").open("wb") as huge:
        huge.truncate(1024**3)
    for number in range(998):
        (outbox / f"design-v{number}.md").symlink_to("/dev/zero")
    (outbox / "plan.md").write_text("the plan")
    begin = time.process_time()
    taken = import_files(outbox, ALLOWED, task)
    assert time.process_time() - begin < 2
    assert [file.name for file in taken.files] == ["plan.md"]
    assert reasons(taken)["analysis.md"] == "it is larger than 2097152 bytes"


def test_the_number_of_inspected_entries_is_bounded(outbox: Path, task: Path) -> None:
    for number in range(MAX_ENTRIES + 5):
        (outbox / f"{number}").touch()
    taken = import_files(outbox, ALLOWED, task)
    assert len(taken.refused) == MAX_ENTRIES + 1
    assert "more than 1000 entries" in taken.refused[0].reason


@pytest.mark.parametrize(("size", "taken_in"), [(100, 1), (101, 0)])
def test_the_size_limit_is_exact(outbox: Path, task: Path, size: int, taken_in: int) -> None:
    (outbox / "plan.md").write_text("x" * size)
    assert len(import_files(outbox, ALLOWED, task, OutboxLimits(100)).files) == taken_in


def test_text_that_is_not_utf8_is_refused_with_the_position(outbox: Path, task: Path) -> None:
    (outbox / "plan.md").write_bytes(b"fine so far\xff")
    assert reasons(import_files(outbox, ALLOWED, task)) == {"plan.md": "it is not UTF-8: byte 11"}


def test_an_outbox_that_was_replaced_is_refused(outbox: Path, task: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/plan.md").write_text("not the agent's")
    outbox.rmdir()
    assert import_files(outbox, ALLOWED, task) == Imported(files=(), refused=())
    outbox.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutboxError, match="not the folder that was made for the agent"):
        import_files(outbox, ALLOWED, task)
    outbox.unlink()
    os.mkfifo(outbox)
    with pytest.raises(OutboxError):
        import_files(outbox, ALLOWED, task)


def test_an_artifact_that_is_missing_or_was_replaced_is_not_read(task: Path) -> None:
    assert read_text(task, "plan.md") is None
    assert read_text(task / "nowhere", "plan.md") is None
    (task / "plan.md").symlink_to("/etc/passwd")
    with pytest.raises(OutboxError, match="it is a link"):
        read_text(task, "plan.md")
    (task / "plan.md").unlink()
    (task / "plan.md").write_text("four")
    with pytest.raises(OutboxError, match="larger than 3 bytes"):
        read_text(task, "plan.md", limit=3)


def test_a_file_with_objectionable_content_stays_where_it_is(outbox: Path, task: Path) -> None:
    (outbox / "plan.md").write_text("the password is hunter2")
    (outbox / "analysis.md").write_text("the password is in DB_PASSWORD")
    taken = import_files(
        outbox, ALLOWED, task, OutboxLimits(objection=lambda body: "it tells" if b"hunter2" in body else "")
    )
    assert [file.name for file in taken.files] == ["analysis.md"]
    assert reasons(taken) == {"plan.md": "it tells"}
    assert not (task / "plan.md").exists()

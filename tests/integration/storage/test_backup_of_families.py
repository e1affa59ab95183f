"""Backups of parents and their children: what the journals of one say of the other holds in the copy too."""

import io
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.storage.backup.archive import ArchiveWriter
from orchestrator.storage.backup.reading import extract_backup
from orchestrator.storage.backup.snapshot import Snapshot

REFS = "repos/clone/refs/orchestrator"
BEFORE, AFTER = "a" * 40 + "\n", "b" * 40 + "\n"


class Family:
    """A data folder with the parent P and the children P.A and P.B, in which B comes home while it is copied."""

    def __init__(self, root: Path) -> None:
        self.data = root / "data"
        for task in ("P", "P.A", "P.B"):
            self.write(f"{REFS}/{task}/head", BEFORE)
            self.write(f"tasks/{task}/ticket.json", "{}")
            self.write(f"worktrees/{task}/a.py", "")
            self.decide(task, "completed" if task == "P.A" else "in_progress")
            (self.data / "repos/tasks").mkdir(exist_ok=True)
            (self.data / "repos/tasks" / task).symlink_to("../clone")
        self.write(f"{REFS}/P/joined", BEFORE)

    def write(self, name: str, content: str) -> None:
        path = self.data / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    def decide(self, task: str, status: str, **more: object) -> None:
        path = self.data / "tasks" / task / "journal.jsonl"
        seq = len(path.read_bytes().splitlines()) + 1 if path.exists() else 1
        with path.open("a") as journal:
            journal.write(json.dumps({"seq": seq, "metadata": {"attempt": 1, "status": status}, **more}) + "\n")

    def come_home(self) -> None:
        """What the daemon does when P.B has joined its parent."""
        self.write(f"{REFS}/P/joined", AFTER)
        self.decide("P.B", "completed")
        self.decide("P", "in_progress", trigger="ChildEnded")

    def copy(self, tell: Callable[[], None]) -> tuple[Path, list[str]]:
        """The data folder in a backup during which something happens at every file, and who never rested."""
        made, to = io.BytesIO(), self.data.parent / "copy"
        with tempfile.TemporaryFile() as manifest:
            writer = ArchiveWriter(made, manifest, {"format": 1})
            taken = Snapshot(data_dir=self.data, writer=writer, tell=lambda _files, _size: tell())
            taken.take()
            writer.finish({})
        made.seek(0)
        extract_backup(made, to)
        return to / "data", taken.unsettled


def once_at(moment: int, do: Callable[[], None]) -> Callable[[], None]:
    """Do something when so many files are copied."""
    seen: list[None] = []

    def tell() -> None:
        seen.append(None)
        if len(seen) == moment:
            do()

    return tell


def last(data: Path, task: str) -> dict[str, object]:
    found: dict[str, object] = json.loads((data / "tasks" / task / "journal.jsonl").read_bytes().splitlines()[-1])
    return found


@pytest.mark.parametrize("moment", range(1, 16))
def test_a_child_that_comes_home_while_its_family_is_copied_is_home_in_the_copy_or_still_to_come(
    moment: int, tmp_path: Path
) -> None:
    family = Family(tmp_path)
    done, _ = family.copy(once_at(moment, family.come_home))
    is_home = (done / REFS / "P/joined").read_text() == AFTER
    has_ended = last(done, "P.B")["metadata"] == {"attempt": 1, "status": "completed"}
    is_known = last(done, "P").get("trigger") == "ChildEnded"
    assert is_home == has_ended == is_known


def test_a_family_that_never_rests_is_copied_with_its_journals_and_refs_of_one_instant(tmp_path: Path) -> None:
    family, heads = Family(tmp_path), {"P": 0, "P.B": 0}

    def decide() -> None:
        for task, head in heads.items():
            heads[task] = head + 1
            family.write(f"{REFS}/{task}/head", f"{head + 1:040}\n")
            family.decide(task, "in_progress", head=head + 1)

    done, unsettled = family.copy(decide)
    assert unsettled == ["P", "P.B"]
    in_journals = {task: last(done, task)["head"] for task in heads}
    in_refs = {task: int((done / REFS / task / "head").read_text()) for task in heads}
    assert in_journals == in_refs
    assert len(set(in_refs.values())) == 1


@pytest.mark.parametrize("moment", range(8, 18))
def test_a_worktree_that_is_made_anew_while_it_is_copied_is_copied_as_a_whole(moment: int, tmp_path: Path) -> None:
    family = Family(tmp_path)
    for name in "bcd":
        family.write(f"worktrees/P.B/{name}.py", "")

    def make_anew() -> None:
        (family.data / "worktrees/P.B").rename(tmp_path / "gone")
        for name in "cde":
            family.write(f"worktrees/P.B/{name}.py", "")

    done, _ = family.copy(once_at(moment, make_anew))
    assert "".join(sorted(path.stem for path in (done / "worktrees/P.B").iterdir())) in {"abcd", "cde"}


def test_a_child_that_is_being_made_is_left_to_its_parent(tmp_path: Path) -> None:
    family = Family(tmp_path)
    family.write("tasks/P.C/ticket.json", "{}")
    done, _ = family.copy(lambda: None)
    assert sorted(path.name for path in (done / "tasks").iterdir()) == ["P", "P.A", "P.B"]

"""What `submit --issues` means."""

from pathlib import Path

import pytest

from orchestrator.cli.context import UsageError
from orchestrator.cli.intake.batch import read_batch


@pytest.mark.parametrize(
    ("source", "labels", "query"),
    [
        ("acme/app", [], ""),
        ("acme/app label:bug", ["bug"], ""),
        ('acme/app label:"good first issue" label:bug crash on start', ["good first issue", "bug"], "crash on start"),
    ],
)
def test_issues_of_a_repository_are_chosen_as_on_githubs_page(source: str, labels: list[str], query: str) -> None:
    found = read_batch(source, skip_plan=False, skip_execute=False)
    assert found == {"files": {}, "tickets": {"project": "acme/app", "labels": labels, "query": query}}


def test_a_file_is_a_file_whatever_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "issues").write_text("{}")
    found = read_batch(str(tmp_path / "issues"), skip_plan=False, skip_execute=True)
    assert found["files"] == {"batch.json": '{"skip_plan":false,"skip_execute":true}', "issues.jsonl": "{}"}


def test_without_issues_only_the_options_are_submitted() -> None:
    assert read_batch(None, skip_plan=False, skip_execute=False) == {"files": {}}


@pytest.mark.parametrize("source", ["data/issues.jsonl", "", 'acme/app label:"bug', "no such file"])
def test_what_is_neither_file_nor_repository_is_refused(source: str) -> None:
    with pytest.raises(UsageError):
        read_batch(source, skip_plan=False, skip_execute=False)


def test_a_file_that_is_too_large_a_link_or_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "large.jsonl").write_bytes(b" " * (2 * 1024 * 1024 + 1))
    (tmp_path / "link.jsonl").symlink_to("/etc/passwd")
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff")
    for name, reason in (("large", "larger than 2 MiB"), ("link", "cannot be read"), ("bytes", "not UTF-8")):
        with pytest.raises(UsageError, match=reason):
            read_batch(str(tmp_path / f"{name}.jsonl"), skip_plan=False, skip_execute=False)

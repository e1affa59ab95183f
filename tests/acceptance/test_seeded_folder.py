"""A daemon that starts on a seeded folder finds every task at rest, and leaves it there."""

from pathlib import Path

from orchestrator.core.task.task import TaskStatus
from orchestrator.core.task.user_requests import RequestKind
from tests.acceptance.harness import DaemonHarness
from tests.fakes.seeded_folder import Size, seed


def test_a_seeded_folder_shows_what_needs_a_person_and_starts_nothing(tmp_path: Path) -> None:
    harness = DaemonHarness(tmp_path)
    seeded = seed(harness.data, tmp_path / "search", Size(crowd=60, histories=5, journal=200, transcript=300_000))
    with harness:
        asked = {
            name: harness.wait_until_it_asks(task).kind
            for name, task in (
                ("question", seeded.question), ("dependency", seeded.dependency), ("review", seeded.review)
            )
        }  # fmt: skip
        statuses = {name: harness.client.task(getattr(seeded, name)).status for name in ("blocked", "completed")}
        assert not harness.survivors()
        assert not [line for line in harness.log if line["event"] in ("task_not_loaded", "journal_mended")]
    assert asked == {
        "question": RequestKind.QUESTION, "dependency": RequestKind.DEPENDENCY, "review": RequestKind.REVIEW
    }  # fmt: skip
    assert statuses == {"blocked": TaskStatus.BLOCKED, "completed": TaskStatus.COMPLETED}
    assert len(harness.journal(seeded.long)) >= 200

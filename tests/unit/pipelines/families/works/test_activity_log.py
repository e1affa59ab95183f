"""The activity log has one line for each entry, without secrets and of bounded length."""

from datetime import UTC, datetime

from orchestrator.pipelines.families.works.documents.activity_log import LogStage, entry

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_an_entry_is_one_line() -> None:
    line = entry(AT, "builder", LogStage.BUILD, "first\nsecond\r\nthird \\n", lambda text: text)
    assert line == "[2026-01-02T03:04:05]_BUILDER_BUILD_first\\nsecond\\nthird \\\\n"


def test_a_secret_is_masked_before_a_long_entry_is_cut() -> None:
    line = entry(
        AT, "x", LogStage.DISPATCH, "a" * 495 + "made-up-secret" * 9, lambda text: text.replace("made-up-secret", "<s>")
    )
    assert "made" not in line
    assert "characters, sha256 " in line
    assert len(line) < 620


def test_an_agents_name_cannot_forge_an_entry() -> None:
    assert entry(AT, "a]\n[b", LogStage.INIT, "", str).startswith("[2026-01-02T03:04:05]_AB_INIT_")

"""Documents with the number of their format: what is written is read again, and nothing else is guessed at."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from orchestrator.formats.versioned import decode_versioned, encode_versioned, read_versioned, write_versioned


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    text: str
    at: datetime
    day: date
    counts: Mapping[str, int]


NOTE = Note(text="né", at=datetime(2026, 5, 28, 1, 23, 45, 6000, UTC), day=date(2026, 5, 28), counts={"a": 1})
WRITTEN = '{"format":3,"text":"né","at":"2026-05-28T01:23:45.006Z","day":"2026-05-28","counts":{"a":1}}'.encode()


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    write_versioned(tmp_path / "note.json", NOTE, 3)
    assert (tmp_path / "note.json").read_bytes() == WRITTEN
    assert read_versioned(Note, tmp_path / "note.json", 3) == NOTE
    assert decode_versioned(Note, encode_versioned(NOTE, 3, indent=True), 3) == NOTE


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (WRITTEN[:-1], "it is not a JSON object"),
        (b"[]", "it is not a JSON object"),
        (WRITTEN.replace(b'"format":3', b'"format":4'), "it has the format 4, and this version reads 3"),
        (WRITTEN.replace(b'"format":3,', b""), "it has the format None, and this version reads 3"),
        (WRITTEN.replace(b'{"a":1}', b"7"), "Expected `object`, got `int` - at `$.counts`"),
    ],
)
def test_another_document_is_refused_with_the_reason_and_left_as_it_is(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    (tmp_path / "note.json").write_bytes(content)
    with capture_logs() as logged:
        assert read_versioned(Note, tmp_path / "note.json", 3) is None
    assert [(one["event"], one["reason"]) for one in logged] == [("document_unreadable", reason)]
    assert (tmp_path / "note.json").read_bytes() == content


def test_a_file_that_is_missing_is_no_fault_and_what_is_no_file_is_one(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(tmp_path / "elsewhere.json")
    with capture_logs() as logged:
        assert read_versioned(Note, tmp_path / "note.json", 3) is None
        assert not logged
        assert read_versioned(Note, tmp_path / "link.json", 3) is None
    assert len(logged) == 1

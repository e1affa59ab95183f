"""Sealed documents."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.formats.codec import Json
from orchestrator.formats.files import sealed, unsealed, unsealed_top, write_atomically

DOCUMENT: dict[str, Json] = {"title": 'a\n  "states": {', "run": {"states": 1}, "states": {"A": [1]}, "end": None}
TOP = {"title": DOCUMENT["title"], "run": DOCUMENT["run"]}


def test_a_sealed_document_is_read_back_with_and_without_a_sealed_top() -> None:
    assert unsealed(sealed(DOCUMENT)) == DOCUMENT
    assert unsealed(sealed(DOCUMENT, below="states")) == DOCUMENT
    assert unsealed(sealed(DOCUMENT, below="states"), before="states") == TOP


def test_a_missing_key_splits_nothing() -> None:
    assert unsealed(sealed(DOCUMENT, below="nowhere")) == DOCUMENT
    assert unsealed_top(sealed(DOCUMENT, below="nowhere"), below="nowhere") is None


def test_the_top_is_read_without_the_rest() -> None:
    content = sealed(DOCUMENT, below="states")
    beginning = content[: content.index(b'"A"')]
    assert unsealed_top(beginning, below="states") == TOP
    assert unsealed_top(content[:50], below="states") is None


def test_a_document_without_a_sealed_top_is_read_completely() -> None:
    assert unsealed_top(sealed(DOCUMENT), below="states") is None
    assert unsealed(sealed(DOCUMENT), before="states") == TOP


@given(st.data())
def test_every_changed_byte_is_detected(data: st.DataObject) -> None:
    whole = sealed(DOCUMENT, below="states")
    content = bytearray(whole)
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    assert unsealed(bytes(content)) is None
    assert unsealed_top(bytes(content), below="states") in (None, TOP)
    if at < whole.index(b'"checksum_of_top"'):
        assert unsealed_top(bytes(content), below="states") is None


def test_a_written_file_is_told_from_one_that_another_program_puts_in_its_place(tmp_path: Path) -> None:
    written = write_atomically(tmp_path / "ours", b"the same", durable=False)
    ours = (tmp_path / "ours").stat()
    assert (ours.st_ino, ours.st_size, ours.st_mtime_ns) == (written.st_ino, written.st_size, written.st_mtime_ns)
    theirs = tmp_path / "theirs"
    theirs.write_bytes(b"the same")
    theirs.replace(tmp_path / "ours")
    assert (tmp_path / "ours").stat().st_ino != written.st_ino

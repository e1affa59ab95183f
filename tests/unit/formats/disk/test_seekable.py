"""Compressed files: the same content from every offset, and no original removed before that is proven."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.formats.disk import seekable
from orchestrator.formats.disk.seekable import FRAME, DamagedFile, SeekableFile, compress_file
from orchestrator.formats.files import NotRegularFile

CONTENT = b"".join(b'{"line": %d, "text": "%s"}\n' % (number, b"x" * (number % 97)) for number in range(40_000))


@contextmanager
def opened(path: Path) -> Iterator[SeekableFile]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield SeekableFile(descriptor)
    finally:
        os.close(descriptor)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("packed") / "stdout.jsonl"
    path.write_bytes(CONTENT)
    compress_file(path)
    return path.with_name("stdout.jsonl.zst")


@settings(max_examples=50, deadline=None)
@given(offset=st.integers(0, len(CONTENT) + 10), size=st.integers(0, 3 * FRAME // 2))
def test_every_part_of_the_content_is_read_as_it_was(packed: Path, offset: int, size: int) -> None:
    with opened(packed) as file:
        assert file.size == len(CONTENT) > FRAME
        assert file.read(offset, size) == CONTENT[offset : offset + size]


def test_the_program_zstd_reads_the_file_too(packed: Path) -> None:
    with packed.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as reader:
        assert reader.read() == CONTENT
    assert packed.stat().st_size < len(CONTENT) / 5


def test_the_original_is_gone_and_its_time_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "stdout.jsonl"
    path.write_bytes(b"a\n")
    os.utime(path, (1_000_000, 1_000_000))
    compress_file(path)
    assert [one.name for one in tmp_path.iterdir()] == ["stdout.jsonl.zst"]
    assert (tmp_path / "stdout.jsonl.zst").stat().st_mtime == 1_000_000


def test_an_empty_file_stays_empty(tmp_path: Path) -> None:
    (tmp_path / "stdout.jsonl").touch()
    compress_file(tmp_path / "stdout.jsonl")
    with opened(tmp_path / "stdout.jsonl.zst") as file:
        assert (file.size, file.read(0, 10)) == (0, b"")


def test_the_original_stays_if_what_was_written_cannot_be_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "stdout.jsonl"
    path.write_bytes(CONTENT)
    monkeypatch.setattr(seekable, "_write_all", lambda target, content: os.write(target, content[:-1] + b"?"))
    with pytest.raises(DamagedFile):
        compress_file(path)
    assert [one.name for one in tmp_path.iterdir()] == ["stdout.jsonl"]
    assert path.read_bytes() == CONTENT


def test_compression_goes_on_after_a_crash_that_left_both_files(tmp_path: Path) -> None:
    path = tmp_path / "stdout.jsonl"
    path.write_bytes(CONTENT)
    (tmp_path / "stdout.jsonl.zst").write_bytes(b"from before")
    (tmp_path / ".stdout.jsonl.zst.partial").write_bytes(b"half")
    compress_file(path)
    assert [one.name for one in tmp_path.iterdir()] == ["stdout.jsonl.zst"]
    with opened(tmp_path / "stdout.jsonl.zst") as file:
        assert file.read(0, len(CONTENT)) == CONTENT


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "stdout.jsonl").symlink_to(tmp_path / "secret")
    with pytest.raises(NotRegularFile):
        compress_file(tmp_path / "stdout.jsonl")
    assert (tmp_path / "secret").read_bytes() == b"secret"


@settings(max_examples=60, deadline=None)
@given(at=st.floats(0, 1), byte=st.integers(1, 255), cut=st.booleans())
def test_a_damaged_file_is_refused_or_still_right(
    packed: Path, tmp_path_factory: pytest.TempPathFactory, at: float, byte: int, cut: bool
) -> None:
    content = bytearray(packed.read_bytes())
    place = min(int(at * len(content)), len(content) - 1)
    if cut:
        del content[place:]
    else:
        content[place] ^= byte
    path = tmp_path_factory.mktemp("damaged") / "stdout.jsonl.zst"
    path.write_bytes(content)
    try:
        with opened(path) as file:
            assert file.read(0, len(CONTENT)) == CONTENT
    except DamagedFile:
        pass

"""Compressed files that can be read from any offset: zstd in independent frames, with a table of them at the end.

This is zstd's seekable format: `zstd -dc` reads such a file too. A frame holds FRAME bytes, so that a reader
decompresses little more than it asked for, and memory is bounded whatever a file says of itself. Every frame has a
checksum.

    compress_file(path)              path -> path.zst, proven to be the same, then path is removed
    SeekableFile(descriptor).read(offset, size)
"""

import errno
import hashlib
import os
import struct
from bisect import bisect_right
from contextlib import suppress
from itertools import accumulate
from pathlib import Path

import zstandard

from orchestrator.formats.files import open_regular, sync_folder

SUFFIX = ".zst"
FRAME = 1024 * 1024
"""Bytes of content in each frame but the last."""
LEVEL = 6

_TABLE_FRAME, _TABLE_END = 0x184D2A5E, 0x8F92EAB1
_HEAD, _ENTRY, _FOOT = struct.Struct("<II"), struct.Struct("<II"), struct.Struct("<IBI")
_CHECKSUMS = 0x80
_MOST_FRAMES = 1 << 20


class DamagedFile(OSError):
    """A compressed file does not contain what it should."""

    def __init__(self, reason: str) -> None:
        super().__init__(errno.EIO, f"the compressed file is damaged: {reason}")


class SeekableFile:
    """Reads an open compressed file, which stays open. Raises DamagedFile, and OSError if the disk fails."""

    def __init__(self, descriptor: int) -> None:
        self._file = descriptor
        sizes = _table(descriptor)
        self._packed = [0, *accumulate(packed for packed, _ in sizes)]
        self._plain = [0, *accumulate(plain for _, plain in sizes)]

    @property
    def size(self) -> int:
        """The bytes of the whole content."""
        return self._plain[-1]

    def read(self, offset: int, size: int) -> bytes:
        """Return at most `size` bytes of the content from an offset on; less only at its end."""
        end, found = min(offset + size, self.size), bytearray()
        at = max(offset, 0)
        while at < end:
            frame = bisect_right(self._plain, at) - 1
            content = self._frame(frame)
            begin = at - self._plain[frame]
            found += content[begin : end - self._plain[frame]]
            at = self._plain[frame] + len(content)
        return bytes(found)

    def _frame(self, number: int) -> bytes:
        begin, end = self._packed[number : number + 2]
        size = self._plain[number + 1] - self._plain[number]
        packed = os.pread(self._file, end - begin, begin)
        try:
            content = zstandard.ZstdDecompressor().decompress(packed, max_output_size=size)
        except zstandard.ZstdError as error:
            raise DamagedFile(f"frame {number}: {error}") from error
        if len(content) != size:
            raise DamagedFile(f"frame {number} has {len(content)} bytes instead of {size}")
        return content


def compress_file(path: Path) -> int:
    """Replace a regular file by `<path>.zst`; return how many bytes that takes. Raises OSError.

    The new file is complete, on disk, and was read back and compared before the old one is removed. A crash leaves the
    old file, or both: then doing it again is right.
    """
    target, partial = path.with_name(path.name + SUFFIX), path.with_name(f".{path.name}{SUFFIX}.partial")
    source = open_regular(path)
    try:
        partial.unlink(missing_ok=True)
        written = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            digest = _write(source, written)
            os.fsync(written)
            _require_content(SeekableFile(written), digest)
            _keep_times(source, written)
            size = os.fstat(written).st_size
        except BaseException:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
            raise
        finally:
            os.close(written)
    finally:
        os.close(source)
    partial.replace(target)
    sync_folder(path.parent)
    path.unlink()
    return size


def _write(source: int, target: int) -> bytes:
    """Write the compressed content of one open file into another; return the digest of the content."""
    compressor, digest = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True), hashlib.blake2b()
    table, at = bytearray(), 0
    while content := os.pread(source, FRAME, at):
        at += len(content)
        digest.update(content)
        packed = compressor.compress(content)
        _write_all(target, packed)
        table += _ENTRY.pack(len(packed), len(content))
    frames = len(table) // _ENTRY.size
    _write_all(target, _HEAD.pack(_TABLE_FRAME, len(table) + _FOOT.size))
    _write_all(target, bytes(table) + _FOOT.pack(frames, 0, _TABLE_END))
    return digest.digest()


def _write_all(target: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(target, rest) :]


def _require_content(file: SeekableFile, digest: bytes) -> None:
    """Read a whole file back and compare it with what was to be written. Raises DamagedFile."""
    found, at = hashlib.blake2b(), 0
    while content := file.read(at, FRAME):
        found.update(content)
        at += len(content)
    if found.digest() != digest:
        raise DamagedFile("what was read back differs from what was written")


def _keep_times(source: int, target: int) -> None:
    """Give the new file the old one's times: how old a file is decides how long it is kept."""
    found = os.fstat(source)
    os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))


def _table(file: int) -> list[tuple[int, int]]:
    """Return the compressed and the plain size of every frame. Raises DamagedFile."""
    size = os.fstat(file).st_size
    foot = os.pread(file, _FOOT.size, max(0, size - _FOOT.size))
    if len(foot) < _FOOT.size:
        raise DamagedFile("it is too short")
    frames, flags, magic = _FOOT.unpack(foot)
    if magic != _TABLE_END or flags & ~_CHECKSUMS or frames > _MOST_FRAMES:
        raise DamagedFile("it has no table of frames")
    width = _ENTRY.size + (4 if flags & _CHECKSUMS else 0)
    length = frames * width
    begin = size - _FOOT.size - length - _HEAD.size
    head = os.pread(file, _HEAD.size, max(0, begin))
    if begin < 0 or head != _HEAD.pack(_TABLE_FRAME, length + _FOOT.size):
        raise DamagedFile("its table of frames is incomplete")
    table = os.pread(file, length, begin + _HEAD.size)
    found = [_ENTRY.unpack_from(table, at) for at in range(0, length, width)]
    if sum(packed for packed, _ in found) != begin or any(plain > FRAME for _, plain in found):
        raise DamagedFile("its table of frames contradicts its size")
    return found

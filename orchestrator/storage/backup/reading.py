"""Reading a backup that anybody may have made: what it has, whether it is whole, and its files into an empty folder.

Nothing in it is believed. A name must lie below `data/` or `settings/`, and no entry may come twice. Only folders,
regular files and symbolic links are taken; links are made last, when nothing is written any more, so none is ever
followed; outside of worktrees they must stay where they are. Sizes are checked against the disk as it fills up, and
every file against the manifest at the end.
"""

import os
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import IO, cast

from orchestrator.formats.codec import JsonObject
from orchestrator.formats.files import make_private, parsed
from orchestrator.formats.units import size as shown
from orchestrator.redaction.display import escape_text
from orchestrator.storage.backup.archive import (
    DATA,
    HEADER,
    MANIFEST,
    PIECE,
    SETTINGS,
    BackupError,
    DamagedBackup,
    Member,
    manifest_line,
    read_header,
    read_members,
)
from orchestrator.storage.backup.contents import DEEPEST, may_lead
from orchestrator.storage.backup.snapshot import free_space

LEAST_FREE = 256 * 1024 * 1024
"""Bytes that a restore leaves free."""
LOOK_EVERY = 64 * 1024 * 1024
"""Bytes between two looks at the disk's free space."""
_OF_SPARSE_FILES = "GNU.sparse."


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What a whole backup says of itself: its header, and the last line of its manifest."""

    header: JsonObject
    summary: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One entry: its name below the archive, its size in bytes, and whether it is a folder or a link."""

    name: str
    size: int
    kind: str


def list_backup(file: IO[bytes], tell: Callable[[Listed], None]) -> Contents:
    """Give every entry to `tell`, and check the whole. Raises DamagedBackup, BackupError and OSError."""
    return _read(file, _Listing(tell))


def verify_backup(file: IO[bytes]) -> Contents:
    """Check that a backup is whole and that every file in it is as it was. Raises as `list_backup`."""
    return _read(file, _Listing(lambda _: None))


def extract_backup(file: IO[bytes], folder: Path) -> Contents:
    """Write the data folder and the settings in a backup below an empty folder, as `data` and `settings`.

    Raises as `list_backup`; what was written until then is left for the caller to remove.
    """
    extraction = _Extraction(make_private(folder))
    found = _read(file, extraction)
    extraction.make_links(str(found.header.get("data_dir")))
    return found


@dataclass(slots=True)
class _Listing:
    """Takes entries without writing them."""

    tell: Callable[[Listed], None]

    def take(self, member: Member, pieces: Iterator[bytes]) -> None:
        info = member.info
        for _ in pieces:
            pass
        self.tell(Listed(name=info.name, size=info.size, kind=_kind(info)))


@dataclass(slots=True)
class _Extraction:
    """Writes entries that `_refuse` let through below a folder, links last: they could lead out of it."""

    folder: Path
    links: list[tuple[str, str]] = field(default_factory=list)
    since: int = 0

    def take(self, member: Member, pieces: Iterator[bytes]) -> None:
        info = member.info
        path = self.folder / info.name
        if info.issym():
            self.links.append((info.name, info.linkname))
            return
        try:
            if info.isdir():
                path.mkdir(mode=0o700, parents=True, exist_ok=True)
                path.chmod(info.mode & 0o755 | 0o700)
                return
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._write(info, path, pieces)
        except FileExistsError:
            raise DamagedBackup(f"{_shown(info)} is in the backup twice; nothing was restored") from None

    def _write(self, info: tarfile.TarInfo, path: Path, pieces: Iterator[bytes]) -> None:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            for piece in pieces:
                self._write_piece(file, piece)
            os.ftruncate(file, info.size)
            os.fchmod(file, info.mode & 0o755 | 0o600)
            os.utime(file, (info.mtime, info.mtime))
        finally:
            os.close(file)

    def _write_piece(self, file: int, piece: bytes) -> None:
        """Write a piece, or leave a hole where there are only zeros."""
        if piece.count(0) == len(piece):
            os.lseek(file, len(piece), os.SEEK_CUR)
            return
        left = memoryview(piece)
        while left:
            left = left[os.write(file, left) :]
        self.since += len(piece)
        self._require_space()

    def _require_space(self) -> None:
        if self.since < LOOK_EVERY:
            return
        self.since, free = 0, free_space(self.folder)
        if free < LEAST_FREE:
            raise BackupError(
                f"the disk of {self.folder.parent} is too small for the backup: {shown(free)} are left, and"
                f" {shown(LEAST_FREE)} have to stay; restore it to another disk"
            )

    def make_links(self, old: str) -> None:
        """Make the links; one that led into the data folder by its old path leads there by its new one."""
        for name, target in self.links:
            path = self.folder / name
            now = _follows(target, old, self.folder.parent)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                path.symlink_to(now)
            except FileExistsError:
                raise DamagedBackup(f"{escape_text(name)} is in the backup twice; nothing was restored") from None


def _follows(target: str, old: str, new: Path) -> str:
    """Return where a link leads after the data folder was moved."""
    try:
        return str(new / PurePosixPath(target).relative_to(old))
    except ValueError:
        return target


def _read(file: IO[bytes], taking: _Listing | _Extraction) -> Contents:
    header: JsonObject | None = None
    summary: JsonObject | None = None
    with tempfile.TemporaryFile() as digests:
        for member in read_members(file):
            info = member.info
            if header is None:
                header, content = read_header(member)
                digests.write(manifest_line(HEADER, len(content), sha256(content).hexdigest()))
            elif summary is not None:
                raise DamagedBackup(f"{_shown(info)} comes after the manifest; nothing was restored")
            elif info.name == MANIFEST:
                digests.seek(0)
                summary = _compare(member, digests)
            else:
                _refuse(info)
                digest = sha256()
                taking.take(member, _digested(member, digest.update))
                if info.isreg():
                    digests.write(manifest_line(info.name, info.size, digest.hexdigest()))
    if header is None or summary is None:
        raise DamagedBackup("the backup ends before its manifest; it was cut off; take another one, or copy it again")
    return Contents(header=header, summary=summary)


def _digested(member: Member, update: Callable[[bytes], None]) -> Iterator[bytes]:
    if member.info.isreg():
        for piece in member.read():
            update(piece)
            yield piece


def _compare(member: Member, digests: IO[bytes]) -> JsonObject:
    """Compare the manifest with the digests of what was read, and return its last line. Raises DamagedBackup."""
    lines = _lines(member.read())
    for line in lines:
        ours = digests.readline()
        if line == ours and ours:
            continue
        summary = parsed(line) or {}
        if not ours and "files" in summary and next(lines, None) is None:
            return summary
        name = str(summary.get("name") or (parsed(ours) or {}).get("name") or "the end")
        raise DamagedBackup(
            f"{escape_text(name)} is not what the manifest says; the backup was changed or damaged; take another one"
        )
    raise DamagedBackup("the manifest of the backup is not whole; take another one, or copy it again")


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        if len(rest) > PIECE:
            raise DamagedBackup("the manifest of the backup has no lines; it is refused")
        yield from (line + b"\n" for line in whole)
    if rest:
        yield rest


def _refuse(info: tarfile.TarInfo) -> None:
    """Raise DamagedBackup for an entry that no backup of ours has."""
    path = PurePosixPath(info.name)
    parts = info.name.split("/")
    is_plain = not path.is_absolute() and not {"", ".", ".."} & set(parts) and "\0" not in info.name
    if not is_plain or len(parts) > DEEPEST or parts[0] not in {DATA, SETTINGS}:
        raise DamagedBackup(f"{_shown(info)} would lie outside of the data folder; nothing was restored")
    is_sparse = info.issparse() or any(key.startswith(_OF_SPARSE_FILES) for key in info.pax_headers)
    if is_sparse or not (info.type in {tarfile.REGTYPE, tarfile.AREGTYPE} or info.isdir() or info.issym()):
        raise DamagedBackup(f"{_shown(info)} is neither a file, a folder nor a symbolic link; nothing was restored")
    if info.issym() and not may_lead("/".join(parts[1:] if parts[0] == DATA else parts), info.linkname):
        raise DamagedBackup(f"the link {_shown(info)} leads out of its folder; nothing was restored")


def _kind(info: tarfile.TarInfo) -> str:
    return "folder" if info.isdir() else "link" if info.issym() else "file"


def _shown(info: tarfile.TarInfo) -> str:
    return escape_text(info.name, 200)


def counts_of(contents: Contents) -> tuple[int, int]:
    """Return how many files and bytes a backup has."""
    files, size = (contents.summary.get(name) for name in ("files", "bytes"))
    return cast(int, files), cast(int, size)

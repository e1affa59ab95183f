"""What flows through a holder: lines from a file into the agent, bytes from the agent into append-only files.

Neither pump ever blocks, and neither keeps more than one chunk in memory, however long a line is (plus as much as the
longest value that is masked). If output cannot be written because the disk is full, the current chunk is kept, the pipe
is not read any more, and the agent waits.
"""
# pathlib takes 6 ms to import, and every run starts a holder:
# ruff: noqa: PTH104

from __future__ import annotations

import os
import time

from orchestrator.processes import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from orchestrator.processes.masking import Mask

CHUNK = 65536
CHUNKS_PER_TURN = 16  # then the holder looks at its other descriptors
SPACE_CHECK_EVERY = 0.25  # seconds
NEWLINE = 10
APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


class OutputPump:
    """One stream of the agent, appended to `<stem><suffix>` and rotated at line ends to `<stem>.<start><suffix>`."""

    def __init__(self, name: tuple[str, str], source: int, limits: tuple[int, int], mask: Mask | None = None) -> None:
        """`source` is the reading end of a pipe; `limits` are the bytes to rotate at and the free bytes to leave."""
        self._mask = mask
        self._stem, self._suffix = name
        self._rotate_at, self._floor = limits
        self._source = source
        self._start = 0  # logical offset of the current file's first byte
        self._pending = b""
        self._looked_at_space = 0.0
        self.is_open = True
        self.is_held = False
        os.set_blocking(source, False)
        self._target = os.open(self._stem + self._suffix, APPEND, 0o600)
        self._size = os.fstat(self._target).st_size

    @property
    def source(self) -> int | None:
        """The descriptor to wait for, or None while nothing is to be read from it."""
        return self._source if self.is_open and not self.is_held else None

    def pump(self) -> bool:
        """Move what is there, bring `is_open` and `is_held` up to date, and return whether anything was written."""
        moved = False
        for _ in range(CHUNKS_PER_TURN):
            if not self._pending and not self._read():
                break
            moved = self._write() or moved
            if self.is_held:
                break
        return moved

    def finish(self) -> bool:
        """Move what is there and what was held back of an unfinished line, because no process is left to finish it."""
        moved = self.pump()
        if self._mask and not self._pending:
            self._pending = self._mask.flush()
            moved = self._write() or moved
        return moved

    def retry(self) -> None:
        """Try again to write what a full disk refused."""
        self.is_held = False
        self._looked_at_space = 0.0

    def close(self) -> None:
        """Stop reading for good; pending output must have been written."""
        if self.is_open:
            os.close(self._source)
            self.is_open = False

    def _read(self) -> bool:
        if not self.is_open or not self._has_space():
            return False
        try:
            chunk = os.read(self._source, CHUNK)
        except BlockingIOError:
            return False
        if chunk:
            self._pending = self._mask.push(chunk) if self._mask else chunk
        else:
            self.close()
            self._pending = self._mask.flush() if self._mask else b""
        return bool(chunk or self._pending)

    def _has_space(self) -> bool:
        now = time.monotonic()
        if now - self._looked_at_space > SPACE_CHECK_EVERY:
            self._looked_at_space = now
            disk = os.fstatvfs(self._target)
            self.is_held = disk.f_bavail * disk.f_frsize < self._floor
        return not self.is_held

    def _write(self) -> bool:
        moved = False
        while self._pending:
            room = self._rotate_at - self._size
            line_end = self._pending.find(b"\n", max(room - 1, 0)) + 1
            piece = self._pending[:line_end] if line_end else self._pending
            try:
                written = os.write(self._target, piece)
                self._size += written
                self._pending = self._pending[written:]
                moved = True
                if self._size >= self._rotate_at and piece[written - 1] == NEWLINE:
                    self._rotate()
            except OSError:
                self.is_held = True  # whatever the reason: nothing may be lost, so it is tried again each second
                break
        return moved

    def _rotate(self) -> None:
        fresh = os.open(f"{self._stem}.new", APPEND, 0o600)  # first, so that a full disk changes nothing
        os.rename(self._stem + self._suffix, f"{self._stem}.{self._start}{self._suffix}")
        os.rename(f"{self._stem}.new", self._stem + self._suffix)
        os.close(self._target)
        self._target = fresh
        self._start += self._size
        self._size = 0


class InputPump:
    """Complete lines of stdin.jsonl on their way into the agent; the saved offset moves only past whole lines."""

    def __init__(self, target: int | None) -> None:
        """`target` is the writing end of a pipe, or None for an agent that reads nothing."""
        self._target = target
        self._file: int | None = None
        self._complete = 0  # everything before this is whole lines
        self._sent = 0
        self._saved = self._on_disk = 0
        self._is_last = False
        if target is not None:
            os.set_blocking(target, False)

    @property
    def target(self) -> int | None:
        """The descriptor to wait for, or None while there is nothing to deliver."""
        return self._target if self._sent < self._complete else None

    def pump(self) -> None:
        """Deliver as much as the agent accepts now."""
        if self._target is None:
            return
        try:
            if self._find_lines() and self._file is not None:
                self._deliver(self._file, self._target)
            if self._is_last:
                self.close()
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.close()
        finally:
            self._save()

    def finish(self) -> None:
        """Deliver every line sent so far, then close; a stop must not overtake the interrupt that was sent before."""
        self._is_last = True
        self.pump()

    def close(self) -> None:
        """End of input: nothing more will be delivered."""
        if self._target is not None:
            os.close(self._target)
            self._target = None
        self._complete = self._sent

    def _find_lines(self) -> bool:
        if self._file is None:
            try:
                self._file = os.open(files.STDIN, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return False
        position = self._complete
        while chunk := os.pread(self._file, CHUNK, position):
            if line_end := chunk.rfind(b"\n") + 1:
                self._complete = position + line_end
            position += len(chunk)
        return True

    def _deliver(self, source: int, target: int) -> None:
        while self._sent < self._complete:
            piece = os.pread(source, min(CHUNK, self._complete - self._sent), self._sent)
            if self._sent == self._saved and piece.startswith(files.END_OF_INPUT):
                self._sent = self._saved = self._sent + len(files.END_OF_INPUT)
                self.close()
                return
            line_end = piece.find(b"\n") + 1
            piece = piece[:line_end] if line_end else piece
            written = os.write(target, piece)
            self._sent += written
            if line_end and written == len(piece):
                self._saved = self._sent

    def _save(self) -> None:
        if self._saved == self._on_disk:
            return
        try:
            files.replace(files.STDIN_OFFSET, f"{self._saved}\n")
        except OSError:
            return  # a full disk: the offset in memory is used; the file is updated with the next line
        self._on_disk = self._saved

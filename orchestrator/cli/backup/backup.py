"""`backup` and `restore`: a consistent copy of the data folder under a living daemon, and a folder made of one."""

import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, cast

import typer
from rich.text import Text

from orchestrator import clock
from orchestrator.cli.context import CliContext, Json, UsageError, context_of
from orchestrator.cli.output import console, facts, note, print_json
from orchestrator.daemon.backup.restoring import RESTORED_SETTINGS, Restored, restore_backup
from orchestrator.formats.fields import list_of, text_of
from orchestrator.formats.units import size as shown
from orchestrator.server.schemas.oversight.backup import BackupContentsView, BackupView, RestoredFolderView
from orchestrator.settings.environment import config_folders, credentials_folder
from orchestrator.settings.loading import SettingsError
from orchestrator.storage.backup.contents import Part
from orchestrator.storage.backup.making import (
    BackupMade,
    BackupOrder,
    make_backup,
    opened_backup,
    sources_of,
    stream_backup,
)
from orchestrator.storage.backup.reading import Contents, Listed, counts_of, list_backup, verify_backup
from orchestrator.storage.vault import CREDENTIAL

STANDARD = "-"
NICENESS = 10
"""By how much the daemon and its agents come before a backup."""
TELL_EVERY = 1.0
"""Seconds between two lines of progress."""
KEY_NOTE = (
    "values that people provided are in it sealed, and vault.key, which opens them, is not: carry the key apart from"
    " the backup (`orchestrator help backup`)"
)


def backup(  # noqa: PLR0913, PLR0917 - one parameter for each option
    context: typer.Context,
    what: Annotated[
        str,
        typer.Argument(
            metavar="[verify|list] FILE",
            help="The file to write, or to check; - is standard output, or input.",
            show_default=False,
        ),
    ],
    file: Annotated[str | None, typer.Argument(hidden=True)] = None,
    exclude: Annotated[
        list[Part] | None,
        typer.Option(metavar="PART", help="Leave this out: worktrees, transcripts or logs; repeatable."),
    ] = None,
    with_settings: Annotated[
        bool, typer.Option("--with-settings", help="Also the folders of settings, without credentials.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    json: Json = False,
) -> None:
    """Make a backup of the data folder while the daemon works, or check one.

    `backup verify FILE` reads it whole and compares every file with its digest; `backup list FILE` shows what it has.
    """
    if file is not None:
        _look(what, file, json=json)
        return
    if what.isalpha() and what not in {"verify", "list"}:
        raise UsageError(
            f"{what!r:.60} looks like a word, not like a file: `orchestrator backup list FILE` and "
            f"`orchestrator backup verify FILE` look at a backup; to make one of that name write ./{what:.60}"
        )
    if what in {"verify", "list"}:
        raise UsageError(f"name the backup: `orchestrator backup {what} FILE`; a file of that name is ./{what}")
    with suppress(OSError):  # a hardened service may not ask for another priority, not even a lower one
        os.nice(NICENESS)
    options, progress = context_of(context), _Progress()
    order = BackupOrder(
        data_dir=options.places().data_dir.absolute(),
        at=clock.now(),
        exclude=frozenset(exclude or ()),
        settings=sources_of(config_folders()) if with_settings else (),
        floor=_floor(options),
        tell=progress.tell,
    )
    if what == STANDARD:
        if json or sys.stdout.isatty():
            raise UsageError(
                "standard output gets the backup itself: leave out --json, and send it to a file or program"
            )
        made = stream_backup(order, sys.stdout.buffer)
    else:
        made = make_backup(order, Path(what), replace=force)
    _show_made(what, made, progress.seconds(), json=json)


def restore(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The backup; - is standard input.", show_default=False)],
    data_dir: Annotated[
        Path | None, typer.Option(help="A new or empty folder; by default that of the settings.")
    ] = None,
    json: Json = False,
) -> int:
    """Restore a backup into an empty folder, at any path, on any machine.

    Agents that worked at the time of the backup count as lost, and their sessions are resumed by the next daemon.
    """
    target = (data_dir or context_of(context).places().data_dir).absolute()
    key = credentials_folder()
    key_is_elsewhere = key is not None and (key / CREDENTIAL).exists()
    with opened_backup(None if file == STANDARD else Path(file), sys.stdin.buffer) as opened:
        done = restore_backup(opened, target, clock.now(), key_is_elsewhere)
    _show_restored(done, json=json)
    return 1 if done.problems else 0


class _Progress:
    """Tells now and then on a terminal how far a backup is."""

    def __init__(self) -> None:
        self._began = self._told = time.monotonic()

    def tell(self, files: int, size: int, whole: int) -> None:
        now = time.monotonic()
        if now - self._told >= TELL_EVERY:
            self._told = now
            part = f"{min(99, 100 * size // whole)} %, " if whole else ""
            note(f"{part}{files} files, {shown(size)}")

    def seconds(self) -> float:
        return time.monotonic() - self._began


def _floor(options: CliContext) -> int:
    """Return the bytes that the daemon needs free; none if the settings cannot be read."""
    try:
        return int(options.settings().free_space_floor)
    except SettingsError:
        return 0


def _look(action: str, file: str, *, json: bool) -> None:
    if action not in {"verify", "list"}:
        raise UsageError(f"{action!r:.60} is neither `verify` nor `list`; a backup is made with one FILE")
    lines: list[Listed] = []
    with opened_backup(None if file == STANDARD else Path(file), sys.stdin.buffer) as opened:
        if action == "list" and not json:
            note(f"{'BYTES':>14}  NAME")
            found = list_backup(opened, lambda one: typer.echo(f"{one.size:>14}  {_escaped(one.name)}"))
        elif action == "list":
            found = list_backup(opened, lines.append)
        else:
            found = verify_backup(opened)
    view = _contents_view(found, lines)
    if json:
        print_json(view)
    else:
        said = f"whole: {view.files} files, {shown(view.bytes)}; of {view.data_dir} on {view.host}, {view.created_at}"
        note(said) if action == "list" else console().print(said, soft_wrap=True)


def _escaped(name: str) -> str:
    return name.encode("unicode_escape", "surrogateescape").decode() if not name.isprintable() else name


def _contents_view(found: Contents, lines: list[Listed]) -> BackupContentsView:
    header = found.header
    files, size = counts_of(found)
    return BackupContentsView(
        format=cast(int, header["format"]),
        program=text_of(header.get("program")),
        host=text_of(header.get("host")),
        created_at=text_of(header.get("created_at")),
        data_dir=text_of(header.get("data_dir")),
        excluded=tuple(text_of(one) for one in list_of(header.get("excluded"))),
        files=files,
        bytes=size,
        names=tuple(_escaped(one.name) for one in lines),
    )


def _show_made(file: str, made: BackupMade, seconds: float, *, json: bool) -> None:
    view = BackupView(
        file=file,
        files=made.files,
        bytes=made.size,
        packed_bytes=made.packed,
        seconds=round(seconds, 1),
        unsettled=made.unsettled,
        unreadable=made.unreadable,
        needs_key=made.needs_key,
    )
    if json:
        print_json(view)
        return
    said = f"{made.files} files, {shown(made.size)}, packed to {shown(made.packed)} in {seconds:.1f} s"
    note(said) if file == STANDARD else console().print(f"{file}: {said}", soft_wrap=True)
    if made.needs_key:
        note(KEY_NOTE)
    if made.unsettled:
        note(f"these tasks changed all the time and may repeat their last steps: {', '.join(made.unsettled)}")
    if made.unreadable:
        note(f"{len(made.unreadable)} files could not be read and are not in it, such as {made.unreadable[0]}")


def _show_restored(done: Restored, *, json: bool) -> None:
    origin = f"{text_of(done.header.get('data_dir'))} on {text_of(done.header.get('host'))}"
    if json:
        print_json(
            RestoredFolderView(
                data_dir=str(done.data_dir),
                origin=origin,
                backed_up_at=text_of(done.header.get("created_at")),
                files=done.files,
                bytes=done.size,
                tasks=done.tasks,
                lost_runs=done.lost_runs,
                problems=tuple(done.problems),
            )
        )
        return
    tasks = ", ".join(f"{count} {status}" for status, count in sorted(done.tasks.items())) or "none"
    rows = {
        "data folder": str(done.data_dir),
        "backup": f"of {origin}, {text_of(done.header.get('created_at'))}",
        "files": f"{done.files}, {shown(done.size)}",
        "tasks": tasks,
        "agents and checks lost": str(done.lost_runs or ""),
    }
    console().print(facts([(name, Text(value)) for name, value in rows.items()]))
    for problem in done.problems:
        note(f"to do: {problem}")
    if (done.data_dir / RESTORED_SETTINGS).is_dir():
        note(
            f"the settings are in {done.data_dir / RESTORED_SETTINGS}; compare them with yours, and copy what you want"
        )
    note(
        f"this is a copy of {origin}: never run both, or their work is done twice; make sure that the other daemon"
        " stays stopped before you start this one"
    )

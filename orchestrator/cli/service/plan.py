"""What is to be done to install or to remove a service, as values: it is shown first, then carried out."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from orchestrator.cli.service.content import files_of, links_of
from orchestrator.cli.service.record import Record
from orchestrator.cli.service.scope import ACCOUNT, UNIT, Places, Scope
from orchestrator.formats.files import read_file

NOT_OURS = "it was not written by this command, or was changed since"


class Deed(StrEnum):
    """What is done to a file, a link or a folder, or that a command is run."""

    WRITE = "write"
    LINK = "link"
    SAME = "same"
    KEEP = "keep"
    REMOVE = "remove"
    RUN = "run"
    TRY = "try"
    """Run a command that may fail without harm."""
    DELETE_DATA = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step: with a path, its content or target; or with a command; `note` says what else there is to know."""

    deed: Deed
    path: Path | None = None
    content: bytes = b""
    target: Path | None = None
    command: tuple[str, ...] = ()
    note: str = ""

    def __str__(self) -> str:
        """Say it in a line."""
        what = " ".join(self.command) or f"{self.path}{f' -> {self.target}' if self.target else ''}"
        return f"{self.deed:<8}{what}{f'   ({self.note})' if self.note else ''}"

    @property
    def changes(self) -> bool:
        """Return whether it changes anything."""
        return self.deed not in {Deed.SAME, Deed.KEEP}


def installation(places: Places, record: Record, *, lingers: bool) -> list[Step]:
    """Return what installs or updates a service; `lingers` says whether the user's services outlive a login already."""
    files = [_file_step(path, content, record) for path, content in files_of(places).items()]
    links = [_link_step(path, target, record) for path, target in links_of(places).items()]
    is_changed = any(step.changes for step in files)
    systemctl = ("systemctl", *places.scope.words)
    commands: list[tuple[str, ...]] = []
    if places.scope is Scope.SYSTEM:
        commands += [
            ("systemd-sysusers", "/etc/sysusers.d/orchestrator.conf"),
            ("systemd-tmpfiles", "--create", "/etc/tmpfiles.d/orchestrator.conf"),
        ]
    elif not lingers:
        commands.append(("loginctl", "enable-linger", places.account))
    commands.append((*systemctl, "daemon-reload"))
    commands.append((*systemctl, "enable", UNIT))
    commands.append((*systemctl, "restart" if is_changed else "start", UNIT))
    return [*files, *links, *(Step(deed=Deed.RUN, command=command) for command in commands)]


def removal(places: Places, record: Record, *, delete_data: bool) -> list[Step]:
    """Return what removes a service: its files, unless they were changed, and its data only if that is wanted."""
    systemctl = ("systemctl", *places.scope.words)
    there = places.unit.exists()
    before = [
        Step(deed=Deed.TRY, command=(*systemctl, "disable", "--now", UNIT)),
        Step(deed=Deed.TRY, command=(*systemctl, "kill", "--signal=KILL", UNIT), note="agents that outlive the daemon"),
    ]
    files = [_removal_step(Path(name), record.is_ours(Path(name))) for name in record.files]
    links = [_removal_step(Path(name), _leads_to(Path(name), target)) for name, target in record.links.items()]
    after = [Step(deed=Deed.RUN, command=(*systemctl, "daemon-reload"))]
    if record.lingers:
        after.append(Step(deed=Deed.TRY, command=("loginctl", "disable-linger", places.account)))
    kept = [step for step in (*files, *links) if step is not None]
    return [*(before if there else []), *kept, *(after if kept else []), *_data_steps(places, delete_data=delete_data)]


def _data_steps(places: Places, *, delete_data: bool) -> Iterable[Step]:
    folders = [places.data_dir, *([places.home] if places.scope is Scope.SYSTEM else [])]
    there = [folder for folder in folders if folder.is_dir()]
    if not delete_data:
        return [Step(deed=Deed.KEEP, path=folder, note="data; --delete-data deletes it") for folder in there]
    deeds = [Step(deed=Deed.DELETE_DATA, path=folder, note="cannot be undone") for folder in there]
    if places.scope is Scope.SYSTEM:
        deeds.append(Step(deed=Deed.TRY, command=("userdel", ACCOUNT)))
    return deeds


def _file_step(path: Path, content: bytes, record: Record) -> Step:
    if not os.path.lexists(path):
        return Step(deed=Deed.WRITE, path=path, content=content)
    if not path.is_symlink() and read_file(path) == content:
        return Step(deed=Deed.SAME, path=path, content=content)
    if record.is_ours(path):
        return Step(deed=Deed.WRITE, path=path, content=content, note="a newer one")
    return Step(deed=Deed.KEEP, path=path, note=NOT_OURS)


def _link_step(path: Path, target: Path, record: Record) -> Step:
    if not os.path.lexists(path) or _leads_to(path, record.links.get(str(path), "")):
        return Step(deed=Deed.SAME if _leads_to(path, str(target)) else Deed.LINK, path=path, target=target)
    if path.resolve() == target.resolve():
        return Step(deed=Deed.SAME, path=path, target=target)
    return Step(deed=Deed.KEEP, path=path, note=NOT_OURS)


def _removal_step(path: Path, is_ours: bool) -> Step | None:
    if not os.path.lexists(path):
        return None
    return Step(deed=Deed.REMOVE, path=path) if is_ours else Step(deed=Deed.KEEP, path=path, note=NOT_OURS)


def _leads_to(path: Path, target: str) -> bool:
    return path.is_symlink() and str(path.readlink()) == target

"""Schemas of how the daemon is set up, and of who did what."""

from datetime import datetime

from orchestrator.daemon.inspection.doctor_checks import Level
from orchestrator.server.schemas.base import View, Words


class SettingView(View):
    """A setting in force: its value as TOML would write it, and the file and line, or the place, that it comes from.

    `line` is 0 where the source is no file; `isMasked` where the value may be a secret.
    """

    name: str
    value: Words
    source: str
    line: int
    is_masked: bool


class SettingsFileView(View):
    """A file that settings are read from, and whether it was."""

    path: str
    is_read: bool


class SettingsView(View):
    """Every setting in force; of the files later ones win."""

    values: tuple[SettingView, ...]
    files: tuple[SettingsFileView, ...]


class FindingView(View):
    """The result of one check; `mend` is the command that fixes the problem, empty where there is none."""

    name: str
    level: Level
    text: Words
    mend: Words


class DoctorView(View):
    """What would stop an unattended night; `ok` if nothing would, not `whole` while a check still runs."""

    ok: bool
    whole: bool
    checked_at: datetime
    findings: tuple[FindingView, ...]


class AuditEntryView(View):
    """A decision that somebody asked for; `number` counts all decisions of all tasks, `seq` those of the task."""

    number: int
    at: datetime
    task: str
    seq: int
    by: Words
    trigger: str
    text: Words


class AuditView(View):
    """Decisions that somebody asked for, newest first; older ones are `before` that number, if it is given.

    `lost` decisions could not be read.
    """

    entries: tuple[AuditEntryView, ...]
    before: int | None
    lost: int

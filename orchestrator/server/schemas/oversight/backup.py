"""What the commands `backup` and `restore` say as JSON."""

from orchestrator.server.schemas.base import View


class BackupView(View):
    """A backup that was made."""

    file: str
    files: int
    bytes: int
    packed_bytes: int
    seconds: float
    unsettled: tuple[str, ...]
    unreadable: tuple[str, ...]
    needs_key: bool


class BackupContentsView(View):
    """What a backup has; `names` only if they were asked for."""

    format: int
    program: str
    host: str
    created_at: str
    data_dir: str
    excluded: tuple[str, ...]
    files: int
    bytes: int
    names: tuple[str, ...] = ()


class RestoredFolderView(View):
    """What was restored, and what is still to do."""

    data_dir: str
    origin: str
    backed_up_at: str
    files: int
    bytes: int
    tasks: dict[str, int]
    lost_runs: int
    problems: tuple[str, ...]

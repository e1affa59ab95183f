"""Building what tells notices and what is asked about them; the loops that send them are built with the daemon."""

from collections.abc import Callable
from datetime import datetime

from orchestrator.daemon.notifications.announcer import Announcer
from orchestrator.daemon.notifications.channel_watch import ChannelWatch
from orchestrator.daemon.notifications.service import NotificationService
from orchestrator.integrations.notices.health import HealthBook
from orchestrator.integrations.notices.outbox import FOLDER, OUTBOX, NoticeOutbox
from orchestrator.settings.settings import Settings
from orchestrator.storage.store import FolderStore


def build_notifications(
    settings: Callable[[], Settings], store: FolderStore, redact: Callable[[str], str], clock: Callable[[], datetime]
) -> NotificationService:
    """Return the use cases of notifications, with what waits from before; `settings` returns those in force."""
    folder = store.data_dir / FOLDER
    announcer = Announcer(
        outbox=NoticeOutbox(folder / OUTBOX, clock),
        rules=lambda: settings().notify.core_rules(has_command=bool(settings().people.notify_command)),
        language=lambda: settings().notify.language,
        files=store.files,
        redact=redact,
        clock=clock,
    )
    return NotificationService(announcer=announcer, watch=ChannelWatch(book=HealthBook(folder), announcer=announcer))

"""The channels, rules, windows and schedules of the year."""

from collections.abc import Mapping
from datetime import time
from pathlib import Path
from zoneinfo import ZoneInfo

from orchestrator.core.schedule.admission import Capacity
from orchestrator.core.schedule.pressure import Floors
from orchestrator.core.schedule.run_windows import AtEdge, RunWindow
from orchestrator.core.task.task import Task
from orchestrator.settings.sections.notify import NotifySettings
from orchestrator.settings.settings import Settings
from orchestrator.supervisor.simulation.runner import DaemonConfig
from tests.fakes.tasks import full_pipeline

BERLIN = ZoneInfo("Europe/Berlin")
NIGHT = RunWindow(name="night", days=frozenset(range(5)), opens=time(22), closes=time(6, 30), zone=BERLIN)
WEEKEND = RunWindow(
    name="weekend",
    days=frozenset({5, 6}),
    opens=time(1, 30),
    closes=time(20),
    zone=BERLIN,
    at_edge=AtEdge.END_TURN,
)
LINES = ("0 22 * * 1-5", "30 2 * * *", "0 12 * * 0", "15 */6 * * *")
SECRET = "A_SECRET"


def _webhook(name: str, **more: object) -> dict[str, object]:
    return {"type": "webhook", "url": f"https://{name}.invalid/", "secret_env": SECRET, **more}


NOTIFY: Mapping[str, object] = {
    "zone": "Europe/Berlin",
    "quiet_hours": "22:00-07:00",
    "urgent": ["login_missing", "limit_reached"],
    "channels": {
        "chat": _webhook("chat"),
        "mail": _webhook("mail", digest_every=4 * 3600),
        "pager": _webhook("pager", quiet_hours=""),
        "hook": _webhook("hook", quiet_hours="01:30-02:30"),
        "old": _webhook("old", quiet_hours=""),
    },
    "rules": [
        {"channels": ["hook"], "kinds": ["blocked", "failed", "limit_reached", "channel_failed"]},
        {"channels": ["chat"], "kinds": ["blocked", "failed", "question_asked", "review_asked", "completed"]},
    ],
    "escalations": [
        {"channels": ["pager"], "after": 2 * 3600},
        {"channels": ["pager", "old"], "after": 24 * 3600, "kinds": ["question_asked", "blocked"]},
    ],
    "report": {"at": "02:30", "channels": ["mail", "pager", "old"], "format": "html"},
}
"""The report comes at a time that summer time leaves out and that comes twice in autumn, in quiet hours."""


def settings(data_dir: Path, *, has_channels: bool) -> Settings:
    """Return the settings of the daemon; without channels nothing is told."""
    notify = NotifySettings.model_validate(NOTIFY) if has_channels else NotifySettings()
    return Settings(data_dir=data_dir, socket=data_dir / "s", notify=notify)


def config(places: int = 3) -> DaemonConfig:
    """Return what the supervisor needs."""
    return DaemonConfig(
        capacity=Capacity(places=places, windows=(NIGHT, WEEKEND)),
        floors=Floors(free_disk=2**31, available_memory=2**29, load_per_core=2.0),
        policy=Settings.model_construct().policy,
        pipelines={"full": full_pipeline()},
        model_of=_model_of,
        stall_after=900.0,
        orphan_after=300.0,
    )


def _model_of(task: Task) -> str:
    return "claude-opus" if task.stage == "IMPLEMENTATION" else "claude-sonnet"

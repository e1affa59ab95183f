"""Every page, by a name and an address in a seeded folder: for what must hold on all of them, and for screenshots."""

from collections.abc import Mapping

from tests.fakes.seeded_folder import Seeded


def pages_of(seeded: Seeded) -> Mapping[str, str]:
    """Return the addresses of all pages, each with content; `task-…` shows a task in one of its states."""
    return {
        "now": "/",
        "board": "/board",
        "tasks": "/tasks",
        "new": "/tasks/new",
        "task-question": f"/tasks/{seeded.question}",
        "task-review": f"/tasks/{seeded.review}",
        "task-blocked": f"/tasks/{seeded.blocked}",
        "task-parent": f"/tasks/{seeded.parent}",
        "timeline": f"/tasks/{seeded.blocked}/timeline",
        "timeline-long": f"/tasks/{seeded.long}/timeline",
        "journal": f"/tasks/{seeded.blocked}/journal",
        "transcript": f"/tasks/{seeded.review}/transcript",
        "diff": f"/tasks/{seeded.review}/diff",
        "artifacts": f"/tasks/{seeded.review}/artifacts",
        "artifact": f"/tasks/{seeded.review}/artifacts/analysis.md",
        "checkpoints": f"/tasks/{seeded.long}/checkpoints",
        "report": "/report",
        "limits": "/limits",
        "pipelines": "/pipelines",
        "pipeline": "/pipelines/full",
        "schedules": "/schedules",
        "schedule": "/schedules/audit-of-the-dependencies",
        "schedule-new": "/schedules/new/form",
        "schedule-change": "/schedules/audit-of-the-dependencies/change",
        "intake": "/intake",
        "notifications": "/notifications",
        "disk": "/disk",
        "backups": "/backups",
        "settings": "/settings",
        "doctor": "/doctor",
        "agents": "/agents",
        "audit": "/audit",
        "docs": "/docs",
    }

"""Disk space: what takes it, and removing what may go."""

from typing import Annotated

from fastapi import APIRouter, Query

from orchestrator.daemon.housekeeping.service import DiskReport, Pruned, PruneQuery
from orchestrator.daemon.housekeeping.usage import DiskUsage, KindUsage, TaskUsage, usage
from orchestrator.daemon.services import errors
from orchestrator.server.access.marks import ADMIN
from orchestrator.server.idempotency import KeyedRoute
from orchestrator.server.openapi.refusals import refuses
from orchestrator.server.routes.dependencies import By, TheService
from orchestrator.server.schemas.base import Redact, compose_view
from orchestrator.server.schemas.oversight.disk import (
    DiskView,
    KeptView,
    KindUsageView,
    OtherUsageView,
    PruneBody,
    PruneView,
    RemovalView,
    TaskUsageView,
)

MOST_KEPT = 200

router = APIRouter(prefix="/api", tags=["daemon"], route_class=KeyedRoute)


@router.get("/disk")
async def disk(service: TheService, limit: Annotated[int, Query(ge=0, le=1000)] = 20) -> DiskView:
    """Show what takes space, by kind and by task, the largest tasks first, and what would be removed when."""
    report = await service.disk.report()
    found = await service.disk.background.run(usage, report, limit, service.disk.clock())
    return disk_view(report, found, service.redact)


@router.post("/disk/prune", openapi_extra=ADMIN, responses=refuses(errors.NoSuchTask, errors.AmbiguousName))
async def prune(body: PruneBody, service: TheService, by: By) -> PruneView:
    """Remove files of ended tasks that may go. What exists nowhere else stays, and is named with the reason."""
    now = service.disk.clock()
    query = PruneQuery(
        older_than=None if body.before is None else now - body.before,
        kinds=frozenset(body.kinds),
        tasks=body.tasks,
    )
    found = await (service.disk.preview(query) if body.dry_run else service.disk.prune(query, by))
    return _pruned(found, service.redact, dry_run=body.dry_run)


def disk_view(report: DiskReport, found: DiskUsage, redact: Redact) -> DiskView:
    """Return a report with what it adds up to."""
    return compose_view(
        DiskView,
        redact,
        *(found, report, report.inventory),
        kinds=tuple(_kind(one, report) for one in found.kinds),
        tasks=tuple(_task(one, redact) for one in found.tasks),
        others=tuple(OtherUsageView(name=name, size=size) for name, size in report.inventory.others if size),
    )


def _kind(one: KindUsage, report: DiskReport) -> KindUsageView:
    limits = report.policy.of(one.kind)
    days = None if limits.age is None else limits.age.total_seconds() / 86_400
    return compose_view(KindUsageView, str, one, keep_days=days, keep_count=limits.count, keep_bytes=limits.size)


def _task(one: TaskUsage, redact: Redact) -> TaskUsageView:
    return compose_view(TaskUsageView, redact, one)


def _pruned(found: Pruned, redact: Redact, *, dry_run: bool) -> PruneView:
    removed = tuple(compose_view(RemovalView, redact, one, one.item) for one in found.done)
    kept = tuple(compose_view(KeptView, redact, one, one.item) for one in found.kept[:MOST_KEPT])
    return PruneView(
        dry_run=dry_run,
        removed=removed,
        kept=kept,
        kept_items=len(found.kept),
        freed=found.freed,
        more=found.more,
    )

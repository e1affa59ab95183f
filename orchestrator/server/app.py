"""The application: its routes and pages, who may call them, and how requests are refused."""

from collections.abc import Collection

from fastapi import Depends
from starlette.routing import Route

from orchestrator import __version__
from orchestrator.daemon.service import Service
from orchestrator.server.access.admission import Admission
from orchestrator.server.access.headers import SafeHeaders
from orchestrator.server.access.hosts import KnownHosts
from orchestrator.server.access.marks import check_mark
from orchestrator.server.access.origins import SameOrigin
from orchestrator.server.access.rates import FewFailures, RateLimited, Rates
from orchestrator.server.access.sizes import BoundedBodies, BoundedHeads
from orchestrator.server.idempotency import IdempotencyKeys
from orchestrator.server.mcp import endpoint as mcp
from orchestrator.server.openapi.document import DocumentedApp, operation_id
from orchestrator.server.problems import answer_with_problems
from orchestrator.server.routes import (
    checkpoints,
    daemon,
    events,
    inspection,
    limits,
    preview,
    records,
    reports,
    state_operations,
    tasks,
    texts,
    tokens,
    user_requests,
)
from orchestrator.server.routes.intake import hooks, schedules, sources
from orchestrator.server.routes.oversight import disk, notifications
from orchestrator.server.web.router import add_pages


def create_app(service: Service, allowed_hosts: Collection[str] = ()) -> DocumentedApp:
    """Return the API and the pages of one daemon; listener.py listens for it, whose connections know their peer.

    `allowed_hosts` are names by which browsers may call it beside those of this machine.
    """
    app = DocumentedApp(
        title="orchestrator",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=operation_id,
        dependencies=[Depends(check_mark)],
    )
    app.state.service = service
    app.state.allowed_hosts = allowed_hosts
    app.state.keys = IdempotencyKeys(service.data_dir / "idempotency")
    answer_with_problems(app)
    for router in (
        tasks.router,
        preview.router,
        user_requests.router,
        daemon.people,
        limits.router,
        notifications.router,
        records.router,
        checkpoints.router,
        texts.router,
        records.agents_router,
        events.router,
        daemon.router,
        inspection.router,
        reports.router,
        disk.router,
        schedules.router,
        sources.router,
        state_operations.router,
        tokens.router,
        hooks.router,
        hooks.hooks,
    ):
        app.include_router(router)
    app.router.routes.append(Route(mcp.PATH, mcp.McpEndpoint(service, app.state.keys), include_in_schema=False))
    add_pages(app)
    _guard(app, service, allowed_hosts)
    return app


def _guard(app: DocumentedApp, service: Service, allowed_hosts: Collection[str]) -> None:
    """Put before an app what every request passes; the last one here is the first that it meets."""
    rates = Rates()
    app.add_middleware(BoundedBodies)
    app.add_middleware(RateLimited, rates=rates)
    app.add_middleware(Admission, access=service.access, credentials=service.credentials)
    app.add_middleware(SameOrigin)
    app.add_middleware(KnownHosts, also=allowed_hosts)
    app.add_middleware(BoundedHeads)
    app.add_middleware(FewFailures, rates=rates)
    app.add_middleware(SafeHeaders)

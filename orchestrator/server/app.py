"""The application: its routes, who may call them, and how requests are refused."""

from fastapi import FastAPI

from orchestrator import __version__
from orchestrator.daemon.service import Service
from orchestrator.server.idempotency import IdempotencyKeys
from orchestrator.server.peer_auth import PeerAuthMiddleware
from orchestrator.server.problems import answer_with_problems
from orchestrator.server.routes import (
    checkpoints,
    daemon,
    events,
    limits,
    records,
    state_operations,
    tasks,
    user_requests,
)


def create_app(service: Service) -> FastAPI:
    """Return the API of one daemon; only for callers on a Unix socket, as listener.py listens on it."""
    app = FastAPI(title="orchestrator", version=__version__, docs_url="/docs", redoc_url=None)
    app.state.service = service
    app.state.keys = IdempotencyKeys(service.data_dir / "idempotency")
    answer_with_problems(app, service.redact)
    app.add_middleware(PeerAuthMiddleware, access=service.access)
    for router in (
        tasks.router,
        user_requests.router,
        daemon.people,
        limits.router,
        records.router,
        checkpoints.router,
        records.agents_router,
        events.router,
        daemon.router,
        state_operations.router,
    ):
        app.include_router(router)
    return app

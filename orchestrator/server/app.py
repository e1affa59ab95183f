"""The application: its routes, who may come in, and how it refuses."""

import asyncio

from fastapi import FastAPI

from orchestrator import __version__
from orchestrator.server.backend import Backend
from orchestrator.server.idempotency_keys import Keys
from orchestrator.server.peer_auth import PeerAuthMiddleware
from orchestrator.server.problems import answer_with_problems
from orchestrator.server.routes import (
    bulk,
    checkpoints,
    limits,
    overview,
    publications,
    records,
    state_operations,
    status,
    streams,
    tasks,
    transcripts,
    user_requests,
)
from orchestrator.server.routes.streams import Streams
from orchestrator.server.task_index import TaskIndex


def create_app(backend: Backend) -> FastAPI:
    """The API of one daemon; only for callers on a Unix socket, as server.py listens on it. Raises UnfitIndex."""
    app = FastAPI(title="orchestrator", version=__version__, docs_url="/docs", redoc_url=None)
    app.state.backend = backend
    app.state.register = TaskIndex(backend)
    app.state.streams = Streams(backend)
    app.state.keys = Keys(backend.settings.data_dir / "idempotency")
    app.state.providing = asyncio.Lock()
    answer_with_problems(app)
    state_operations.answer_with_documents(app)
    app.add_middleware(PeerAuthMiddleware, files=backend.store.files)
    for part in (
        tasks,
        publications,
        user_requests,
        bulk,
        limits,
        records,
        checkpoints,
        transcripts,
        streams,
        status,
        overview,
        state_operations,
    ):
        app.include_router(part.router)
    return app

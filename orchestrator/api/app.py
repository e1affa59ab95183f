"""The application: its routes, who may come in, and how it refuses."""

import asyncio

from fastapi import FastAPI

from orchestrator import __version__
from orchestrator.api import (
    asks,
    checkpoints,
    everything,
    limits,
    operations,
    overview,
    publications,
    records,
    status,
    streams,
    tasks,
    transcripts,
)
from orchestrator.api.backend import Backend
from orchestrator.api.callers import KnownCallers
from orchestrator.api.keys import Keys
from orchestrator.api.problems import answer_with_problems
from orchestrator.api.register import Register
from orchestrator.api.streams import Streams


def create_app(backend: Backend) -> FastAPI:
    """The API of one daemon; only for callers on a Unix socket, as server.py listens on it. Raises UnfitIndex.

    A daemon has one app, made before its first decision: the app keeps the order of the decisions.
    """
    app = FastAPI(title="orchestrator", version=__version__, docs_url="/docs", redoc_url=None)
    app.state.backend = backend
    app.state.register = Register(backend)
    app.state.streams = Streams(backend)
    app.state.keys = Keys(backend.settings.data_dir / "idempotency")
    app.state.providing = asyncio.Lock()
    answer_with_problems(app)
    operations.answer_with_documents(app)
    app.add_middleware(KnownCallers, tasks_dir=backend.store.tasks_dir)
    for part in (
        tasks,
        publications,
        asks,
        everything,
        limits,
        records,
        checkpoints,
        transcripts,
        streams,
        status,
        overview,
        operations,
    ):
        app.include_router(part.router)
    return app

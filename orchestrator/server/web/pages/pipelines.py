"""Pipelines and roles as they are declared, and what is wrong with their files."""

from typing import Any

from fastapi import APIRouter, HTTPException, Request, Response

from orchestrator.core.task.pipeline import Pipeline
from orchestrator.daemon.service import Service
from orchestrator.pipelines.graph import EdgeKind, about, graph_edges
from orchestrator.server.routes.daemon import pipelines as declared_pipelines
from orchestrator.server.routes.daemon import roles as declared_roles
from orchestrator.server.routes.dependencies import TheService
from orchestrator.server.schemas.base import Redact, compose_view
from orchestrator.server.schemas.daemon import PipelineView
from orchestrator.server.web.drawing.graph import Edge, Node, draw_graph
from orchestrator.server.web.page_route import PageRoute
from orchestrator.server.web.templates import render
from orchestrator.server.web.views import EdgeView

router = APIRouter(route_class=PageRoute)


@router.get("/pipelines")
async def pipelines(request: Request, service: TheService) -> Response:
    """List pipelines and roles, and what is wrong with their files."""
    values: dict[str, Any] = {
        "pipelines": (await declared_pipelines(service)).pipelines,
        "roles": (await declared_roles(service)).roles,
        "problems": await _problems(service),
    }
    return render(request, "pipelines/page.html", **values)


@router.get("/pipelines/{name}")
async def pipeline(request: Request, service: TheService, name: str) -> Response:
    """Show one pipeline with its graph."""
    found = service.status.definitions().pipelines.get(name)
    if found is None:
        raise HTTPException(404, "there is no such pipeline; /pipelines lists all")
    shown = compose_view(PipelineView, service.redact, found, stages=tuple(found.stages.values()))
    roles = {one.name: one for one in (await declared_roles(service)).roles}
    values: dict[str, Any] = {
        "pipeline": shown,
        "drawing": draw_pipeline(found, service.redact),
        "edges": _edges(found, service.redact),
        "roles": [roles[role] for role in found.roles if role in roles],
        "problems": [one for one in await _problems(service) if one.startswith(f"{found.source}:")],
    }
    return render(request, "pipelines/one.html", **values)


def draw_pipeline(pipeline: Pipeline, redact: Redact) -> str:
    """Return the graph of a pipeline; what leads to its end or to a halt is left to the table beside it."""
    nodes = [
        Node(
            key=name, title=redact(name), lines=tuple(map(redact, about(stage))), kind="review" if stage.review else ""
        )
        for name, stage in pipeline.stages.items()
    ]
    edges = [
        Edge(
            source=one.source,
            target=one.target,
            kind=one.way,
            about=redact(f"{one.source} → {one.target}" + f" if {', '.join(one.labels)}" * bool(one.labels)),
        )
        for one in graph_edges(pipeline)
        if one.way is not EdgeKind.HALT
    ]
    return draw_graph(nodes, edges, redact(pipeline.name))


def _edges(pipeline: Pipeline, redact: Redact) -> list[EdgeView]:
    return [compose_view(EdgeView, redact, one) for one in graph_edges(pipeline)]


async def _problems(service: Service) -> list[str]:
    return [service.redact(str(one)) for one in await service.oversight.definitions.problems()]

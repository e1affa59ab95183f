"""Limits and cost: usage windows, the day's budget, who waits for them, and what the last days cost."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request, Response
from markupsafe import Markup
from pydantic import Field

from orchestrator.daemon.reporting.statistics import Dimension
from orchestrator.daemon.service import Service
from orchestrator.server.routes.dependencies import By, TheService
from orchestrator.server.routes.limits import limits_view
from orchestrator.server.routes.reports import read_statistics
from orchestrator.server.schemas.oversight.reports import DivisionView, StatisticsView
from orchestrator.server.web.drawing.charts import COLOURS, Series, colour_of, draw_bars
from orchestrator.server.web.forms import Sent, done
from orchestrator.server.web.languages import language_of, translate
from orchestrator.server.web.page_route import PageRoute
from orchestrator.server.web.shared_parts import SHARED
from orchestrator.server.web.templates import money_text, render

router = APIRouter(route_class=PageRoute)

DAYS = (7, 30)
MOST_SERIES = COLOURS
MOST_WAITING = 200
"""Tasks that wait for limits that the page shows."""


class ForgetForm(Sent):
    """Which usage window is to be forgotten; empty for all."""

    window: str = Field(default="", max_length=200)


@router.get("/limits")
async def limits(request: Request, service: TheService, days: Annotated[int, Query(ge=1, le=90)] = 7) -> Response:
    """Show what limits work now, and charts of the last days."""
    return render(request, "limits/page.html", **await _now(service), **await _charts(request, service, days))


@router.get("/limits/now", openapi_extra=SHARED)
async def now(request: Request, service: TheService) -> Response:
    """Show what limits work now."""
    return render(request, "limits/_now.html", **await _now(service))


@router.post("/limits/forget")
async def forget(request: Request, service: TheService, by: By, form: Annotated[ForgetForm, Form()]) -> Response:
    """Forget that a usage window, or any, is used up."""
    await service.limits.forget(form.window or None, by)
    return done(request, form.next)


async def _now(service: Service) -> dict[str, Any]:
    return {"limits": await limits_view(service, service.limits.report(), MOST_WAITING)}


async def _charts(request: Request, service: Service, days: int) -> dict[str, Any]:
    found = await read_statistics(service, days)
    language = language_of(request)
    charts = [(dimension, _chart(dimension, found, language)) for dimension in Dimension]
    return {"stats": found, "days": days, "spans": DAYS, "charts": charts}


def _chart(dimension: Dimension, found: StatisticsView, language: str) -> dict[str, Any]:
    """Return a chart of costs by the names of a dimension, and what its legend and table need."""
    divisions = [one for one in found.divisions[dimension] if one.total.spent.usd > 0]
    named = divisions[:MOST_SERIES]
    rest = divisions[MOST_SERIES:]
    series = [Series(name=_short(one.name), values=_costs(one, found.days)) for one in named]
    if rest:
        costs = [_costs(one, found.days) for one in rest]
        name = translate(language, "others", "words")
        series.append(Series(name=name, values=[sum(one[at] for one in costs) for at in range(len(found.days))]))
    label = translate(language, dimension.value, "words")
    drawing = draw_bars(found.days, series, money_text, label) if series else Markup("")
    legend = [(colour_of(index), one.name) for index, one in enumerate(series)]
    return {"drawing": drawing, "legend": legend, "divisions": found.divisions[dimension]}


def _costs(one: DivisionView, days: Sequence[str]) -> list[float]:
    return [one.by_day[day].spent.usd if day in one.by_day else 0.0 for day in days]


def _short(name: str) -> str:
    """Return the end of a long path, or a name that is short already."""
    return name if len(name) <= 40 else f"…{name[-39:]}"

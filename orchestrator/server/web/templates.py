"""Rendering: the templates of the pages, and what every one of them knows."""

from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from orchestrator import __version__
from orchestrator.daemon.access.scopes import Scope
from orchestrator.formats.person import person_name
from orchestrator.formats.units import size
from orchestrator.server.peer_auth import caller_of
from orchestrator.server.web.languages import TEXTS, language_of, translate
from orchestrator.server.web.line_words import WEEKDAYS, line_in_words

STATIC = files("orchestrator.server.web").joinpath("static")


def render(request: Request, name: str, status: int = 200, **values: object) -> HTMLResponse:
    """Return a template as an answer; its values are views and plain values, with every text redacted."""
    language = language_of(request)
    caller = caller_of(request)
    known = {
        "language": language,
        "path": page_of(request),
        "caller": caller,
        "can_operate": caller.may(Scope.OPERATE),
        "can_admin": caller.may(Scope.ADMIN),
        "version": __version__,
    }
    return HTMLResponse(environment(language).get_template(name).render({**known, **values}), status_code=status)


def page_of(request: Request) -> str:
    """Return the path of the page that asks, also where a script asks for a part of it."""
    with suppress(ValueError):
        if page := request.headers.get("hx-current-url"):
            return urlsplit(page).path or "/"
    return request.url.path


@cache
def environment(language: str) -> Environment:
    """Return the templates in a language; whatever they show is escaped."""
    made = Environment(
        loader=PackageLoader("orchestrator.server.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n", "jinja2.ext.do"],
    )

    def plural(one: str, many: str, count: int) -> str:
        return translate(language, one if count == 1 else many)

    made.install_gettext_callables(  # type: ignore[attr-defined]  # an extension adds it
        lambda text: translate(language, text), plural, newstyle=True
    )
    made.filters |= {
        "bytes": size_text,
        "clock": lambda moment, zone: clock_text(moment, zone, language),
        "duration": duration_text,
        "line_words": lambda line: line_in_words(line, language),
        "money": money_text,
        "number": number_text,
        "time": time_element,
        "person": person_name,
        "words": lambda value: translate(language, str(value).replace("_", " "), "words"),
    }
    made.globals |= {"static": static_url, "languages": tuple(TEXTS)}
    return made


@cache
def static_url(path: str) -> str:
    """Return the address of a static file; it changes with the file, so that browsers may keep it forever."""
    return f"/static/{path}?v={sha256(STATIC.joinpath(path).read_bytes()).hexdigest()[:12]}"


def time_element(moment: datetime | None, kind: str = "relative") -> Markup:
    """Return a time as an element that a script shows in the reader's zone; without the script it is in UTC.

    `kind` is relative ("3 min ago"), absolute, exact (with its seconds), or countdown (the time that is left).
    """
    if moment is None:
        return Markup("–")
    at = moment.astimezone(UTC)
    stamp, clock = f"{at:%Y-%m-%dT%H:%M:%SZ}", "%H:%M:%S" if kind == "exact" else "%H:%M"
    text = f"{at:%Y-%m-%d} {at.strftime(clock)} UTC"
    return Markup('<time datetime="{}" data-time="{}" title="{}">{}</time>').format(stamp, kind, text, text)


def clock_text(moment: datetime, zone: str, language: str) -> str:
    """Return a time as the clocks of a zone show it, with the day of the week and the zone."""
    at = moment.astimezone(ZoneInfo(zone))
    return f"{translate(language, WEEKDAYS[at.isoweekday() % 7], 'times')} {at:%Y-%m-%d %H:%M} {zone}"


def duration_text(seconds: float | None) -> str:
    """Return a duration in its two largest units."""
    if seconds is None:
        return "–"
    whole = max(0, round(seconds))
    days, hours, minutes = whole // 86400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"


def money_text(usd: float | None) -> str:
    """Return an amount of US dollars."""
    return "–" if usd is None else f"${usd:,.2f}"


def number_text(count: float | None) -> str:
    """Return a number in thousands or millions, as far as it can be read at a glance."""
    if count is None:
        return "–"
    for least, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if count >= least:
            return f"{count / (1e3 if unit == 'k' else least):.3g} {unit}"
    return f"{count:,.0f}"


def size_text(count: int | None) -> str:
    """Return a number of bytes in binary units."""
    return "–" if count is None else size(count)

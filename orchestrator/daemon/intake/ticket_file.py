"""A file of the inbox as a submission: a text with options in its front matter, or JSON as `POST /api/tasks` takes it.

A file of another user than the daemon's is a stranger's: it chooses among the repositories that the settings name, and
sets nothing that runs commands, merges by itself, or allows more than the settings do.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated

import orjson
from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from orchestrator.core.task.checks import MOST_CHECKS
from orchestrator.core.task.task import Priority
from orchestrator.core.task.task_policy import Autonomy, OnBlocked
from orchestrator.core.task.ticket import TicketType
from orchestrator.daemon.task_factory import Submission
from orchestrator.errors import OrchestratorError
from orchestrator.formats.front_matter import read_front_matter
from orchestrator.formats.table import DefinitionError, nearest
from orchestrator.integrations.errors import NoTicket
from orchestrator.integrations.tickets.text.ticket import readable
from orchestrator.redaction.display import escape_text
from orchestrator.settings.sections.intake import InboxSettings

LARGEST = 1024 * 1024
"""Bytes of a file."""
OF_THE_OWNER = ("checks", "auto_merge", "no_git", "again", "files", "on_blocked")
"""Options that only a file of the daemon's own user may set."""


class FileRefused(OrchestratorError):
    """A file cannot become a task; the message says why and how to mend it."""


def _checks(value: object) -> object:
    """Return checks as a table; front matter has them as a list of NAME=COMMAND."""
    if not isinstance(value, list):
        return value
    pairs = [str(one).partition("=") for one in value]
    if any(not (name.strip() and command.strip()) for name, _, command in pairs):
        raise ValueError("must be a list of NAME=COMMAND")
    return {name.strip(): command.strip() for name, _, command in pairs}


def _no_number(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError("must be a time such as 2026-11-22T22:00:00Z")  # noqa: TRY004 - pydantic reports this one
    return value


class TicketFile(BaseModel):
    """What a file may say; `text` is what is below the front matter."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True, frozen=True)

    text: str
    repo: Path | None = None
    title: Annotated[str, Field(max_length=1000)] = ""
    pipeline: str | None = None
    type: TicketType | None = None
    ticket: str | None = None
    base: str | None = None
    priority: Priority | None = None
    after: Annotated[tuple[str, ...], Field(max_length=100)] = ()
    at: Annotated[AwareDatetime, BeforeValidator(_no_number)] | None = None
    checks: Annotated[Mapping[str, str], BeforeValidator(_checks), Field(max_length=MOST_CHECKS)] = {}
    autonomy: Autonomy | None = None
    on_blocked: OnBlocked | None = None
    auto_merge: bool | None = None
    usd: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    draft: bool = False
    again: bool = False
    no_git: bool = False
    files: Annotated[Mapping[str, str], Field(max_length=10)] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a file came from: its name, and whether the daemon's own user put it there."""

    name: str
    is_own: bool


def submission_in(content: bytes, origin: Origin, settings: InboxSettings, now: datetime) -> Submission:
    """Return what a file of the inbox submits. Raises FileRefused."""
    found = _read(content, origin.name)
    repo = _repo(found.repo, origin, settings)
    if not origin.is_own and (given := [name for name in OF_THE_OWNER if name in found.model_fields_set]):
        raise FileRefused(f"{given[0]!r} may only be set in files of the daemon's own user; take it out")
    usd = found.usd if found.usd is not None else settings.budget
    if not origin.is_own and settings.budget is not None:
        usd = min(usd or settings.budget, settings.budget)
    return Submission(
        text=found.text,
        repo=repo,
        title=found.title,
        pipeline=found.pipeline or settings.pipeline or None,
        type=found.type,
        ticket=found.ticket,
        base=found.base,
        priority=found.priority,
        after=found.after,
        at=found.at if found.at and found.at > now else None,
        checks=found.checks,
        autonomy=_autonomy(found, origin, settings),
        on_blocked=found.on_blocked,
        auto_merge=found.auto_merge,
        usd=usd,
        draft=found.draft,
        again=found.again,
        no_git=found.no_git,
        files=found.files,
    )


def _autonomy(found: TicketFile, origin: Origin, settings: InboxSettings) -> Autonomy | None:
    """Return who decides: a stranger's file cannot take people out where the settings want them asked."""
    if not origin.is_own and settings.autonomy is Autonomy.INTERACTIVE:
        return Autonomy.INTERACTIVE
    return found.autonomy or settings.autonomy


def _read(content: bytes, name: str) -> TicketFile:
    if len(content) > LARGEST:
        raise FileRefused(f"it is larger than {LARGEST >> 20} MiB; put long material into the repository")
    try:
        text = readable(content.decode("utf-8-sig"), "the file")
        values = _from_json(content) if name.lower().endswith(".json") else _from_text(text)
        found = TicketFile.model_validate(values)
        readable(found.text, "its text")
    except UnicodeDecodeError as error:
        raise FileRefused(f"it is not UTF-8: byte {error.start}; write it as UTF-8") from error
    except ValidationError as error:
        raise FileRefused(_problems(error, is_json=name.lower().endswith(".json"))) from error
    except (DefinitionError, NoTicket) as error:
        raise FileRefused(str(error)) from error
    return found


def _from_json(content: bytes) -> object:
    try:
        value: object = orjson.loads(content.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError as error:
        raise FileRefused(f"it is not JSON: {escape_text(str(error))}; see `orchestrator help inbox`") from error
    if not isinstance(value, dict):
        raise FileRefused('it is JSON, but no object; write {"text": "…"}')
    return value


def _from_text(text: str) -> dict[str, object]:
    found = read_front_matter(text, "the file")
    if found is None:
        return {"text": text}
    options, below = found
    values = {_OTHER_NAMES.get(name, name.replace("-", "_")): value for name, value in options.everything().items()}
    if options.report.problems:
        raise DefinitionError(options.report.problems)
    if "text" in values:
        raise FileRefused("the text stands below the front matter; take `text` out of it")
    return {**values, "text": below}


_OTHER_NAMES = {"budget": "usd", "check": "checks"}
"""What options are called on the command line."""


def _repo(named: Path | None, origin: Origin, settings: InboxSettings) -> Path:
    repo = named or settings.repo
    if repo is None:
        raise FileRefused("it names no repository; add `repo: /path` to its front matter, or set [inbox] repo")
    if not repo.is_absolute() or not str(repo).isprintable():
        raise FileRefused(f"repo: {escape_text(str(repo))} is no absolute path; give one")
    if not origin.is_own and repo not in {settings.repo, *settings.repos}:
        raise FileRefused(
            f"repo: {escape_text(str(repo))} is not one that other users may name; [inbox] repos lists those"
        )
    return repo


def _problems(error: ValidationError, *, is_json: bool) -> str:
    found = error.errors(include_url=False, include_input=False)
    known = [name for name in TicketFile.model_fields if name != "text"]
    if not is_json:
        known[known.index("usd")] = "budget"
    texts = []
    for one in found[:5]:
        where = escape_text(".".join(map(str, one["loc"])), 60)
        if one["type"] == "extra_forbidden":
            texts.append(f"unknown option {where!r}; {nearest(where, known)}")
        else:
            texts.append(f"{where}: {escape_text(one['msg'].removeprefix('Value error, '))}")
    return "; ".join(texts)

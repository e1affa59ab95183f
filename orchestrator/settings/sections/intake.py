"""How work comes in by itself: an inbox folder, queries to trackers, and webhooks of theirs."""

import re
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from orchestrator.core.task.task_policy import Autonomy
from orchestrator.settings.sections.types import Positive, Seconds, SettingsSection, WholePath

TrackerKind = Literal["github", "gitlab", "jira"]
SHORTEST_INTERVAL = 10.0
"""Seconds between two polls of a query, at least."""
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}", re.ASCII)
_GITHUB = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
_GITLAB = re.compile(r"[\w.-]+(?:/[\w.-]+)+", re.ASCII)
_JIRA = re.compile(r"[A-Z][A-Z0-9_]{0,30}", re.ASCII)


def _name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r:.60} cannot be a name here; use a to z, 0 to 9, - and _, at most 40 of them")
    return name


def _label(label: str) -> str:
    if not label.strip() or "," in label or not label.isprintable():
        raise ValueError(f"{label!r:.60} cannot be a label: it is empty, or has a comma")
    return label


Name = Annotated[str, AfterValidator(_name)]
Label = Annotated[str, AfterValidator(_label)]
MostWaiting = Annotated[int, Field(ge=1, le=10_000)]


class InboxSettings(SettingsSection):
    """A folder whose files become tasks; without a folder there is none.

    Files that do not name a repository get `repo`; those of other users may only name it or one of `repos`. `users`,
    and the members of `groups`, may put files there beside the daemon's own user. A file is taken when nobody has
    changed it for `settle` seconds, and only while fewer than `most_waiting` tasks of the inbox wait for a slot.
    """

    folder: WholePath | None = None
    repo: WholePath | None = None
    repos: tuple[WholePath, ...] = ()
    pipeline: str = ""
    autonomy: Autonomy | None = None
    budget: Positive | None = None
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    settle: Seconds = 2.0
    most_waiting: MostWaiting = 100


def _require_own_place(inbox: InboxSettings, known: ValidationInfo) -> InboxSettings:
    """Return the inbox if no agent can write in its folder; raise ValueError if one can."""
    folder, data_dir, agent = inbox.folder, known.data.get("data_dir"), known.data.get("agent")
    if folder is None:
        return inbox
    if data_dir is not None and folder.is_relative_to(data_dir):
        raise ValueError(f"folder = {str(folder)!r} is in the data folder; choose a place of its own")
    if agent is not None and any(folder.is_relative_to(one) or one.is_relative_to(folder) for one in agent.writable):
        raise ValueError(f"folder = {str(folder)!r} is where agents can write ([agent] writable); choose another place")
    return inbox


Inbox = Annotated[InboxSettings, AfterValidator(_require_own_place)]
"""Declared after the data folder and the agent, which are known then."""


class QuerySettings(SettingsSection):
    """Tickets of a tracker that become tasks in the repository at `repo`: those with all `labels`, or of a `jql`.

    `closed` says what becomes of a task that has not begun when its ticket is closed, `reopened` whether a
    closed ticket that comes back after its task has ended becomes another one.
    """

    tracker: TrackerKind
    repo: WholePath
    project: str = ""
    labels: tuple[Label, ...] = Field(default=(), max_length=10)
    jql: str = Field(default="", max_length=2000)
    every: float = Field(default=300.0, ge=SHORTEST_INTERVAL, le=86_400.0)
    pipeline: str = ""
    autonomy: Autonomy | None = None
    budget: Positive | None = None
    most_waiting: MostWaiting = 20
    closed: Literal["cancel", "tell"] = "cancel"
    reopened: Literal["again", "ignore"] = "again"

    @model_validator(mode="after")
    def _names_tickets(self) -> Self:
        if self.jql and self.tracker != "jira":
            raise ValueError(f"jql is for Jira; a query of {self.tracker} has project and labels")
        if self.jql and (self.project or self.labels):
            raise ValueError("give either jql, or project and labels")
        if not self.jql:
            _require_project(self.tracker, self.project)
        return self


def _require_project(tracker: TrackerKind, project: str) -> None:
    pattern, example = {
        "github": (_GITHUB, "owner/repository"),
        "gitlab": (_GITLAB, "group/project"),
        "jira": (_JIRA, "ABC, or give jql"),
    }[tracker]
    if not pattern.fullmatch(project) or any(not part.strip(".") for part in project.split("/")):
        raise ValueError(f"project = {project!r:.80} names none on {tracker}; write {example}")


class HookSettings(SettingsSection):
    """Webhooks of a tracker that wake a query; `secret_env` names the variable that holds their secret."""

    kind: TrackerKind
    secret_env: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")
    query: str


Queries = Mapping[Name, QuerySettings]


def _require_queries(hooks: Mapping[str, HookSettings], known: ValidationInfo) -> Mapping[str, HookSettings]:
    """Return the hooks if each wakes a query of its own tracker; raise ValueError if not."""
    queries: Mapping[str, QuerySettings] | None = known.data.get("queries")
    for name, hook in hooks.items() if queries is not None else ():
        found = queries.get(hook.query) if queries else None
        if found is None:
            raise ValueError(f"{name}.query = {hook.query!r:.60} is no query; declare [queries.{hook.query:.60}]")
        if found.tracker != hook.kind:
            raise ValueError(f"{name} is a hook of {hook.kind}, but its query {hook.query!r} asks {found.tracker}")
    return hooks


Hooks = Annotated[Mapping[Name, HookSettings], AfterValidator(_require_queries)]
"""Declared after the queries, which are known then."""

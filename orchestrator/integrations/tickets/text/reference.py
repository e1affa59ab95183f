"""The name of a ticket on a tracker, as people write it: `ABC-123`, `owner/repo#12`, or its address.

A short name belongs to the first configured tracker of its kind. An address is fetched from configured trackers only,
so that no ticket can make the daemon contact another server, or send a token there.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from orchestrator.integrations.errors import NoTicket
from orchestrator.integrations.tickets.text.ticket import Tracker
from orchestrator.redaction.display import escape_text

LONGEST = 1000
"""Characters; anything longer is a text, not a name."""

LONGEST_WORDS = 200
"""Characters of a search; GitHub takes 256 with what is added."""

JIRA_KEY = re.compile(r"(?!LOCAL-)(?P<project>[A-Z][A-Z0-9_]{0,30})-(?P<number>[1-9][0-9]{0,11})")
_SHORT = re.compile(r"(?P<project>[\w.-]+(?:/[\w.-]+)+)#(?P<number>[1-9][0-9]{0,11})", re.ASCII)
_PROJECT = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
_ADDRESS = re.compile(r"https?://\S+", re.IGNORECASE)
_ORIGIN = re.compile(r"(?P<origin>https?://[^/?#@\\]+)(?P<rest>.*)", re.IGNORECASE)
_PAGES: Mapping[Tracker, Sequence[re.Pattern[str]]] = {
    Tracker.JIRA: (
        re.compile(rf"/(?:browse|issues|projects/[A-Z0-9_]+/issues)/{JIRA_KEY.pattern}/?(?:[?#].*)?"),
        re.compile(rf"/[^?#]*\?(?:[^#]*&)?selectedIssue={JIRA_KEY.pattern}(?:[&#].*)?"),
    ),
    Tracker.GITHUB: (
        re.compile(r"/(?P<project>[\w.-]+/[\w.-]+)/(?:issues|pull)/(?P<number>[1-9][0-9]{0,11})(?:[/?#].*)?", re.ASCII),
    ),
    Tracker.GITLAB: (
        re.compile(
            r"/(?P<project>[\w.-]+(?:/[\w.-]+)+?)/(?:-/)?(?:issues|work_items)/(?P<number>[1-9][0-9]{0,11})/?(?:[?#].*)?",
            re.ASCII,
        ),
    ),
}
"""The addresses under which a tracker shows one ticket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A tracker that may be asked; `url` is where people open it, without a trailing slash."""

    kind: Tracker
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One ticket on one tracker: Jira's project key, or the path of a repository, and the number in it."""

    site: Site
    project: str
    number: int

    @property
    def key(self) -> str:
        """The key that names the task; GitHub turns GH-12 into a link by itself."""
        match self.site.kind:
            case Tracker.JIRA:
                return f"{self.project}-{self.number}"
            case Tracker.GITHUB:
                return f"GH-{self.number}"
            case Tracker.GITLAB:
                return f"GL-{self.number}"
            case _:
                assert_never(self.site.kind)

    def __str__(self) -> str:
        on = self.site.url.partition("://")[2]
        name = self.key if self.site.kind is Tracker.JIRA else f"{self.project}#{self.number}"
        return f"{name} on {on}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketQuery:
    """Open tickets of one repository: those with all of these labels, or that a search finds for these words."""

    project: str
    labels: tuple[str, ...] = ()
    words: str = ""

    def __str__(self) -> str:
        chosen = [f"the label {label}" for label in self.labels] + ([repr(self.words)] if self.words else [])
        return f"{self.project} with {' and '.join(chosen)}" if chosen else self.project


def parse_query(project: str, labels: Sequence[str], words: str) -> TicketQuery:
    """Return the query for tickets of a repository. Raises NoTicket."""
    if not _PROJECT.fullmatch(project):
        raise NoTicket(f"{escape_text(project)} names no repository; write owner/repository")
    for label in labels:
        if not label.strip() or "," in label or '"' in label:
            raise NoTicket(f"{escape_text(label)} cannot be a label: no commas and no quotation marks")
    if len(words) > LONGEST_WORDS:
        raise NoTicket(f"the query has {len(words)} characters; at most {LONGEST_WORDS} are searched for")
    return TicketQuery(project=_path(project, project), labels=tuple(labels), words=" ".join(words.split()))


def parse_reference(text: str, sites: Sequence[Site]) -> Reference | None:
    """Return the ticket that the whole text names, None for a text that is a ticket itself.

    Raises NoTicket for a ticket on a tracker that is not configured, and for an address that names no ticket.
    """
    name = text.strip()
    if len(name) > LONGEST:
        return None
    if found := JIRA_KEY.fullmatch(name):
        return _on(_first(sites, (Tracker.JIRA,), name), found["project"], found["number"])
    if found := _SHORT.fullmatch(name):
        project = found["project"]
        kinds = (Tracker.GITHUB, Tracker.GITLAB) if project.count("/") == 1 else (Tracker.GITLAB,)
        return _on(_first(sites, kinds, name), _path(project, name), found["number"])
    return _addressed(name, sites) if _ADDRESS.fullmatch(name) else None


def _first(sites: Sequence[Site], kinds: Sequence[Tracker], name: str) -> Site:
    for site in sites:
        if site.kind in kinds:
            return site
    wanted = " or ".join(kinds)
    raise NoTicket(f"{escape_text(name)} names a ticket on {wanted}, and none is set up; {_known(sites)}")


def _addressed(address: str, sites: Sequence[Site]) -> Reference:
    split = _ORIGIN.fullmatch(address)
    whole = split["origin"].lower() + split["rest"] if split else ""
    for site in sites:
        if whole.startswith(site.url + "/"):
            return _on_site(whole.removeprefix(site.url), site, address)
    raise NoTicket(f"{escape_text(address)} is on no configured tracker; {_known(sites)}")


def _on_site(path: str, site: Site, address: str) -> Reference:
    for page in _PAGES[site.kind]:
        if found := page.fullmatch(path):
            return _on(site, _path(found["project"], address), found["number"])
    raise NoTicket(f"{escape_text(address)} is not the address of one ticket; copy it from the ticket's own page")


def _path(project: str, name: str) -> str:
    if any(not part.strip(".") for part in project.split("/")):  # it becomes part of an address
        raise NoTicket(f"{escape_text(name)} names no repository; write owner/repository#number")
    return project


def _on(site: Site, project: str, number: str) -> Reference:
    return Reference(site=site, project=project, number=int(number))


def _known(sites: Sequence[Site]) -> str:
    listed = ", ".join(site.url for site in sites) or "none"
    return f"set up: {listed}. Add it to [trackers] in orchestrator.toml, or submit the ticket's text"

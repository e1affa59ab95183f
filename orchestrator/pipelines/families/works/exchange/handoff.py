"""What one agent tells the next, in full or in short, and how far it is passed on."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from orchestrator.pipelines.families.works.documents.language import is_none


class Detail(StrEnum):
    """How much of a handoff is passed on."""

    FULL = "FULL"
    SUMMARY = "SUMMARY"
    DROP = "DROP"


MOST_LINES: Mapping[str, int] = {"what": 5, "why": 4, "caution": 3, "incomplete": 2}
SUMMARY_LINES = 3
LONGEST_LINE = 500
FARTHEST = 2
"""Steps from a task to one that it depends on; what is farther away is not passed on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handoff:
    """What an agent did and why, what others must take care of, and what it left undone; `task` is where it worked."""

    source: str
    what: str
    why: str = ""
    caution: str = ""
    incomplete: str = ""
    task: str = ""
    detail: Detail = Detail.FULL

    @property
    def text(self) -> str:
        """The handoff as lines for a file."""
        parts = {"what": self.what, "why": self.why, "caution": self.caution, "incomplete": self.incomplete}
        return "\n".join(f"- {name}: {part}" for name, part in parts.items() if part)


def detail_at(distance: int) -> Detail:
    """Return how much is passed on over that many steps: all to the next one, a summary to the one after it."""
    if distance <= 1:
        return Detail.FULL
    return Detail.SUMMARY if distance == 2 else Detail.DROP


def reduced(handoff: Handoff, detail: Detail) -> Handoff | None:
    """Return as much of a handoff as that level passes on; None if that is nothing."""
    match detail:
        case Detail.DROP:
            return None
        case Detail.SUMMARY:
            what = _cut(handoff.what, SUMMARY_LINES)
            return replace(handoff, what=what, why="", caution="", incomplete="", detail=detail)
        case Detail.FULL:
            return replace(
                handoff,
                what=_cut(handoff.what, MOST_LINES["what"]),
                why=_cut(handoff.why, MOST_LINES["why"]),
                caution=_cut(handoff.caution, MOST_LINES["caution"]),
                incomplete=_cut(handoff.incomplete, MOST_LINES["incomplete"]) or "None",
                detail=detail,
            )


def distances(of: str, after: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """Return how far each task that `of` depends on is away, by the shortest path, up to `FARTHEST` steps."""
    found = {of: 0}
    waiting = deque([of])
    while waiting:
        key = waiting.popleft()
        if found[key] == FARTHEST:
            continue
        for other in after.get(key, ()):
            if other not in found:
                found[other] = found[key] + 1
                waiting.append(other)
    del found[of]
    return found


def window(of: str, after: Mapping[str, tuple[str, ...]], handoffs: Mapping[str, Handoff]) -> tuple[Handoff, ...]:
    """Return what a task is told about those it depends on, the nearest first; `after` has the dependencies of each."""
    reach = sorted(distances(of, after).items(), key=lambda one: (one[1], one[0]))
    kept = (reduced(handoffs[key], detail_at(distance)) for key, distance in reach if key in handoffs)
    return tuple(one for one in kept if one is not None)


def read_handoff_text(text: str, source: str, task: str) -> Handoff | None:
    """Return the handoff that a file holds as lines `- what: …`; other text counts as what was done."""
    parts: dict[str, list[str]] = {name: [] for name in MOST_LINES}
    last = "what"
    for line in text.splitlines():
        name, colon, rest = line.strip().lstrip("-* ").partition(":")
        word = name.strip("* `").casefold()
        if colon and word in parts:
            last = word
            parts[last].append(rest.strip().removeprefix("**").strip())
        elif line.strip():
            parts[last].append(line.strip())
    said = {name: "\n".join(filter(None, lines)) for name, lines in parts.items()}
    if not any(said.values()) or is_none(said["what"]):
        return None
    what, why, caution, incomplete = said.values()
    return Handoff(source=source, task=task, what=what, why=why, caution=caution, incomplete=incomplete)


def _cut(text: str, most: int) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "\n".join(line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…" for line in lines[:most])

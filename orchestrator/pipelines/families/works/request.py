"""What a person asks for in a request: a work to begin or to resume, and whether to be asked before each part."""

import re
from dataclasses import dataclass

from orchestrator.formats.markdown import cleaned
from orchestrator.pipelines.families.works.documents.names import work_id, work_number

_TAG = re.compile(r"\s*\[(?P<tag>[^\[\]\n]{1,80})\](?!\()[ \t]*(?P<rest>.*)", re.DOTALL)
_WORK = re.compile(r"(?<![A-Za-z0-9-])WORK-\d{1,9}(?![0-9A-Za-z-])", re.IGNORECASE)
_LONGEST_RESUME = 200
_RESUME_WORDS = re.compile(
    r"resum(?:e|ing)|continu(?:e|ing)|carry on|pick up|이어서|이어 ?가|재개|계속|再開|続行|続け|続き", re.IGNORECASE
)
_FILLERS = re.compile(
    r"\b(?:please|the|of|for|with|from|where|it|was|we|you|left|off|stopped|run|running|executing|execute|"
    r"pipeline|work|again|now|and)\b"
    r"|파이프라인|실행|진행|작업|시작|하라|하세요|해 ?주세요|해 ?줘|합니다|하기|에서|부터|하던|멈춘|곳"
    r"|[을를은는이가의해]"
    r"|パイプライン|作業|実行|して|ください|てください|から|[をのはがてでし]",
    re.IGNORECASE,
)
_MARKS = re.compile(r"[\s.,:;!。、！,'\"`*_-]+")
_AUTO = re.compile(
    r"(?:"
    r"자동(?:으로)? ?(?:진행|실행)(?:(?:해|하여)? ?(?:줘|주세요|주십시오)|하세요|하십시오|해라|하라|해|할 것|합니다)?"
    r"|自動(?:で|的に) ?(?:進め|実行し?|進行し?)(?:て(?:ください|下さい)?)?"
    r"|(?<![A-Za-z])(?:(?:proceed|run|continue|go on|go ahead|execute)(?: (?:it|this|everything|all))? automatically"
    r"|automatically (?:proceed|run|continue)"
    r"|without (?:asking|approval|approvals))"
    r"|(?:(?<=[.,;:!\n(\[—–-] )|(?<=[.,;:!\n(\[—–-])|^)(?:--)?auto(?: ?mode)?"
    r")[)\]]?[\s.!。！]*$",
    re.IGNORECASE,
)
_NOT = re.compile(
    r"\b(?:not|never|no|don['’]?t|doesn['’]?t|won['’]?t|cannot|can['’]?t)\b[^.!?\n]{0,60}$",
    re.IGNORECASE,
)
_END = 200
"""Characters at the end of a request that may hold the phrase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkRequest:
    """A request: the tag in brackets that it begins with, the work that it resumes, and whether nobody is asked."""

    text: str
    tag: str = ""
    resumes: str | None = None
    is_auto: bool = False


def read_request(text: str) -> WorkRequest:
    """Return what a person asks for; `text` keeps their words without the tag."""
    found = _TAG.fullmatch(text)
    rest = (found["rest"] if found else text).strip()
    return WorkRequest(
        text=rest or (found["tag"] if found else text).strip(),
        tag=found["tag"].strip() if found else "",
        resumes=resumed_work(rest),
        is_auto=asks_for_autonomy(rest),
    )


def asks_for_autonomy(text: str) -> bool:
    """Return whether a request ends by saying that nobody is to be asked; a mention anywhere else does not count."""
    end = cleaned(text).rstrip()[-_END:]
    found = _AUTO.search(end)
    return found is not None and not _NOT.search(end[: found.start()])


def resumed_work(text: str) -> str | None:
    """Return the id of the work that a request resumes, None if it asks for anything else.

    Nothing but such a phrase may stand there, so that a longer text which mentions a work is a request of its own.
    """
    words = cleaned(text).strip()
    if len(words) > _LONGEST_RESUME:
        return None
    named = _WORK.findall(words)
    if len(named) != 1:
        return None
    rest = _WORK.sub(" ", words)
    auto = _AUTO.search(rest)
    rest = rest[: auto.start()] if auto else rest
    if not _RESUME_WORDS.search(rest):
        return None
    if _MARKS.sub("", _FILLERS.sub("", _RESUME_WORDS.sub("", rest))):
        return None
    number = work_number(named[0])
    return None if number is None else work_id(number)

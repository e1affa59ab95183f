"""Describe an event of a task in a few words for people, from its line in the journal.

A journal may be older than this program: a field that an event lacks is left out, and an event without a phrase here is
described by its name.
"""

import re
from collections.abc import Mapping
from typing import Final

from orchestrator.formats.codec import Json
from orchestrator.formats.person import person_name
from orchestrator.redaction.display import escape_text

LONGEST = 300
"""Characters; a longer text is cut."""

PHRASES: Final[Mapping[str, str]] = {
    "TaskSubmitted": "submitted{ by |by}",
    "DaemonStarted": "resumed by a new daemon",
    "TaskAdmitted": "admitted to work",
    "WorkspaceReady": "its worktree is ready{, on branch |branch}{, restored from |restored_from}",
    "RunStarted": "a process started{: |folder}",
    "SessionStarted": "its agent started a session{ with |model}",
    "TurnFinished": "a turn of its agent ended{ |outcome}{: |reason}{; |malformed}",
    "AgentSaid": "its agent asked for something or reported a problem",
    "RequestWithdrawn": "its agent no longer waits for an answer",
    "AnswerSent": "its agent received the answer",
    "StallSeen": "its agent shows no activity{: |evidence}",
    "AgentExited": "its agent's process ended{: |reason}",
    "GateLooked": "the daemon examined the results of {|stage}",
    "CheckFinished": "a check ended{: |name}{ |result.verdict}{: |result.reason}",
    "BranchDelivered": "the finished branch was delivered{: |branch}",
    "BranchReplayed": "its work was put on top of its parent's branch{ as |commit}{; in conflict: |conflicts}",
    "PublicationHeld": "nothing was published yet{: |asking.text}",
    "PullRequestOpened": "its pull request is up to date{: |url}",
    "PullRequestSeen": "the daemon looked at its pull request{: |status}",
    "PullRequestMerged": "its pull request is merged{ as |commit}",
    "MergeRefused": "its pull request cannot be merged yet",
    "ReleasePrepared": "the changelog was written{ for |version}",
    "Released": "the release is tagged{: |tag}",
    "ReportPosted": "its report was posted on the ticket{: |url}{, which failed: |failure}",
    "ChildrenSubmitted": "its children were submitted{: |tasks}",
    "ChildEnded": "a child ended{: |task}{: |reason}",
    "OperationRequested": "a change of its state was requested{ by |by}",
    "RoundRequested": "a round of review comments was requested{ by |by}",
    "ArchiveRequested": "archived{ by |by}",
    "CommandFailed": "an action failed{: |reason}",
    "RunFrozen": "its processes are stopped",
    "FreezeFailed": "some of its processes could not be stopped",
    "RunThawed": "its processes continue",
    "AlarmRang": "a due time has come",
    "CheckpointSaved": "a checkpoint was saved{: |number}",
    "PauseRequested": "a pause was requested{ by |by}{: |reason}",
    "ResumeRequested": "it may continue{, says |by}",
    "CancelRequested": "cancelled{ by |by}{: |reason}",
    "RetryRequested": "a retry was requested{ by |by}",
    "DraftChanged": "the draft was changed{ by |by}",
    "DraftSubmitted": "the draft was submitted{ by |by}",
    "AskAnswered": "an answer was given{ by |by}{: |status}",
    "CapsChanged": "its budget was changed{ by |by}",
    "PriorityChanged": "its priority was changed{ to |priority}{ by |by}",
    "LoginMissed": "nothing can continue{: |reason}",
    "PersonTold": "a notification was sent{: |key}{, which failed: |failure}",
    "ForeignEditFound": "its files were damaged or changed by another program; that version is kept as {|kept_as}",
}
"""`{before|field}` stands for `before` and the value of a field of the event, or of a record in it; for nothing if the
event lacks the field.
"""

_FIELD = re.compile(r"\{([^|}]*)\|([a-z_.]+)\}")
_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


def describe_event(trigger: str, event: Json) -> str:
    """Return the event in words, on one line, with control characters escaped; secrets are not masked yet."""

    def filled(place: re.Match[str]) -> str:
        value = event
        for name in place[2].split("."):
            value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, list):
            value = "; ".join(str(one) for one in value)
        if place[2] == "by" and isinstance(value, str):
            value = person_name(value)
        return f"{place[1]}{value}" if isinstance(value, str | int) and value != "" else ""

    phrase = PHRASES.get(trigger) or _CAPITAL.sub(" ", trigger).lower()
    return escape_text(" ".join(_FIELD.sub(filled, phrase).split()), LONGEST)

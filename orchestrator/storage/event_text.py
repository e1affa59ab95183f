"""What happened to a task, told in a few words for people, from its line in the journal.

A journal may be older than this program: what an event does not say is left out, and one that has no words here is told
by its name.
"""

import re
from collections.abc import Mapping
from typing import Final

from orchestrator.formats.codec import Json
from orchestrator.redaction.display import escape_text

LONGEST = 300
"""Letters of a text; of a longer one its beginning is told."""

PHRASES: Final[Mapping[str, str]] = {
    "TaskSubmitted": "handed in{ by |by}",
    "DaemonStarted": "taken up again by a new daemon",
    "TaskAdmitted": "got a place",
    "WorkspaceReady": "its worktree is ready{, on branch |branch}",
    "RunStarted": "a process started{: |folder}",
    "SessionStarted": "its agent began a session{ with |model}",
    "TurnFinished": "a turn of its agent ended{ |outcome}{: |reason}{; |malformed}",
    "AgentSaid": "its agent asked for something or reported trouble",
    "RequestWithdrawn": "its agent no longer waits for an answer",
    "AnswerSent": "its agent was given the answer",
    "StallSeen": "its agent gave no sign of life{: |evidence}",
    "AgentExited": "its agent's process ended{: |reason}",
    "GateLooked": "the daemon looked at what {|stage} left behind",
    "CheckFinished": "a check ended{: |name}{ |result.verdict}{: |result.reason}",
    "BranchDelivered": "the finished branch was delivered{: |branch}",
    "PullRequestOpened": "its pull request is up to date{: |url}",
    "PullRequestSeen": "the daemon looked at its pull request{: |status}",
    "PullRequestMerged": "its pull request is merged{ as |commit}",
    "MergeRefused": "its pull request may not be merged yet",
    "ReleasePrepared": "the changelog was written{ of |version}",
    "Released": "the release is tagged{: |tag}",
    "ReportPosted": "its report was left on the ticket{: |url}{, in vain: |failure}",
    "OperationRequested": "its state was to be changed{ by |by}",
    "RoundRequested": "comments are to be taken up{, asked for by |by}",
    "ArchiveRequested": "archived{ by |by}",
    "CommandFailed": "something could not be done{: |reason}",
    "RunFrozen": "its processes stand still",
    "FreezeFailed": "some of its processes would not stand still",
    "RunThawed": "its processes go on",
    "AlarmRang": "a time that it waited for has come",
    "CheckpointSaved": "a checkpoint was saved{: |number}",
    "PauseRequested": "a pause was asked for{ by |by}{: |reason}",
    "ResumeRequested": "it may go on{, says |by}",
    "CancelRequested": "given up{ by |by}{: |reason}",
    "RetryRequested": "tried anew{, asked for by |by}",
    "DraftSubmitted": "the draft was sent off{ by |by}",
    "AskAnswered": "an answer was given{ by |by}{: |status}",
    "CapsChanged": "its budget was changed{ by |by}",
    "PriorityChanged": "its priority was changed{ to |priority}{ by |by}",
    "LoginMissed": "nothing goes on{: |reason}",
    "PersonTold": "a notice for people{: |key}{, which reached nobody: |failure}",
    "ForeignEditFound": "another hand had changed state.json; that one is kept as {|kept_as}",
}
"""`{before|field}` stands for a field of the event, or of a part of it, and for nothing where that does not say it."""

_FIELD = re.compile(r"\{([^|}]*)\|([a-z_.]+)\}")
_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


def describe_event(trigger: str, event: Json) -> str:
    """The event in words, on one line, with whatever a terminal would obey escaped; not yet freed of secrets."""

    def filled(place: re.Match[str]) -> str:
        value = event
        for name in place[2].split("."):
            value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, list):
            value = "; ".join(str(one) for one in value)
        return f"{place[1]}{value}" if isinstance(value, str | int) and value != "" else ""

    phrase = PHRASES.get(trigger) or _CAPITAL.sub(" ", trigger).lower()
    return escape_text(" ".join(_FIELD.sub(filled, phrase).split()), LONGEST)

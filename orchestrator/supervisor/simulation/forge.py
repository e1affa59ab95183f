"""The simulated forge and tracker: pull requests, their reviewers, releases and reports."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from random import Random

from orchestrator.core.events import commands as do
from orchestrator.core.events import events, publish_events
from orchestrator.core.events.forge import PullStatus
from orchestrator.supervisor.simulation.probabilities import Probabilities

PublishCommand = (
    do.OpenPullRequest | do.LookAtPullRequest | do.MergePullRequest | do.PrepareRelease | do.TagRelease | do.PostReport
)
"""The commands that publish something outside the machine."""


@dataclass(slots=True)
class SimulatedPullRequest:
    """A pull request and the comments of its reviewers so far."""

    number: int
    head: str
    status: PullStatus = PullStatus.OPEN
    comments: list[str] = field(default_factory=list)


class SimulatedForge:
    """All pull requests, tags and reports; `record_effect` is called once for each effect."""

    def __init__(self, rng: Random, probabilities: Probabilities, record_effect: Callable[[str, str], None]) -> None:
        self._rng, self._probabilities, self._record_effect = rng, probabilities, record_effect
        self._pull_requests: dict[str, SimulatedPullRequest] = {}
        self._posted: set[tuple[str, str]] = set()

    def execute(self, task_id: str, command: PublishCommand) -> Callable[[datetime], events.Event]:
        """Cause the effect of a command, unless it exists already, and return the event that reports it."""
        match command:
            case do.OpenPullRequest():
                return self._open(task_id, command)
            case do.LookAtPullRequest():
                return self._poll(task_id, command)
            case do.MergePullRequest():
                return self._merge(task_id, command)
            case do.PrepareRelease():
                return lambda at: publish_events.ReleasePrepared(at=at, version="1.0.0", commit=command.commit)
            case do.TagRelease():
                self._post(task_id, f"tag {command.version}")
                return lambda at: publish_events.Released(at=at, tag=f"v{command.version}")
            case do.PostReport():
                self._post(task_id, f"report of {command.stage}")
                return lambda at: publish_events.ReportPosted(at=at, url="https://tracker.example/1")

    def _open(self, task_id: str, command: do.OpenPullRequest) -> Callable[[datetime], events.Event]:
        known = self._pull_requests.get(task_id)
        number = known.number if known else len(self._pull_requests) + 1
        if known is None or known.status is not PullStatus.OPEN:
            self._pull_requests[task_id] = SimulatedPullRequest(number=number, head=command.commit)
            self._record_effect(task_id, f"pull request {number}")
        else:
            known.head = command.commit
        for reply in command.replies:
            self._post(task_id, f"reply to {reply.mark}")
        url = f"https://forge.example/{number}"
        return lambda at: publish_events.PullRequestOpened(at=at, number=number, url=url, commit=command.commit)

    def _poll(self, task_id: str, command: do.LookAtPullRequest) -> Callable[[datetime], events.Event]:
        pull_request, rng, probabilities = self._pull_requests[task_id], self._rng, self._probabilities
        draw = rng.random()
        if pull_request.status is PullStatus.OPEN and draw < probabilities.closed_externally:
            pull_request.status = PullStatus.CLOSED
        elif (
            pull_request.status is PullStatus.OPEN
            and draw < probabilities.closed_externally + probabilities.merged_externally
        ):
            self._set_merged(task_id, pull_request)
        elif draw < probabilities.closed_externally + probabilities.merged_externally + probabilities.comment:
            pull_request.comments.append(f"comment-{len(pull_request.comments) + 1}")
        new = tuple(mark for mark in pull_request.comments if mark not in command.seen)
        status, merged = pull_request.status, pull_request.head if pull_request.status is PullStatus.MERGED else None
        return lambda at: publish_events.PullRequestSeen(
            at=at,
            number=command.number,
            status=status,
            hindrances=("it is not approved",) if draw > 0.5 else (),
            feedback=f"review-{command.round}" if new else None,
            marks=new,
            comments=tuple((mark, mark) for mark in new),
            merge_commit=merged,
        )

    def _merge(self, task_id: str, command: do.MergePullRequest) -> Callable[[datetime], events.Event]:
        pull_request = self._pull_requests[task_id]
        if pull_request.status is not PullStatus.MERGED and self._rng.random() < self._probabilities.rejected:
            return lambda at: publish_events.MergeRefused(at=at, hindrances=("a check is still running",))
        if pull_request.status is not PullStatus.MERGED:
            self._set_merged(task_id, pull_request)
        return lambda at: publish_events.PullRequestMerged(at=at, commit=command.head)

    def _post(self, task_id: str, mark: str) -> None:
        """Post a tag, a report or a reply, unless one with this mark exists already."""
        if (task_id, mark) not in self._posted:
            self._posted.add((task_id, mark))
            self._record_effect(task_id, mark)

    def _set_merged(self, task_id: str, pull_request: SimulatedPullRequest) -> None:
        pull_request.status = PullStatus.MERGED
        self._record_effect(task_id, f"merge of {pull_request.number}")

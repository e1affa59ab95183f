"""The forge and the tracker of a simulated world: pull requests, their reviewers, releases and reports."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from random import Random

from orchestrator.core.events import commands as do
from orchestrator.core.events import events, publish_events
from orchestrator.core.events.forge import PullStatus
from orchestrator.supervisor.simulation.probabilities import Probabilities

Outward = (
    do.OpenPullRequest | do.LookAtPullRequest | do.MergePullRequest | do.PrepareRelease | do.TagRelease | do.PostReport
)
"""What leaves the machine."""


@dataclass(slots=True)
class Proposal:
    """A pull request, and what its reviewers have said so far."""

    number: int
    head: str
    status: PullStatus = PullStatus.OPEN
    comments: list[str] = field(default_factory=list)


class SimulatedForge:
    """All pull requests; `done` counts every effect that is brought about."""

    def __init__(self, dice: Random, odds: Probabilities, done: Callable[[str, str], None]) -> None:
        self._dice, self._odds, self._done = dice, odds, done
        self._proposals: dict[str, Proposal] = {}
        self._left: set[tuple[str, str]] = set()

    def execute(self, task_id: str, command: Outward) -> Callable[[datetime], events.Event]:
        """Bring an effect about, unless it is there, and say what there is to tell of it."""
        match command:
            case do.OpenPullRequest():
                return self._open(task_id, command)
            case do.LookAtPullRequest():
                return self._look(task_id, command)
            case do.MergePullRequest():
                return self._merge(task_id, command)
            case do.PrepareRelease():
                return lambda at: publish_events.ReleasePrepared(at=at, version="1.0.0", commit=command.commit)
            case do.TagRelease():
                self._leave(task_id, f"tag {command.version}")
                return lambda at: publish_events.Released(at=at, tag=f"v{command.version}")
            case do.PostReport():
                self._leave(task_id, f"report of {command.stage}")
                return lambda at: publish_events.ReportPosted(at=at, url="https://tracker.example/1")

    def _open(self, task_id: str, command: do.OpenPullRequest) -> Callable[[datetime], events.Event]:
        known = self._proposals.get(task_id)
        number = known.number if known else len(self._proposals) + 1
        if known is None or known.status is not PullStatus.OPEN:
            self._proposals[task_id] = Proposal(number=number, head=command.commit)
            self._done(task_id, f"pull request {number}")
        else:
            known.head = command.commit
        for reply in command.replies:
            self._leave(task_id, f"reply to {reply.mark}")
        url = f"https://forge.example/{number}"
        return lambda at: publish_events.PullRequestOpened(at=at, number=number, url=url, commit=command.commit)

    def _look(self, task_id: str, command: do.LookAtPullRequest) -> Callable[[datetime], events.Event]:
        proposal, dice, odds = self._proposals[task_id], self._dice, self._odds
        luck = dice.random()
        if proposal.status is PullStatus.OPEN and luck < odds.closed_outside:
            proposal.status = PullStatus.CLOSED
        elif proposal.status is PullStatus.OPEN and luck < odds.closed_outside + odds.merged_outside:
            self._merged(task_id, proposal)
        elif luck < odds.closed_outside + odds.merged_outside + odds.comments:
            proposal.comments.append(f"comment-{len(proposal.comments) + 1}")
        new = tuple(mark for mark in proposal.comments if mark not in command.seen)
        status, merged = proposal.status, proposal.head if proposal.status is PullStatus.MERGED else None
        return lambda at: publish_events.PullRequestSeen(
            at=at,
            number=command.number,
            status=status,
            hindrances=("it is not approved",) if luck > 0.5 else (),
            feedback=f"review-{command.round}" if new else None,
            marks=new,
            comments=tuple((mark, mark) for mark in new),
            merge_commit=merged,
        )

    def _merge(self, task_id: str, command: do.MergePullRequest) -> Callable[[datetime], events.Event]:
        proposal = self._proposals[task_id]
        if proposal.status is not PullStatus.MERGED and self._dice.random() < self._odds.rejects:
            return lambda at: publish_events.MergeRefused(at=at, hindrances=("a check is still running",))
        if proposal.status is not PullStatus.MERGED:
            self._merged(task_id, proposal)
        return lambda at: publish_events.PullRequestMerged(at=at, commit=command.head)

    def _leave(self, task_id: str, mark: str) -> None:
        """Leave a tag, a report or a reply that is known by its mark, unless it is found there."""
        if (task_id, mark) not in self._left:
            self._left.add((task_id, mark))
            self._done(task_id, mark)

    def _merged(self, task_id: str, proposal: Proposal) -> None:
        proposal.status = PullStatus.MERGED
        self._done(task_id, f"merge of {proposal.number}")

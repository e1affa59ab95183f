"""Publish a finished change: a branch, a pull request with rounds of review and a merge, a report, or a release.

    DELIVERY ─► PUBLISH ─► review of the merge ◄─► LOOK ─► back to the stage that handles comments, or MERGE ─► done

The conditions of a merge cannot be waived; `auto_merge` only makes a person's approval unnecessary. A task that waits
for its merge has an open review like any other. The review also ends when the pull request is merged or closed on the
forge.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import assert_never

from orchestrator.core.decide import lifecycle, outcomes, pausing
from orchestrator.core.events import events, publish_events
from orchestrator.core.events.forge import PullStatus
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.publication import Publish, Reply
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from orchestrator.core.task.user_requests import Answer, RequestDraft, RequestStatus, Subject

MOST_REFUSALS = 3
"""How often a forge may refuse a merge although no look showed a reason (a merge queue, for example) before a person is
asked.
"""
LOOK_AGAIN = 60.0
"""Seconds until a requested look that failed is repeated, if the pull request is not polled anyway."""

APPROVED: Mapping[Subject, NextAction] = MappingProxyType(
    {Subject.PUBLISH: NextAction.PUBLISH, Subject.MERGE: NextAction.MERGE, Subject.RELEASE: NextAction.RELEASE}
)
"""What a person may approve while a change is published, and what follows."""


def apply_publish_event(pipeline: Pipeline, task: Task, event: events.DeliveryEvent) -> Task:
    """Return the task after an event about its published change."""
    match event:
        case events.BranchDelivered():
            return _on_delivered(pipeline, task, event)
        case publish_events.BranchReplayed():
            return _on_replayed(pipeline, task, event)
        case publish_events.PublicationHeld():
            return _on_held(task, event)
        case publish_events.PullRequestOpened():
            return _on_opened(task, event)
        case publish_events.PullRequestSeen():
            return _on_look(pipeline, task, event)
        case publish_events.PullRequestMerged():
            return _on_merged(pipeline, task, event)
        case publish_events.MergeRefused():
            return _on_refusal(task, event)
        case publish_events.ReleasePrepared():
            return _on_prepared(task, event)
        case publish_events.Released():
            return _on_released(pipeline, task, event)
        case publish_events.ReportPosted():
            return _on_posted(pipeline, task, event)
        case _:
            assert_never(event)


def continue_publishing(task: Task, subject: Subject) -> Task:
    """Return the task after a person approved the text that is published, the merge, or the release."""
    owed = APPROVED[subject]
    return pausing.resume_if_free(replace(task, status=TaskStatus.IN_PROGRESS, next_action=owed, retry_at=None))


def send_back(pipeline: Pipeline, task: Task, wanted: tuple[str, ...], at: datetime) -> Task:
    """Return the task in the stage that handles the comments of reviewers, while the budget for that lasts.

    Every other budget is reset: a new round is judged by itself.
    """
    stage = pipeline.stage(task.stage)
    if stage.on_fail is None:
        return outcomes.block(task, f"{task.stage}: {'; '.join(wanted)}; {pipeline.name} has no way back", at)
    tried = outcomes.use_retry(task, stage.budget) if stage.budget else None
    if tried is None or stage.budget is None:
        return outcomes.block(task, f"{task.stage}: changes were requested as often as the pipeline allows", at)
    rounds = replace(task.publication, round=task.publication.round + 1, asked_for_round=False)
    tried = outcomes.reset_all_retries(tried, but=stage.budget)
    task = pausing.resume_if_free(replace(tried, publication=rounds, status=TaskStatus.IN_PROGRESS, retry_at=None))
    return replace(lifecycle.enter_stage(pipeline, task, stage.on_fail, at), requested_changes=wanted)


def look_again(task: Task, at: datetime) -> Task:
    """Return the task with a look at its pull request owed, and the time of the one after it."""
    return replace(task, publication=replace(task.publication, look_due=at), retry_at=_next_look(task, at))


def request_round(task: Task) -> Task:
    """Return the task with a look at its pull request owed, after which its agent handles the comments."""
    return replace(task, publication=replace(task.publication, asked_for_round=True), retry_at=None)


def _on_delivered(pipeline: Pipeline, task: Task, event: events.BranchDelivered) -> Task:
    if task.next_action is not NextAction.DELIVERY:
        return task
    task = replace(task, source=replace(task.source, branch=event.branch))
    stage = pipeline.stage(task.stage)
    if stage.publish is Publish.PULL_REQUEST and task.publication.forge is not None:
        return replace(task, next_action=NextAction.PUBLISH)
    return lifecycle.advance(pipeline, task, event.at)


def _on_replayed(pipeline: Pipeline, task: Task, event: publish_events.BranchReplayed) -> Task:
    """Return the task with its work on the parent's branch, to be judged again, or sent back to resolve conflicts."""
    if task.next_action is not NextAction.DELIVERY:
        return task
    if event.commit is None:
        wanted = (
            f"The work of other tasks is now at commit {event.onto}. Rebase this branch onto it and resolve the "
            f"conflicts in {', '.join(event.conflicts[:20])}; then commit."
        )
        return send_back(pipeline, task, (wanted,), event.at)
    task = replace(task, source=replace(task.source, base_commit=event.onto, head=event.commit))
    recheck = pipeline.stage(task.stage).recheck
    return lifecycle.enter_stage(pipeline, task, recheck, event.at) if recheck else task


def _on_held(task: Task, event: publish_events.PublicationHeld) -> Task:
    if task.next_action is not NextAction.PUBLISH:
        return task
    task = replace(task, status=TaskStatus.REVIEW, next_action=NextAction.NOTHING)
    return pausing.add_request(task, event.asking, event.at)


def _on_opened(task: Task, event: publish_events.PullRequestOpened) -> Task:
    if task.next_action is not NextAction.PUBLISH:
        return task
    publication = replace(
        task.publication,
        number=event.number,
        pr_url=event.url,
        head=event.commit,
        replies=(),
        hindrances=("it was just pushed",),
        refusals=0,
    )
    return _wait_for_merge(replace(task, publication=publication), event.at)


def _wait_for_merge(task: Task, at: datetime) -> Task:
    """Return the task waiting for its pull request: a person merges it on the forge, or approves the merge here."""
    task = replace(task, publication=replace(task.publication, look_due=None))
    task = replace(task, status=TaskStatus.REVIEW, next_action=NextAction.NOTHING, retry_at=_next_look(task, at))
    if _merges_by_itself(task):
        return pausing.resume_if_free(task)
    text = f"pull request {task.publication.pr_url} is open: merge it, or say what is to be changed"
    seen = f"{task.publication.head} {task.publication.round}"
    return pausing.add_request(task, RequestDraft(subject=Subject.MERGE, text=text, name=task.stage, content=seen), at)


def _merges_by_itself(task: Task) -> bool:
    """Return whether no person is needed; a forge that refuses repeatedly is a case for a person."""
    return task.policy.auto_merge and task.publication.refusals < MOST_REFUSALS


def _on_look(pipeline: Pipeline, task: Task, event: publish_events.PullRequestSeen) -> Task:
    publication = task.publication
    if not task.waits_for_merge or publication.number != event.number:
        return task
    match event.status:
        case PullStatus.MERGED:
            return _on_merged_outside(pipeline, task, event)
        case PullStatus.CLOSED:
            task = _withdraw_requests(replace(task, publication=replace(publication, look_due=None)), event.at)
            closed = f"{publication.pr_url} was closed without a merge; reopen it there and retry, or cancel the task"
            return outcomes.block(task, f"{task.stage}: {closed}", event.at)
        case PullStatus.OPEN:
            pass
        case _:
            assert_never(event.status)
    round_requested = publication.asked_for_round
    before, publication = (
        publication,
        replace(
            publication,
            look_due=None,
            hindrances=event.hindrances,
            refusals=0 if event.hindrances else publication.refusals,
            reviewers=event.reviewers or publication.reviewers,
            asked_for_round=round_requested and not event.asked,
        ),
    )
    is_taken_up = event.feedback is not None and (round_requested or task.policy.follow_reviews)
    is_ready = task.policy.auto_merge and not event.hindrances
    is_scheduled = task.retry_at is not None and event.look_after is None
    if is_scheduled and replace(before, look_due=None) == publication and not (is_taken_up or is_ready):
        return task
    task = replace(task, publication=publication)
    task = replace(task, retry_at=_next_look(task, event.at, event.look_after))
    if is_taken_up:
        return _accept_comments(pipeline, task, event)
    if _merges_by_itself(task) and not event.hindrances:
        task = _withdraw_requests(task, event.at)
        return pausing.resume_if_free(
            replace(task, status=TaskStatus.IN_PROGRESS, next_action=NextAction.MERGE, retry_at=None)
        )
    return task


def _next_look(task: Task, at: datetime, after: float | None = None) -> datetime | None:
    """Return when to look at the pull request next; None if a person has to ask for it."""
    every = task.policy.look_every or (LOOK_AGAIN if task.publication.asked_for_round else 0.0)
    return at + timedelta(seconds=every if after is None else after) if every else None


def _accept_comments(pipeline: Pipeline, task: Task, event: publish_events.PullRequestSeen) -> Task:
    """Return the task sent back with the new comments. Their marks are kept for good, their ids until they are
    answered, so each comment is handled once.

    If no round is left, nothing is recorded, so the comments are found again after a person retries the task.
    """
    before = publication = task.publication
    replies = (*publication.replies, *(Reply(comment_id=one, mark=mark) for one, mark in event.comments))
    seen = newest_marks((*publication.seen, *event.marks))
    task = replace(task, publication=replace(publication, replies=replies, seen=seen))
    wanted = (f"Reviewers ask for changes: read {event.feedback}.md in workspace_dir and make the changes it asks for",)
    taken = send_back(pipeline, _withdraw_requests(task, event.at), wanted, event.at)
    return replace(taken, publication=before) if taken.status is TaskStatus.BLOCKED else taken


def _on_merged_outside(pipeline: Pipeline, task: Task, event: publish_events.PullRequestSeen) -> Task:
    task = pausing.resume_if_free(
        replace(_withdraw_requests(task, event.at), status=TaskStatus.IN_PROGRESS, retry_at=None)
    )
    return _finish(pipeline, task, event.merge_commit, event.at)


def _withdraw_requests(task: Task, at: datetime) -> Task:
    """Return the task with its open requests about the pull request withdrawn."""
    for request in task.pending_requests:
        if request.draft.subject is Subject.MERGE:
            task = pausing.answer_request(task, request.number, Answer(status=RequestStatus.WITHDRAWN, by="forge"), at)
    return task


def _on_merged(pipeline: Pipeline, task: Task, event: publish_events.PullRequestMerged) -> Task:
    return _finish(pipeline, task, event.commit, event.at) if task.next_action is NextAction.MERGE else task


def _finish(pipeline: Pipeline, task: Task, commit: str | None, at: datetime) -> Task:
    publication = replace(task.publication, merged_at=at, merge_commit=commit, hindrances=(), look_due=None)
    return lifecycle.advance(pipeline, replace(task, publication=publication), at)


def _on_refusal(task: Task, event: publish_events.MergeRefused) -> Task:
    """Return the task waiting for its merge again, with the forge's reasons. Nothing is bypassed."""
    if task.next_action is not NextAction.MERGE:
        return task
    refusals = task.publication.refusals + 1
    task = replace(task, publication=replace(task.publication, hindrances=event.hindrances, refusals=refusals))
    return _wait_for_merge(task, event.at)


def _on_prepared(task: Task, event: publish_events.ReleasePrepared) -> Task:
    if task.next_action is not NextAction.PUBLISH:
        return task
    publication = replace(task.publication, version=event.version, head=task.source.commit)
    task = replace(task, source=replace(task.source, head=event.commit), publication=publication)
    if task.policy.auto_merge:
        return replace(task, next_action=NextAction.RELEASE)
    text = f"release {event.version}: the changelog is commit {event.commit[:12]}; set and push the tag?"
    draft = RequestDraft(subject=Subject.RELEASE, text=text, name=event.version, content=event.commit)
    return pausing.add_request(replace(task, status=TaskStatus.REVIEW, next_action=NextAction.NOTHING), draft, event.at)


def _on_released(pipeline: Pipeline, task: Task, event: publish_events.Released) -> Task:
    if task.next_action is not NextAction.RELEASE:
        return task
    return lifecycle.advance(pipeline, replace(task, publication=replace(task.publication, tag=event.tag)), event.at)


def _on_posted(pipeline: Pipeline, task: Task, event: publish_events.ReportPosted) -> Task:
    if task.next_action is not NextAction.PUBLISH:
        return task
    failure = (event.failure,) if event.failure else ()
    publication = replace(task.publication, report_url=event.url, hindrances=failure)
    return lifecycle.advance(pipeline, replace(task, publication=publication), event.at)


def newest_marks(marks: Iterable[str]) -> tuple[str, ...]:
    """Return the newest mark of each comment and of each check; the older ones are no longer needed."""
    newest = {mark.rpartition("@")[0] or mark: mark for mark in marks}
    return tuple(newest.values())

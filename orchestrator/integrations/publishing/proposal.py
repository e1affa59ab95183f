"""Opening a pull request and bringing it up to date: push, draft, labels, answers to reviewers.

Each step checks first whether its effect is there already, so all of it may be repeated.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path

import structlog

from orchestrator.core.events import commands as do
from orchestrator.core.events.forge import PullRequestDraft, PullStatus
from orchestrator.core.events.publish_events import PublicationHeld, PullRequestOpened
from orchestrator.core.task.task import Task
from orchestrator.formats.fields import list_of, object_of, text_of
from orchestrator.formats.files import parsed
from orchestrator.integrations.errors import RemoteError
from orchestrator.integrations.forges.protocol import Forge
from orchestrator.integrations.publishing.feedback import FEEDBACK
from orchestrator.integrations.publishing.outbound import Outbound
from orchestrator.integrations.publishing.pull_request import labels, pull_request
from orchestrator.integrations.publishing.push import push, push_address

log = structlog.get_logger()

MOST_NAMED = 10
"""Commits that are named in an answer to a reviewer."""


def open_pull_request(
    outbound: Outbound, task: Task, command: do.OpenPullRequest
) -> PullRequestOpened | PublicationHeld:
    """Push the commit and open the pull request, or bring the open one up to date and answer its comments."""
    sources, address = outbound.sources(task), push_address(Path(task.source.repo))
    composed = pull_request(task, sources)
    words = outbound.fit_words(composed)
    held = outbound.held(task, f"# {composed.title}\n\n{composed.body}", command.confirmed)
    if held is not None:
        return held
    outbound.refuse_secrets(task, command.commit)
    with outbound.forge(task) as opened:
        clone = outbound.workspace.clone_of(task.id)
        push(clone, address or "", command.commit, f"refs/heads/{command.branch}", opened.login)
        draft = PullRequestDraft(
            key=f"{task.id}:pull-request",
            head=command.branch,
            base=task.source.base_branch,
            title=words.title,
            body=words.body,
        )
        pull = opened.forge.open(draft)
        if pull.status is PullStatus.MERGED and pull.head_sha != command.commit:  # it was merged during the round
            pull = opened.forge.open(replace(draft, key=f"{draft.key}:{command.round}"))
        try:
            clean = tuple(filter(outbound.is_clean, labels(task, sources.related)))
            opened.forge.add_labels(pull.number, clean)
        except RemoteError as error:
            log.warning("labels_not_set", task=task.id, reason=str(error))
        _answer_reviewers(outbound, task, command, opened.forge, pull.number)
    return PullRequestOpened(at=outbound.clock(), number=pull.number, url=pull.url, commit=command.commit)


def _answer_reviewers(outbound: Outbound, task: Task, command: do.OpenPullRequest, forge: Forge, number: int) -> None:
    """Answer each comment once with the commits of the round, and request a new review from every reviewer.

    The request is also made after a round without comments: an approval counts only for the commit that was reviewed.
    """
    paths = _paths_of_comments(outbound, task) if command.replies else {}
    for reply in command.replies:
        key = f"{task.id}:reply:{sha256(reply.mark.encode()).hexdigest()[:16]}"
        text = outbound.fit(_answer(outbound, task, command.commit, paths.get(reply.comment_id)))
        _try(task, partial(forge.reply, number, reply.comment_id, key, text))
    for reviewer in task.publication.reviewers:
        _try(task, partial(forge.request_review, number, (reviewer,)))


def _answer(outbound: Outbound, task: Task, commit: str, path: str | None) -> str:
    """Return which commits of a round answer a comment, and how: those that change its file, or else all of them.

    The round is counted from what was pushed before it.
    """
    since = task.publication.head or task.source.base_commit
    ours = partial(outbound.workspace.clone_of(task.id).git.run, "log", "--reverse", "--no-merges", "--format=%H %s")
    made = ours(f"{since}..{commit}").splitlines()
    there = ours(f"{since}..{commit}", "--", f":(literal){path}").splitlines() if path else []
    lines = [line.split(" ", 1) for line in there or made]
    if not lines:
        return "Considered; no change was needed."
    more = f"; and {len(lines) - MOST_NAMED} more" if len(lines) > MOST_NAMED else ""
    how = (f"{sha[:12]}: {subject.removeprefix(f'{task.ticket.key}:').strip()}" for sha, subject in lines[:MOST_NAMED])
    return f"Addressed in {'; '.join(how)}{more}"


def _paths_of_comments(outbound: Outbound, task: Task) -> Mapping[str, str]:
    """Return the file of each comment on a line of the change, by the comment's id."""
    found: dict[str, str] = {}
    for entry in outbound.files.entries(task.id, (f"{FEEDBACK}*.json",)):
        document = object_of(parsed(outbound.files.read(task.id, entry.name)))
        rows = map(object_of, list_of(document.get("comments")))
        found |= {text_of(row.get("comment_id")): text_of(row.get("path"), 1000) for row in rows if row.get("path")}
    return found


def _try(task: Task, effect: Callable[[], object]) -> None:
    """Run an effect that may fail: a comment may have been deleted, a reviewer may have left.

    Raises errors that pass by themselves, so that it is repeated.
    """
    try:
        effect()
    except RemoteError as error:
        if error.again_after is not None:
            raise
        log.warning("reviewer_not_told", task=task.id, reason=str(error))

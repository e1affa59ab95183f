"""Merging a pull request once nothing prevents it, and deleting its branch."""

import structlog

from orchestrator.core.events import commands as do
from orchestrator.core.events.forge import PullStatus
from orchestrator.core.events.publish_events import MergeRefused, PullRequestMerged
from orchestrator.core.task.task import Task
from orchestrator.integrations.errors import RemoteError, Unreachable
from orchestrator.integrations.forges.protocol import Forge, NotMergeable
from orchestrator.integrations.publishing.merge_policy import UNSETTLED, hindrances_of
from orchestrator.integrations.publishing.outbound import Outbound
from orchestrator.integrations.publishing.pull_request import squash_commit

log = structlog.get_logger()


def merge_pull_request(
    outbound: Outbound, task: Task, command: do.MergePullRequest
) -> PullRequestMerged | MergeRefused:
    """Merge exactly the judged commit, or return why it may not be merged."""
    with outbound.forge(task) as opened:
        state = opened.forge.state(command.number)
        if state.pull.status is PullStatus.MERGED:
            _delete_branch(task, command, opened.forge)
            return PullRequestMerged(at=outbound.clock(), commit=state.pull.merge_commit or command.head)
        hindrances = hindrances_of(task, state)
        if hindrances == (UNSETTLED,):
            raise Unreachable(f"{state.pull.url}: {UNSETTLED}")
        if hindrances:
            return MergeRefused(at=outbound.clock(), hindrances=hindrances)
        subjects = outbound.workspace.subjects(task.id, task.source.base_commit, command.head)
        words = squash_commit(task, subjects, command.number, state.pull.url, outbound.sources(task))
        words = outbound.fit_words(words)
        try:
            merged = opened.forge.merge(command.number, words.title, words.body, command.head)
        except NotMergeable as error:
            if error.again_after is not None:
                raise
            return MergeRefused(at=outbound.clock(), hindrances=(str(error),))
        _delete_branch(task, command, opened.forge)
    return PullRequestMerged(at=outbound.clock(), commit=merged)


def _delete_branch(task: Task, command: do.MergePullRequest, forge: Forge) -> None:
    try:
        forge.delete_branch(command.number)
    except RemoteError as error:
        log.warning("branch_not_deleted", task=task.id, reason=str(error))

"""Looking at a pull request: its state, and what reviewers and checks say that is new."""

import orjson

from orchestrator.core.events import commands as do
from orchestrator.core.events.forge import PullState, PullStatus
from orchestrator.core.events.publish_events import PullRequestSeen
from orchestrator.core.task.task import Task
from orchestrator.integrations.errors import SOON, RemoteError
from orchestrator.integrations.forges.protocol import Forge
from orchestrator.integrations.publishing.feedback import Feedback, Round, feedback, new_failures
from orchestrator.integrations.publishing.merge_policy import UNSETTLED, hindrances_of
from orchestrator.integrations.publishing.outbound import Outbound


def look_at_pull_request(outbound: Outbound, task: Task, command: do.LookAtPullRequest) -> PullRequestSeen:
    """Return the state of a pull request; if it cannot be read, the reason is a hindrance, and the task continues."""
    try:
        with outbound.forge(task) as opened:
            state = opened.forge.state(command.number)
            ours = state.pull.status is PullStatus.OPEN and state.pull.head_sha == task.publication.head
            looked = _round(outbound, opened.forge, command, state) if ours else None
    except RemoteError as error:
        return PullRequestSeen(
            at=outbound.clock(),
            number=command.number,
            status=PullStatus.OPEN,
            hindrances=(f"the pull request could not be read: {error}",),
            look_after=max(error.again_after, task.policy.look_every) if error.again_after else None,
        )
    new = feedback(looked, frozenset(command.seen)) if looked else None
    if new is not None:
        _write(outbound, task, new)
    hindrances = hindrances_of(task, state)
    unsettled = UNSETTLED in hindrances and hindrances != task.publication.hindrances
    return PullRequestSeen(
        at=outbound.clock(),
        number=command.number,
        status=state.pull.status,
        hindrances=hindrances,
        reviewers=tuple(dict.fromkeys(review.author for review in state.reviews if review.counts)),
        feedback=new.name if new else None,
        marks=new.marks if new else (),
        comments=new.answers if new else (),
        merge_commit=state.pull.merge_commit,
        asked=command.asked and looked is not None,
        look_after=SOON if unsettled else None,
    )


def _round(outbound: Outbound, forge: Forge, command: do.LookAtPullRequest, state: PullState) -> Round:
    """Return what reviewers and checks say about the commit that was judged here.

    Comments on another commit are left out: a round about them could not be pushed.
    """
    failed = new_failures(state, frozenset(command.seen))
    return Round(
        number=command.round,
        at=outbound.clock(),
        state=state,
        comments=forge.open_comments(command.number),
        failed=tuple(forge.failure(check, state.pull.head_sha) for check in failed),
    )


def _write(outbound: Outbound, task: Task, new: Feedback) -> None:
    document = orjson.dumps(new.document, option=orjson.OPT_INDENT_2).decode()
    outbound.files.write(task.id, f"{new.name}.md", outbound.redactor.masked(new.markdown).encode())
    outbound.files.write(task.id, f"{new.name}.json", outbound.redactor.masked(document).encode())

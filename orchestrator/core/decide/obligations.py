"""Obligations: the commands that a task's state asks for.

    obligations(pipeline, task) = everything that should be under way now

is a pure function of the state. A decision dispatches what is owed after it and was not owed before; a restart
dispatches everything that is owed. So no handler lists commands, and a crash cannot lose one. Therefore every command
must be safe to repeat.

Freezing and thawing follow from comparing what is wanted (the agent's status) with what exists (the run's process).
"""

from datetime import datetime
from typing import assert_never
from uuid import NAMESPACE_URL, uuid5

from orchestrator.core.decide import prompt
from orchestrator.core.decide.pausing import deadlines
from orchestrator.core.events import commands as do
from orchestrator.core.task.agent import PauseReason, ProcessState
from orchestrator.core.task.children import ChildStatus
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.publication import Publish
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from orchestrator.core.task.user_requests import RequestStatus, Subject, UserRequest

_TURN_UNDER_WAY = (NextAction.TURN, NextAction.INTERRUPT)


def obligations(pipeline: Pipeline, task: Task) -> tuple[do.Command, ...]:
    """Return every command that the task's state asks for, in the order in which to carry them out."""
    times = alarms(task)
    waking = (do.WakeAt(at=min(times)),) if times else ()
    telling = tuple(do.TellPerson(notice=notice) for notice in task.notices)
    return _processes(pipeline, task) + waking + telling


def alarms(task: Task) -> tuple[datetime, ...]:
    """Return every time that the task waits for."""
    run, agent = task.run, task.agent
    if task.status is TaskStatus.PENDING and task.schedule.start_at is not None:
        return (task.schedule.start_at,)
    if not task.is_active:
        return ()
    still = run is not None and run.process is ProcessState.FROZEN
    timed = run is not None and run.process not in (ProcessState.FROZEN, ProcessState.PARKING) and not task.is_paused
    times = (
        task.retry_at if _waits_for_time(task) else None,
        run.park_at if run and still and task.is_paused else None,
        agent.turn.deadline if task.next_action in _TURN_UNDER_WAY and timed else None,
    )
    return deadlines(task) + tuple(time for time in times if time is not None)


def agent_run_folder(attempt: int) -> str:
    """Return the folder of an agent's files within its task's folder."""
    return f"agents/{attempt}"


def check_run_folder(evaluation: int, name: str, again: int | None) -> str:
    """Return the folder of a check's output within its task's folder; `again` numbers a check that is run once more."""
    return f"logs/{evaluation}-{name}" + (f"-{again}" if again else "")


def _waits_for_time(task: Task) -> bool:
    return (
        task.waits_for_merge or task.waits_for_service or (task.next_action is NextAction.RETRY and not task.is_paused)
    )


def _processes(pipeline: Pipeline, task: Task) -> tuple[do.Command, ...]:
    run = task.run
    following: tuple[do.Command, ...] = (
        (do.FollowRun(folder=run.folder),) if run and run.process is not ProcessState.STARTING else ()
    )
    if task.status.is_final and task.has_open_children:
        following += _live_children(task)
    if run is not None and not task.is_active:
        return (*following, do.StopRun(folder=run.folder, interrupt=task.agent.turn.deadline is not None))
    if run is not None and run.process is ProcessState.PARKING:
        return (*following, do.StopRun(folder=run.folder, interrupt=False))
    if not task.is_active:
        return following
    if task.is_paused:
        waiting = _children(pipeline, task) if task.waits_for_children else ()
        return following + _while_paused(task) + _look_at_pull_request(task) + waiting
    return following + _while_active(pipeline, task)


def _children(pipeline: Pipeline, task: Task) -> tuple[do.Command, ...]:
    """Return what a task owes its children; while it is paused for another reason, no more of them are submitted."""
    planned = tuple(child for child in task.children if child.status is ChildStatus.PLANNED)
    stage, waits = pipeline.stage(task.stage), task.agent.blocked_by is PauseReason.CHILDREN
    submit = (do.SubmitChildren(plan=stage.children or "", children=planned),) if planned and waits else ()
    return submit + _live_children(task)


def _live_children(task: Task) -> tuple[do.Command, ...]:
    """Return that the children which are tasks are followed, and that those which must stop are cancelled.

    When the task has ended, that includes planned ones, which may have been submitted meanwhile.
    """
    is_over = task.status.is_final
    live = tuple(one.task for one in task.children if one.status.is_live or (is_over and one.status.is_open))
    doomed = tuple(child.task for child in task.children if child.status is ChildStatus.STOPPING)
    cancel = (do.CancelChildren(tasks=live if is_over else doomed),) if doomed or is_over else ()
    return (*cancel, do.FollowChildren(tasks=live)) if live else ()


def _look_at_pull_request(task: Task) -> tuple[do.Command, ...]:
    """Return a look at the pull request that waits for its merge, if one is due or a person asked for it."""
    publication = task.publication
    if publication.number is None or not task.waits_for_merge:
        return ()
    asked, due = publication.asked_for_round, publication.look_due
    if due is None and (task.retry_at is not None or not (asked or task.policy.look_every > 0)):
        return ()
    look = do.LookAtPullRequest(
        number=publication.number, round=publication.round + 1, seen=publication.seen, asked=asked, due=due
    )
    return (look,)


def _deliver(pipeline: Pipeline, task: Task) -> do.Command:
    source, stage = task.source, pipeline.stage(task.stage)
    if task.parent is not None and stage.publish is Publish.PARENT:
        return do.JoinParent(parent=task.parent, base=source.base_commit, commit=source.commit, squash=stage.squash)
    return do.DeliverBranch(branch=source.branch, commit=source.commit)


def _publish(pipeline: Pipeline, task: Task) -> do.Command:
    publication, commit = task.publication, task.source.commit
    stage = pipeline.stage(task.stage)
    confirmed = tuple(
        request.digest
        for request in task.requests
        if request.draft.subject is Subject.PUBLISH and request.status is RequestStatus.APPROVED
    )
    match stage.publish:
        case Publish.REPORT:
            return do.PostReport(stage=task.stage, confirmed=confirmed)
        case Publish.RELEASE:
            return do.PrepareRelease(branch=task.source.branch, commit=commit)
        case Publish.PULL_REQUEST | Publish.BRANCH | Publish.PARENT:
            return do.OpenPullRequest(
                branch=task.source.branch,
                commit=commit,
                round=publication.round,
                replies=publication.replies,
                confirmed=confirmed,
            )
        case _:
            assert_never(stage.publish)


def _while_paused(task: Task) -> tuple[do.Command, ...]:
    run = task.run
    match run.process if run else None:
        case ProcessState.RUNNING if run:
            return (do.FreezeRun(folder=run.folder),)
        case ProcessState.UNFREEZABLE if run:
            return (do.StopRun(folder=run.folder, interrupt=True),)
        case _:
            return ()


def _while_active(pipeline: Pipeline, task: Task) -> tuple[do.Command, ...]:  # noqa: C901, PLR0912 - one case a word
    run, agent = task.run, task.agent
    if run and run.process is ProcessState.FROZEN:
        return (do.ThawRun(folder=run.folder),)
    match task.next_action:
        case NextAction.NOTHING | NextAction.ADMISSION | NextAction.RETRY:
            return ()
        case NextAction.CHILDREN:
            return _children(pipeline, task)
        case NextAction.WORKSPACE:
            return (do.PrepareWorkspace(branch=task.source.branch),)
        case NextAction.AGENT:
            return (_start(task),)
        case NextAction.TURN:
            return (_turn(pipeline, task), *_answers(task))
        case NextAction.INTERRUPT:
            return (do.InterruptTurn(attempt=agent.attempt, turn=agent.turn.number),)
        case NextAction.GATE:
            return (_look(task),)
        case NextAction.STOP:
            return (do.StopRun(folder=run.folder, interrupt=agent.turn.deadline is not None),) if run else ()
        case NextAction.CHECKS:
            return _check(task)
        case NextAction.DELIVERY:
            return (_deliver(pipeline, task),)
        case NextAction.PUBLISH:
            return (_publish(pipeline, task),)
        case NextAction.MERGE:
            publication = task.publication
            return (do.MergePullRequest(number=publication.number or 0, head=publication.head or ""),)
        case NextAction.RELEASE:
            version, commit = task.publication.version or "", task.source.commit
            return (do.TagRelease(version=version, commit=commit, branch=task.source.branch),)
        case _:
            assert_never(task.next_action)


def _answers(task: Task) -> tuple[do.SendAnswer, ...]:
    """Return answers to requests that the living process waits for; questions of one request are answered at once."""
    live: dict[str, list[UserRequest]] = {}
    for request in task.requests:
        if request.attempt == task.agent.attempt and request.draft.request_id is not None:
            live.setdefault(request.draft.request_id, []).append(request)
    return tuple(
        do.SendAnswer(attempt=task.agent.attempt, request_id=request_id, requests=tuple(requests))
        for request_id, requests in live.items()
        if not any(request.is_pending or request.status is RequestStatus.WITHDRAWN for request in requests)
        and any(request.is_undelivered for request in requests)
    )


def _start(task: Task) -> do.StartAgent:
    agent = task.agent
    return do.StartAgent(
        attempt=agent.attempt,
        role=agent.role or "",
        session_id=agent.session.id or "",
        resume=agent.session.is_resumed,
    )


def _turn(pipeline: Pipeline, task: Task) -> do.SendTurn:
    agent = task.agent
    return do.SendTurn(
        attempt=agent.attempt,
        turn=agent.turn.number,
        uuid=str(uuid5(NAMESPACE_URL, f"orchestrator:{task.id}/{agent.attempt}/{agent.turn.number}")),
        text=prompt.turn_text(pipeline, task),
    )


def _look(task: Task) -> do.LookAtGate:
    return do.LookAtGate(
        stage=task.stage,
        visit=task.stages[task.stage].visits,
        turn=task.agent.turn.number,
        attempt=task.agent.attempt,
        since=task.source.commit,
    )


def _check(task: Task) -> tuple[do.Command, ...]:
    check = task.evaluation.next_check
    if check is None or task.run is None:
        return ()
    return (do.RunCheck(folder=task.run.folder, check=check, commit=task.source.commit),)

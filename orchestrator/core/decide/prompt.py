"""The text of an agent's turn: which work, why now, where things are, and what the gate will look for.

The role file says how a role works; a turn says only what is particular to it. The text is a function of the task's
state, so a turn that is sent again after a crash has the same text.
"""

from collections.abc import Mapping, Sequence

from orchestrator.core.events.agent_messages import DependencyType
from orchestrator.core.task.agent import SessionOrigin
from orchestrator.core.task.checks import CheckResult
from orchestrator.core.task.pipeline import Pipeline, Stage
from orchestrator.core.task.progress import StageStatus, Step, StepCheckpoint, StepStatus
from orchestrator.core.task.task import Task
from orchestrator.core.task.user_requests import WHERE_PROVIDED, RequestStatus, UserRequest, variable_of


def turn_text(pipeline: Pipeline, task: Task) -> str:
    """Return the text of the turn that is owed to the task's agent now."""
    stage = pipeline.stage(task.stage)
    parts = [_heading(task, stage), _why(task, stage), _paths(task)]
    parts += [pipeline.family.brief(task, stage.name), stage.work.instructions(pipeline, task)]
    parts += _wanted_files(task, stage)
    parts.append(_answers(task))
    if stage.work.wanted_title:
        parts.append(_list(stage.work.wanted_title, task.requested_changes))
    parts.append(_list("Still missing; fix exactly this, then end your turn:", task.feedback))
    return "\n\n".join(part for part in parts if part)


def _wanted_files(task: Task, stage: Stage) -> list[str]:
    """Return which files the agent has to leave, and where."""
    if stage.work.has_steps:
        return []
    left = [name for name in stage.artifacts if name != stage.answer]
    documents = [task.fill(path) for path in stage.documents]
    kept = f"Your last message is kept as {stage.answer}: end your turn with it, whole and without words around it."
    return [
        _list("Leave these files in the outbox, and no others:", left),
        _list(f"{'Judge' if stage.work.verifies else 'Leave'} these files in the worktree:", documents),
        kept if stage.answer else "",
    ]


def outbox_of(task: Task) -> str:
    """Return the one folder, beside its worktree, that the task's present agent may write to."""
    return task.display_path(f"agents/{task.agent.attempt}/out")


def _heading(task: Task, stage: Stage) -> str:
    mode = stage.mode or ("bugfix" if _is_repairing(task) else "review_cycle" if task.publication.round else "fresh")
    return f"# {stage.name} of {task.ticket.key}: {_line(task.title)}\n\nmode: {mode}"


def _is_repairing(task: Task) -> bool:
    """Return whether an evaluation failed and was not repeated yet."""
    return any(record.status is StageStatus.FAILED for record in task.stages.values())


def _why(task: Task, stage: Stage) -> str:
    if task.agent.session.origin is SessionOrigin.RESTARTED and task.agent.turn.number == 1:
        why = (
            "Another agent worked on this and its conversation is lost. Look at the branch, the uncommitted changes "
            "and the files in workspace_dir (agents/*/out too), then continue from what it left."
        )
    elif task.agent.setbacks.limit_waits:
        why = "A usage limit or the service ended your last turn. Look at what is already there and continue from it."
    elif _new_answers(task):
        why = "What you asked for was answered."
    elif task.feedback:
        why = "Your last turn ended, but what the stage needs is not all there yet."
    elif task.agent.session.origin is SessionOrigin.RESUMED and task.agent.turn.number == 1:
        why = "You were interrupted in this stage. Look at what is already there and continue from it."
    elif stage.work.reason():
        why = stage.work.reason()
    elif task.publication.round and not _is_repairing(task):
        why = "The change is proposed, and reviewers ask for changes."
    elif task.requested_changes and not _is_repairing(task):
        why = "A person has looked at what is there and asks for changes."
    elif task.stages[stage.name].visits > 1:
        why = "The evaluation of the change failed, so the task came back to this stage."
    else:
        why = "The stages before this one are done."
    return f"why: {why}"


def _answers(task: Task) -> str:
    """Return every answer that the agent does not know yet, never the value of a dependency."""
    return _list("Answers to what you asked:", [_answer(request) for request in _new_answers(task)])


def _new_answers(task: Task) -> tuple[UserRequest, ...]:
    """Return the answered requests of earlier turns; requests of this turn are answered while it runs."""
    now = (task.agent.attempt, task.agent.turn.number)
    return tuple(
        request for request in task.requests if request.is_undelivered and (request.attempt, request.turn) < now
    )


def _answer(request: UserRequest) -> str:
    about = f"{request.draft.name}: {request.draft.text}" if request.draft.name else request.draft.text
    match request.status:
        case RequestStatus.PROVIDED:
            where = WHERE_PROVIDED[DependencyType(request.draft.type)]
            what = f"provided, {where.format(name=variable_of(request.draft.name))}"
        case RequestStatus.REJECTED:
            what = f"refused: {request.answer or 'no reason was given'}; do without it"
        case RequestStatus.CHANGES_REQUESTED:
            what = f"changes are wanted: {request.answer}"
        case RequestStatus.APPROVED:
            what = "approved"
        case _:
            what = request.answer or "no answer; decide yourself and state in your work what you assumed"
    return f"{about[:2000]} — {what}"


def _paths(task: Task) -> str:
    source = task.source
    begun_at = f"branch {source.branch}, begun at {source.base_commit[:12]} of {source.base_branch}"
    return (
        f"workspace_dir: {task.display_path()} (read only: ticket.json and what earlier stages left)\n"
        f"worktree: {source.worktree} ({begun_at})\n"
        f"outbox: {outbox_of(task)}"
    )


def present_step(pipeline: Pipeline, task: Task) -> str:
    """Return the plan, with the step that is to be done in this turn."""
    number = task.agent.turn.step
    step = next((one for one in task.steps if one.step_id == number), None)
    if step is None:
        return f"Every step is done. Commit what is still to change under a subject that begins {task.ticket.key}:"
    details = " and ".join(filter(None, (pipeline.stage(task.stage).plan, pipeline.family.plan_details)))
    marks = {StepStatus.COMPLETED: "x", StepStatus.IN_PROGRESS: ">"}
    plan = "\n".join(f"[{marks.get(one.status, ' ')}] {one.step_id}. {_line(one.description)}" for one in task.steps)
    return (
        f"The plan (details: {details}):\n{plan}\n\n"
        f"Do step {step.step_id} and nothing beyond it. Then commit everything, with the subject\n"
        f"{commit_subject(task, step)}\n"
        "and end your turn with a clean worktree. If the step needs no change, say why in an empty commit."
        f"{_checkpoint_note(step.last_checkpoint) if step.last_checkpoint else ''}"
    )


def _checkpoint_note(left: StepCheckpoint) -> str:
    """Return the checkpoint that was noted when work on the step was interrupted."""
    files = f"; not committed then: {_line(', '.join(left.uncommitted_files))}" if left.uncommitted_files else ""
    return f"\n\nNote from an earlier attempt ({_line(left.reason)}): {' '.join(left.work_in_progress.split())}{files}"


def commit_subject(task: Task, step: Step) -> str:
    """Return the first line of a step's commit: ticket and description, at most 70 characters."""
    text = f"{task.ticket.key}: {_line(step.description)}"
    return text if len(text) <= 70 else text[:69].rstrip() + "…"


def failed_checks(results: Mapping[str, CheckResult], accepted: frozenset[str]) -> str:
    """Return the checks that failed, with the paths of their output."""
    failed = [
        f"{name}: {result.reason}; output: {result.log}"
        for name, result in results.items()
        if result.verdict not in accepted
    ]
    return _list("Checks that failed (output paths are relative to workspace_dir):", failed)


def recent_failures(task: Task) -> str:
    """Return the newest entries of the failure log."""
    recent = [
        f"{entry.id} in {entry.state}{f' ({entry.step})' if entry.step else ''}: {_line(entry.summary)}"
        + (f"; likely cause: {_line(entry.analysis.root_cause_hypothesis)}" if entry.analysis else "")
        + (f"; output: {entry.log_file}" if entry.log_file else "")
        for entry in task.failures.entries[-5:]
    ]
    return _list("What failed so far (newest last):", recent)


def _list(title: str, items: Sequence[str]) -> str:
    return "\n".join((title, *(f"- {' '.join(item.split())}" for item in items))) if items else ""


def _line(text: str) -> str:
    return " ".join(text.split())[:300]

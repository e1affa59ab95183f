"""How a parent follows its children: planned in a file, submitted once, ended one after the other.

    PLANNED ─► SUBMITTED ─► COMPLETED or FAILED
       │           └─► STOPPING ─► SKIPPED
       └─► SKIPPED

A parent that waits for its children is paused: it holds no slot, so its children have every one.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import assert_never

from orchestrator.core.decide.pausing import resume_if_free
from orchestrator.core.events.child_events import ChildEnded, ChildEvent, ChildrenSubmitted
from orchestrator.core.task.budget import NO_CAPS
from orchestrator.core.task.children import Child, ChildPlan, ChildStatus, OnChildFailure
from orchestrator.core.task.guards import Evidence
from orchestrator.core.task.pipeline import Pipeline, Stage
from orchestrator.core.task.task import NextAction, Schedule, Source, Task, Timing
from orchestrator.core.task.task_policy import OnBlocked


def planned(pipeline: Pipeline, task: Task, evidence: Evidence) -> tuple[Child, ...]:
    """Return the children of a plan that was just left behind, else the task's present ones.

    A completed child of the plan before stays completed if its text is the same; the others get a new task, whose id
    ends with the number of the visit to come.
    """
    for stage in pipeline.stages.values():
        if stage.children and stage.children in evidence.fresh and stage.children in evidence.files:
            visit = task.stages[stage.name].visits + 1
            return _merged(task, evidence.files[stage.children].children, visit)
    return task.children


def _merged(task: Task, plans: Sequence[ChildPlan], visit: int) -> tuple[Child, ...]:
    done = {child.plan: child for child in task.children if child.status is ChildStatus.COMPLETED}
    return tuple(done.get(plan) or Child(plan=plan, task=child_id(task, plan.key, visit)) for plan in plans)


def child_id(parent: Task, key: str, visit: int) -> str:
    """Return the id of a child's task; a child that is made again in a later visit of the stage gets another one."""
    return f"{parent.id}.{key}" + (f"-{visit}" if visit > 1 else "")


def made_again(task: Task) -> tuple[Child, ...]:
    """Return the children as a new visit of their stage finds them: what is not completed is to be made again."""
    visit = task.stages[task.stage].visits
    return tuple(
        child
        if child.status is ChildStatus.COMPLETED or child.task == child_id(task, child.plan.key, visit)
        else Child(plan=child.plan, task=child_id(task, child.plan.key, visit))
        for child in task.children
    )


def apply_child_event(pipeline: Pipeline, task: Task, event: ChildEvent) -> Task:
    """Return the task after an event about its children."""
    match event:
        case ChildrenSubmitted():
            return _on_submitted(task, event)
        case ChildEnded():
            return _on_ended(pipeline, task, event)
        case _:
            assert_never(event)


def _on_submitted(task: Task, event: ChildrenSubmitted) -> Task:
    """Return the task with these children submitted; those that were skipped meanwhile are to be stopped."""
    following = {ChildStatus.PLANNED: ChildStatus.SUBMITTED, ChildStatus.SKIPPED: ChildStatus.STOPPING}
    made = tuple(
        replace(child, status=following[child.status])
        if child.task in event.tasks and child.status in following
        else child
        for child in task.children
    )
    return task if made == task.children else replace(task, children=made)


def _on_ended(pipeline: Pipeline, task: Task, event: ChildEnded) -> Task:
    child = next((one for one in task.children if one.task == event.task), None)
    if child is None or not child.status.is_open:
        return task
    ended = _ended(child, event)
    if task.status.is_final and child.status is ChildStatus.PLANNED and not event.completed:
        ended = replace(child, status=ChildStatus.SKIPPED, reason="its parent ended")
    children = tuple(ended if one is child else one for one in task.children)
    if ended.status is ChildStatus.FAILED and task.is_active:
        children = _after_failure(children, ended.plan.key, pipeline.stage(task.stage).on_child_failure)
    spending = replace(task.spending, by_children=task.spending.by_children + event.spent)
    return continue_when_ended(replace(task, children=children, spending=spending))


def _ended(child: Child, event: ChildEnded) -> Child:
    if event.completed:
        return replace(child, status=ChildStatus.COMPLETED, commit=event.commit, reason="")
    if child.status is ChildStatus.STOPPING:
        return replace(child, status=ChildStatus.SKIPPED)
    return replace(child, status=ChildStatus.FAILED, reason=event.reason[:500])


def _after_failure(children: tuple[Child, ...], failed: str, then: OnChildFailure) -> tuple[Child, ...]:
    """Return the children after one failed; those that must not be done are stopped, or skipped if none began."""
    match then:
        case OnChildFailure.STOP:
            doomed: Collection[str] = {child.plan.key for child in children}
        case OnChildFailure.SKIP_DEPENDANTS:
            doomed = _dependants(children, failed)
        case OnChildFailure.GO_ON:
            doomed = ()
        case _:
            assert_never(then)
    return tuple(stopped(child, f"{failed} failed") if child.plan.key in doomed else child for child in children)


def _dependants(children: Sequence[Child], key: str) -> set[str]:
    """Return the keys of all children that depend on this one, also through others."""
    found, new = set[str](), {key}
    while new:
        new = {child.plan.key for child in children if not new.isdisjoint(child.plan.after)} - found
        found |= new
    return found


def stopped(child: Child, reason: str) -> Child:
    """Return the child as one that must stop, for the reason given; an ended one stays as it is."""
    if child.status is ChildStatus.PLANNED:
        return replace(child, status=ChildStatus.SKIPPED, reason=reason)
    if child.status is ChildStatus.SUBMITTED:
        return replace(child, status=ChildStatus.STOPPING, reason=reason)
    return child


def continue_when_ended(task: Task) -> Task:
    """Return the task with the results of its children to be examined, once every one of them has ended."""
    if task.next_action is not NextAction.CHILDREN or any(child.status.is_open for child in task.children):
        return task
    return resume_if_free(replace(task, next_action=NextAction.GATE))


def task_of(parent: Task, stage: Stage, child: Child, at: datetime) -> Task:
    """Return the task of a child, as it is submitted: it works on its parent's branch and under its parent's policy.

    It has no caps of its own, because those of its parent bound what both spend together. Where a person let the parent
    run outside of its run windows, the child may too, until its own windows close the next time.
    """
    ids = {one.plan.key: one.task for one in parent.children if one.plan.key in child.plan.after}
    suffix, key = child.task.removeprefix(parent.id), f"{parent.ticket.key}.{child.plan.key}"
    goes_on = stage.on_child_failure is OnChildFailure.GO_ON
    return Task(
        id=child.task,
        parent=parent.id,
        title=child.plan.title,
        folder=parent.folder.removesuffix(parent.id) + child.task,
        ticket=replace(parent.ticket, key=key),
        pipeline=child.plan.pipeline or stage.child_pipelines[0],
        source=Source(
            repo=parent.source.repo,
            base_branch=parent.source.branch,
            base_commit=parent.source.commit,
            branch=f"{parent.source.branch}{suffix}",
        ),
        timing=Timing(created_at=at),
        updated_at=at,
        evaluation=replace(parent.evaluation, results={}, report_path=None),
        schedule=Schedule(
            priority=parent.schedule.priority,
            after=tuple(ids[key] for key in child.plan.after),
            after_any_end=goes_on,
            let_run_at=parent.schedule.let_run_at,
        ),
        policy=replace(parent.policy, caps=NO_CAPS, on_blocked=OnBlocked.FAIL if goes_on else parent.policy.on_blocked),
    )


def end_of(child: Task | None, name: str, at: datetime) -> ChildEnded:
    """Return what a parent is told of a child that has ended, or whose task is gone."""
    if child is None:
        return ChildEnded(at=at, task=name, completed=False, reason="its task is gone")
    completed = child.timing.completed_at is not None
    reason = "" if completed else child.block_reason or f"it was {child.status}"
    commit, spent = child.source.head, child.spending.whole
    return ChildEnded(at=at, task=name, completed=completed, commit=commit, reason=reason, spent=spent)

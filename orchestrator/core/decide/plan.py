"""Steps of a plan: read from its headings and worked through in order."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from hashlib import sha256

from orchestrator.core.task.progress import Step, StepCheckpoint, StepStatus

NOT_NOTED = "nothing was noted; see the uncommitted files"
STEP_PREFIX = "## Step"
_HEADING = re.compile(r"##\s+Step(?![a-z])\s*(\d+)?\s*[:.)\u2013\u2014-]?\s*(.*)")
_LONGEST = 300


def steps_of(headings: Sequence[str], digests: Sequence[str] = (), before: Sequence[Step] = ()) -> tuple[Step, ...]:
    """Return the steps that a plan's `## Step N: …` headings declare, numbered from one in their order.

    `digests` are of the text between each heading and the next, of whatever level. A completed step of the plan
    `before` with the same text stays completed and keeps its commits; every other step is still to be done.
    """
    done = {(step.description, step.digest): step for step in before if step.status is StepStatus.COMPLETED}
    steps: list[Step] = []
    for heading, digest in _with_all_below(headings, digests):
        match, number = _HEADING.match(heading), len(steps) + 1
        text = (match.group(2).strip() if match else "")[:_LONGEST] or f"Step {number}"
        kept = done.pop((text, digest), None) if digest else None
        step = Step(step_id=number, description=text, digest=digest)
        steps.append(replace(kept, step_id=number) if kept else step)
    return tuple(steps)


def _with_all_below(headings: Sequence[str], digests: Sequence[str]) -> list[tuple[str, str]]:
    """Return each step's heading, with a digest of all up to the next heading of its level; empty without steps.

    Deeper headings belong to the step, and so do lines of code that only look like headings.
    """
    steps: list[tuple[str, list[str]]] = []
    within = False
    for heading, digest in zip(headings, (*digests, *[""] * len(headings)), strict=False):
        if heading.startswith(STEP_PREFIX):
            steps.append((heading, [digest]))
        elif within and digest and not heading.startswith("## "):
            steps[-1][1].extend((heading, digest))
        within = heading.startswith(STEP_PREFIX) or (within and not heading.startswith("## "))
    return [
        (heading, below[0] if len(below) == 1 else sha256("\n".join(below).encode()).hexdigest()[:16])
        for heading, below in steps
    ]


def next_step(steps: Sequence[Step]) -> Step | None:
    """Return the first step that is not completed."""
    return next((step for step in steps if step.status is not StepStatus.COMPLETED), None)


def begin_step(steps: Sequence[Step], step_id: int, at: datetime) -> tuple[Step, ...]:
    """Return the steps with one of them in progress; the time when it first began stays."""
    return tuple(
        replace(step, status=StepStatus.IN_PROGRESS, started_at=step.started_at or at)
        if step.step_id == step_id
        else step
        for step in steps
    )


def with_status(steps: Sequence[Step], step_id: int, status: StepStatus) -> tuple[Step, ...]:
    """Return the steps with the status of one of them changed; its times and commits stay."""
    return tuple(replace(step, status=status) if step.step_id == step_id else step for step in steps)


def finish_step(steps: Sequence[Step], step_id: int, commits: Sequence[str], at: datetime) -> tuple[Step, ...]:
    """Return the steps with one completed by those of the commits that no other step has, its checkpoint removed."""
    others = {commit for step in steps if step.step_id != step_id for commit in step.commits}
    new = [commit for commit in commits if commit not in others]
    return tuple(
        replace(
            step,
            status=StepStatus.COMPLETED,
            completed_at=at,
            commits=tuple(dict.fromkeys((*step.commits, *new))),
            last_checkpoint=None,
        )
        if step.step_id == step_id
        else step
        for step in steps
    )


def note_stop(
    steps: Sequence[Step], step_id: int | None, reason: str, uncommitted: Sequence[str], at: datetime
) -> tuple[Step, ...]:
    """Return the steps with a checkpoint at the one in progress; what its agent has noted there stays."""
    return tuple(
        replace(
            step,
            last_checkpoint=StepCheckpoint(
                at=at,
                reason=reason,
                work_in_progress=(step.last_checkpoint.work_in_progress if step.last_checkpoint else "") or NOT_NOTED,
                uncommitted_files=tuple(uncommitted),
            ),
        )
        if step.step_id == step_id and step.status is StepStatus.IN_PROGRESS
        else step
        for step in steps
    )

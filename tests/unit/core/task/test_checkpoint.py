"""When a checkpoint is needed, which ones are kept, and what is reported without any."""

from dataclasses import replace
from datetime import datetime

import pytest

from orchestrator.core.events import events, run_events
from orchestrator.core.events.checkpoint_reason import reason_for
from orchestrator.core.task.agent import (
    Agent,
    AgentStatus,
    AgentUsage,
    PauseReason,
    ProcessState,
    Run,
    Session,
    TurnProgress,
)
from orchestrator.core.task.checkpoint import (
    KEPT,
    AgentSnapshot,
    Checkpoint,
    CheckpointContext,
    Reason,
    SavedWork,
    checkpoint_of,
    infer_task,
    superseded_checkpoints,
)
from orchestrator.core.task.failures import Failure
from orchestrator.core.task.progress import StageRecord, StageStatus
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.formats.codec import from_json, to_json
from tests.fakes.tasks import full_pipeline, submitted
from tests.fakes.world import START

RING = events.AlarmRang(at=START)
FROZEN = run_events.RunFrozen(at=START, folder="agents/1")
AT_WORK = submitted(
    status=TaskStatus.IN_PROGRESS,
    stage="DESIGN",
    stages={"DESIGN": StageRecord(status=StageStatus.IN_PROGRESS, visits=1)},
    agent=Agent(
        status=AgentStatus.RUNNING,
        role="planner",
        attempt=2,
        session=Session(id="s"),
        turn=TurnProgress(number=3),
        usage=AgentUsage(tokens=7),
    ),
    run=Run(folder="agents/2", process=ProcessState.RUNNING),
)


def held(by: PauseReason | None) -> Task:
    return replace(AT_WORK, agent=replace(AT_WORK.agent, status=AgentStatus.PAUSED, blocked_by=by))


def taken(number: int, *, pinned: bool = False, at: datetime = START) -> Checkpoint:
    return replace(checkpoint_of(AT_WORK, number, at, Reason.INTERVAL, CheckpointContext()), pinned=pinned)


@pytest.mark.parametrize(
    ("by", "reason"),
    [
        (PauseReason.USER, Reason.USER),
        (PauseReason.RATE_LIMIT, Reason.LIMIT),
        (PauseReason.PRESSURE, Reason.FREEZE),
        (PauseReason.QUESTION, Reason.FREEZE),
        (None, Reason.FREEZE),
    ],
)
def test_every_freeze_needs_one_and_states_its_reason(by: PauseReason | None, reason: Reason) -> None:
    still = replace(held(by), run=Run(folder="agents/2", process=ProcessState.FROZEN))
    assert reason_for(held(by), still, FROZEN) is reason
    assert reason_for(still, still, FROZEN) is None, "a repeated event is still one freeze"


def test_a_reached_limit_needs_one_and_its_failed_turn_no_other() -> None:
    failure = Failure(
        id="", occurred_at=START, state="DESIGN", agent="planner", step=None, attempted="turn 1", command=None,
        expected="a finished turn", type="agent_lost", summary="it ended",
    )  # fmt: skip
    failed = replace(AT_WORK, failures=AT_WORK.failures.with_failure(failure))
    limited = held(PauseReason.RATE_LIMIT)
    assert reason_for(AT_WORK, limited, RING) is Reason.LIMIT
    assert reason_for(AT_WORK, replace(limited, failures=failed.failures), RING) is Reason.LIMIT
    assert reason_for(limited, limited, RING) is None
    assert reason_for(AT_WORK, failed, RING) is Reason.ERROR


def test_a_blocked_task_needs_one_and_an_ended_one_while_its_run_lives() -> None:
    blocked = replace(AT_WORK, status=TaskStatus.BLOCKED)
    assert reason_for(AT_WORK, blocked, RING) is Reason.ERROR
    assert reason_for(blocked, blocked, RING) is None
    done = {"DESIGN": replace(AT_WORK.stages["DESIGN"], status=StageStatus.COMPLETED)}
    assert reason_for(AT_WORK, replace(AT_WORK, stages=done, status=TaskStatus.COMPLETED), RING) is Reason.PHASE
    assert reason_for(AT_WORK, replace(AT_WORK, stages=done, status=TaskStatus.COMPLETED, run=None), RING) is None


def test_the_end_of_a_stage_needs_one_each_time_it_is_reached() -> None:
    first = replace(AT_WORK, stages={"DESIGN": StageRecord(status=StageStatus.COMPLETED, visits=1)})
    again = replace(AT_WORK, stages={"DESIGN": StageRecord(status=StageStatus.COMPLETED, visits=2)})
    assert reason_for(AT_WORK, first, RING) is Reason.PHASE
    assert reason_for(first, first, RING) is None
    assert reason_for(first, again, RING) is Reason.PHASE


def test_a_saved_checkpoint_needs_no_other() -> None:
    saved = replace(AT_WORK, agent=replace(AT_WORK.agent, last_saved=START))
    assert reason_for(AT_WORK, saved, events.CheckpointSaved(at=START, number=1)) is None


def test_a_checkpoint_names_the_active_agent_and_survives_serialisation() -> None:
    around = CheckpointContext(
        work=SavedWork(head="a" * 40, commit="c" * 40, files=2, added=3, removed=4),
        environment=("HOME", "PATH"),
        artifacts=("plan.md",),
    )
    made = checkpoint_of(AT_WORK, 12, START, Reason.FREEZE, around)
    assert (made.task.status, made.task.stage, made.task.progress) == (TaskStatus.IN_PROGRESS, "DESIGN", 0)
    assert made.agent == AgentSnapshot(
        status=AgentStatus.RUNNING, role="planner", attempt=2, session_id="s", turn=3, tokens_used=7, cost_usd=0.0
    )
    assert made.work is not None
    assert made.work.whole == "c" * 40
    assert SavedWork(head="a" * 40).whole == "a" * 40
    assert from_json(Checkpoint, to_json(made)) == made


def test_the_newest_ten_and_all_pinned_ones_are_kept() -> None:
    every = [taken(number, pinned=number in {2, 14}) for number in range(1, 16)]
    assert set(superseded_checkpoints(every)) == {1, 3, 4}
    assert len(every) - len(superseded_checkpoints(every)) == KEPT + 2
    assert superseded_checkpoints(every[:KEPT]) == ()


@pytest.mark.parametrize(
    ("artifacts", "commits", "stage"),
    [
        ((), 0, "TICKET_INTAKE"),
        (("analysis.md",), 0, "ANALYSIS"),
        (("analysis.md", "plan.md"), 0, "PLANNING"),
        (("plan.md", "design-v2.md"), 0, "DESIGN"),
        (("plan.md", "design-v2.md"), 3, "IMPLEMENTATION"),
        (("failure-analysis.json",), 3, "EVALUATION"),
        (("unheard-of.md",), 0, "TICKET_INTAKE"),
    ],
)
def test_the_inferred_stage_is_the_last_one_with_artifacts(
    artifacts: tuple[str, ...], commits: int, stage: str
) -> None:
    assert infer_task(full_pipeline().stages.values(), artifacts, commits) == stage


def test_without_stages_none_is_inferred() -> None:
    assert infer_task((), ("plan.md",), 1) is None

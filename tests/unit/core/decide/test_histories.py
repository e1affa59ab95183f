"""Properties that hold for every history of a task, likely or not."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.decide import machine
from orchestrator.core.decide.obligations import alarms, obligations
from orchestrator.core.decide.transitions import AGENT_TRANSITIONS, TASK_TRANSITIONS, allowed
from orchestrator.core.events import commands as do
from orchestrator.core.events import events, run_events
from orchestrator.core.events.agent_messages import AgentError, Recovery
from orchestrator.core.events.forge import PullStatus
from orchestrator.core.schedule.admission import Capacity, SchedulerSnapshot, tasks_to_resume
from orchestrator.core.schedule.live_tasks import LiveTasks
from orchestrator.core.schedule.why import explain
from orchestrator.core.task.agent import AgentStatus, PauseReason, ProcessState
from orchestrator.core.task.budget import Caps
from orchestrator.core.task.checks import Verdict
from orchestrator.core.task.guards import Evidence
from orchestrator.core.task.publication import Publication
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from orchestrator.core.task.task_policy import Autonomy, OnBlocked, TaskPolicy
from orchestrator.core.task.user_requests import Answer, RequestStatus, Subject
from orchestrator.errors import AnswerRefused, InvalidTransition
from orchestrator.storage.state_document import from_document, to_document
from tests.fakes.world import START
from tests.unit.playbook import (
    EXPLAINED,
    Happening,
    a_task,
    admitted,
    alarm,
    answer,
    answer_sent,
    archive,
    asking,
    cancel,
    caps,
    checkpoint,
    committed,
    daemon_started,
    delivered,
    dependency,
    exited,
    finished,
    freeze_failed,
    frozen,
    full,
    held,
    interrupted,
    judged,
    limit_hit,
    looked,
    merged,
    pause,
    permission,
    posted,
    prepared,
    proposed,
    question,
    ready,
    refused,
    released,
    resume,
    retry,
    round_asked,
    seen,
    sent_off,
    session,
    stalled,
    started,
    thawed,
    told,
    urgent,
    withdrawn,
)

REVIEWED = replace(
    full(),
    stages={
        name: replace(stage, review=name in ("PLANNING", "IMPLEMENTATION", "EVALUATION"))
        for name, stage in full().stages.items()
    },
)
"""Return the bundled pipeline with user reviews of some of its stages."""


def forgotten(task: Task, at: datetime) -> events.Event:
    """The daemon restarts and the run is dead."""
    return events.DaemonStarted(at=at, run_alive=False)


def of_an_old_attempt(happening: Happening) -> Happening:
    """An event of the previous attempt."""
    return lambda task, at: happening(replace(task, agent=replace(task.agent, attempt=task.agent.attempt - 1)), at)


def of_another_run(happening: Happening) -> Happening:
    """An event of a run that does not exist."""
    return lambda task, at: happening(replace(task, run=None), at)


def cannot(number: int) -> Happening:
    """One of the desired commands fails."""

    def event(task: Task, at: datetime) -> events.Event:
        owed = obligations(REVIEWED, task) or (do.FreezeRun(folder="agents/0"),)
        return events.CommandFailed(at=at, command=owed[number % len(owed)], reason="it cannot be had")

    return event


def answers(status: RequestStatus, text: str = "", number: int | None = None) -> Happening:
    """A user answers the first open request, or the one with this number."""

    def event(task: Task, at: datetime) -> events.Event:
        first = next((ask.number for ask in task.pending_requests), 1)
        return events.AskAnswered(at=at, number=number or first, status=status, answer=text, by="ada")

    return event


def quietly(task: Task, at: datetime) -> events.Event:
    """The next event where nothing goes wrong and everything is approved; a proposed change waits."""
    if task.waits_for_merge:
        return alarm(task, at)
    if task.pending_requests:
        return answers(RequestStatus.APPROVED)(task, at)
    return admitted(task, at) if task.wants_slot else answer(task, at)


def trouble(recovery: Recovery, fatal: bool = False) -> Happening:
    """The agent reports an error."""
    return asking(trouble=AgentError(fatal=fatal, recovery=recovery, message="no network", details=""))


ASKED: st.SearchStrategy[Happening] = st.sampled_from(
    [
        *(asking(question()), asking(question(required=False)), asking(question(), question("And then?"))),
        *(asking(question(request_id="r1")), asking(permission()), asking(permission("r2", "command: ls"))),
        *(asking(dependency()), asking(dependency(required=False)), withdrawn(), answer_sent(), answer_sent("r2")),
        *(trouble(one) for one in (Recovery.PAUSE_AND_RETRY, Recovery.NOTIFY_USER)),
        asking(permission("r3"), answers=(Answer(status=RequestStatus.ANSWERED, text="allow"),)),
    ]
)
ANSWERS: st.SearchStrategy[Happening] = st.sampled_from(
    [
        *(
            answers(RequestStatus.ANSWERED, "left"),
            answers(RequestStatus.ANSWERED, "allow"),
            answers(RequestStatus.SKIPPED),
        ),
        *(answers(RequestStatus.PROVIDED), answers(RequestStatus.REJECTED, "no"), answers(RequestStatus.APPROVED)),
        *(
            answers(RequestStatus.CHANGES_REQUESTED, "smaller"),
            answers(RequestStatus.ANSWERED, "right", number=1),
            told,
        ),
    ]
)
GOES_WELL: st.SearchStrategy[Happening] = st.just(answer)
OUTSIDE: st.SearchStrategy[Happening] = st.sampled_from(
    [
        *(proposed, merged, refused("a check failed"), prepared, released, posted(), posted("no ticket"), round_asked),
        held(),
        *(seen(), seen(asked=True), seen(hindrances=("a check failed",)), seen(PullStatus.CLOSED), seen(number=6)),
        *(seen(PullStatus.MERGED), seen(comments=("one",)), seen(comments=("two", "three"), asked=True)),
    ]
)
REQUESTS: st.SearchStrategy[Happening] = st.sampled_from(
    [
        *(pause(), resume(), cancel, pause(PauseReason.PRESSURE), resume(PauseReason.PRESSURE), pause(park=True)),
        *(pause(PauseReason.SERVICE), resume(PauseReason.SERVICE)),
        *(
            pause(PauseReason.RATE_LIMIT),
            resume(PauseReason.RATE_LIMIT),
            pause(PauseReason.BUDGET),
            resume(PauseReason.BUDGET),
        ),
        *(
            retry,
            sent_off,
            round_asked,
            archive,
            urgent,
            caps(Caps()),
            caps(Caps(turns=3)),
            caps(Caps(usd=0.5, hours=0.5)),
        ),
    ]
)
ANYTHING: st.SearchStrategy[Happening] = st.sampled_from(
    [
        *(admitted, ready, started, session, exited, delivered, frozen, freeze_failed, thawed, alarm, checkpoint),
        *(daemon_started, forgotten, finished(), finished("refused"), finished(tool_uses=0)),
        *(finished("no", error_class="billing"), judged(), judged(Verdict.FAIL), judged(Verdict.WARN), judged(None)),
        *(looked(), looked(Evidence()), looked(committed("c1", dirty=("a",))), looked(Evidence(analysis=EXPLAINED))),
        *(looked(Evidence(fresh=("plan.md",))), cannot(0), cannot(1)),
        *(limit_hit(), limit_hit(600), interrupted, stalled, finished("529", error_class="overloaded")),
        *(finished("gone", error_class="session"), finished("spent", error_class="budget")),
        *(finished(malformed=("no text",)), trouble(Recovery.CHECKPOINT_AND_FAIL), trouble(Recovery.NOTIFY_USER, True)),
        *(of_an_old_attempt(one) for one in (session, exited, finished(), asking(question()), answer_sent(), stalled)),
        *(of_another_run(one) for one in (started, frozen, thawed, freeze_failed, judged())),
    ]
)
PEACE = st.integers(0, 30).map(lambda count: [(quietly, 0)] * count)
ROUND = st.integers(0, 20).map(
    lambda count: (
        [(quietly, 0)] * 40 + [(round_asked, 0), (seen(comments=("zero",), asked=True), 0)] + [(quietly, 0)] * count
    )
)
"""A change that was proposed, and the start of a round on the comments of its reviewers."""
TROUBLE = st.lists(
    st.tuples(
        GOES_WELL | GOES_WELL | GOES_WELL | ASKED | ANSWERS | ANYTHING | OUTSIDE | REQUESTS,
        st.sampled_from([0, 1, 30, 4000]),
    ),
    max_size=40,
)
HISTORIES = st.builds(lambda peace, trouble: peace + trouble, PEACE | PEACE | ROUND, TROUBLE)
TERMS = st.sampled_from(
    [
        TaskPolicy(),
        TaskPolicy(autonomy=Autonomy.INTERACTIVE),
        TaskPolicy(autonomy=Autonomy.INTERACTIVE, question_timeout=30.0, park_after=10.0, auto_resume=False),
        TaskPolicy(autonomy=Autonomy.INTERACTIVE, caps=Caps(turns=4), usd_after_limit=0.3, reminders=()),
        TaskPolicy(look_every=60.0, follow_reviews=True, auto_merge=True, on_blocked=OnBlocked.ESCALATE),
        TaskPolicy(look_every=60.0),
    ]
)
"""A period without errors, so that every stage is reached, and then anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One decision of a history."""

    before: Task
    event: events.Event
    after: Task
    commands: tuple[do.Command, ...]


REQUESTED = (
    events.PauseRequested,
    events.ResumeRequested,
    events.CancelRequested,
    events.RetryRequested,
    events.DraftChanged,
    events.DraftSubmitted,
    events.AskAnswered,
    events.RoundRequested,
    events.ArchiveRequested,
)


def lived(terms: TaskPolicy, history: list[tuple[Happening, int]]) -> list[Decision]:
    """Return the decisions of a history; refused events change nothing and are left out."""
    begun = replace(a_task(), policy=terms, publication=Publication(forge="https://forge.example/a/b.git"))
    task, commands = machine.begin(REVIEWED, events.TaskSubmitted(at=START, task=begun))
    decisions = [Decision(before=task, event=events.TaskSubmitted(at=START, task=task), after=task, commands=commands)]
    now = START
    for happening, seconds in history:
        now += timedelta(seconds=seconds)
        event = happening(task, now)
        try:
            after, commands = machine.decide(REVIEWED, task, event)
        except InvalidTransition as refusal:
            if not isinstance(event, REQUESTED) or refusal.allowed != allowed(task):
                raise
            continue
        except AnswerRefused:
            if not isinstance(event, events.AskAnswered):
                raise
            continue
        decisions.append(Decision(before=task, event=event, after=after, commands=commands))
        task = after
    return decisions


def in_every_history(law: Callable[[list[Decision]], None]) -> Callable[[], None]:
    """Turn a property into a test of many histories."""

    @given(TERMS, HISTORIES)
    def test(terms: TaskPolicy, history: list[tuple[Happening, int]]) -> None:
        law(lived(terms, history))

    return test


@in_every_history
def test_a_final_status_is_permanent(decisions: list[Decision]) -> None:
    for one in decisions:
        if one.before.status.is_final:
            archived = isinstance(one.event, events.ArchiveRequested) and one.after.status is TaskStatus.ARCHIVED
            assert archived or one.after.status is one.before.status
            assert all(isinstance(command, do.FollowRun | do.StopRun | do.TellPerson) for command in one.commands)


@in_every_history
def test_every_change_of_status_is_in_the_tables(decisions: list[Decision]) -> None:
    for one in decisions:
        assert one.after.status in TASK_TRANSITIONS[one.before.status] | {one.before.status}
        assert one.after.agent.status in AGENT_TRANSITIONS[one.before.agent.status] | {one.before.agent.status}


@in_every_history
def test_counters_never_decrease(decisions: list[Decision]) -> None:
    for one in decisions:
        before, after = one.before, one.after
        assert after.agent.attempt - before.agent.attempt in (0, 1)
        assert after.failures.total >= before.failures.total
        assert all(after.stages[name].visits >= record.visits for name, record in before.stages.items())
        same_attempt = after.agent.attempt == before.agent.attempt
        assert not same_attempt or after.agent.read_offset >= before.agent.read_offset
        assert not same_attempt or after.agent.turn.number >= before.agent.turn.number


@in_every_history
def test_decisions_are_numbered_consecutively(decisions: list[Decision]) -> None:
    for one in decisions[1:]:
        assert one.after is one.before or one.after.seq == one.before.seq + 1
        assert one.after is not one.before or not one.commands


@in_every_history
def test_a_task_has_at_most_one_run_and_only_for_its_next_action(decisions: list[Decision]) -> None:
    for one in decisions:
        before, after = one.before.run, one.after.run
        if before and (after is None or after.folder != before.folder):
            assert isinstance(one.event, events.AgentExited | run_events.CheckFinished), "a run was dropped"
        if one.after.next_action in (NextAction.AGENT, NextAction.TURN, NextAction.CHECKS):
            assert after is not None


@in_every_history
def test_status_is_running_only_while_an_agent_exists(decisions: list[Decision]) -> None:
    for one in decisions:
        run, running = one.after.run, one.after.agent.status is AgentStatus.RUNNING
        of_agent = run is not None and run.folder == f"agents/{one.after.agent.attempt}"
        at_it = one.after.status is TaskStatus.IN_PROGRESS and not one.after.is_paused
        assert running == (of_agent and at_it)


@in_every_history
def test_nothing_starts_while_a_task_is_paused_or_has_ended(decisions: list[Decision]) -> None:
    still = (do.FollowRun, do.FreezeRun, do.StopRun, do.WakeAt, do.TellPerson, do.LookAtPullRequest)
    for one in decisions:
        if one.after.is_paused or one.after.status is not TaskStatus.IN_PROGRESS:
            assert all(isinstance(command, still) for command in obligations(REVIEWED, one.after))


@in_every_history
def test_a_request_is_answered_once_and_its_answer_is_kept(decisions: list[Decision]) -> None:
    for one in decisions:
        before, after = one.before.requests, one.after.requests
        assert [ask.number for ask in after] == list(range(1, len(after) + 1))
        for old, new in zip(before, after, strict=False):
            assert old.digest == new.digest
            assert old.is_pending or replace(old, is_delivered=new.is_delivered) == new
            assert old.is_delivered <= new.is_delivered


@in_every_history
def test_something_can_always_resume_a_paused_task(decisions: list[Decision]) -> None:
    """An alarm, an answer, a slot, a user, or the end of what the whole machine or account is short of."""
    for one in decisions:
        task = one.after
        if not task.is_active or not task.is_paused:
            continue
        snapshot = SchedulerSnapshot(
            tasks=LiveTasks((task,)), ended={}, capacity=Capacity(), now=task.updated_at + timedelta(days=1)
        )
        match task.agent.blocked_by:
            case None:
                assert task.wants_slot
            case PauseReason.QUESTION | PauseReason.DEPENDENCY | PauseReason.REVIEW:
                assert task.pending_requests or "review" in allowed(task)
            case PauseReason.SERVICE:
                assert task.retry_at in alarms(task) or list(tasks_to_resume(snapshot))
            case PauseReason.RATE_LIMIT:
                by_itself = task.retry_at in alarms(task) or list(tasks_to_resume(snapshot))
                assert by_itself or not task.policy.auto_resume
            case PauseReason.BUDGET:
                assert list(tasks_to_resume(snapshot)) or "orchestrator budget" in explain(task, snapshot).next
            case PauseReason.USER | PauseReason.PRESSURE:
                assert "resume" in allowed(task)


@in_every_history
def test_spending_never_decreases(decisions: list[Decision]) -> None:
    for one in decisions:
        before, after = one.before.spending.total, one.after.spending.total
        assert after.usd >= before.usd
        assert after.tokens >= before.tokens
        assert after.turns - before.turns in (0, 1)
        assert after.seconds >= before.seconds


@in_every_history
def test_an_agent_that_is_being_ended_receives_no_messages(decisions: list[Decision]) -> None:
    for one in decisions:
        run = one.after.run
        if run is not None and run.process is ProcessState.PARKING:
            still = (do.FollowRun, do.StopRun, do.WakeAt, do.TellPerson)
            assert all(isinstance(command, still) for command in obligations(REVIEWED, one.after))


@in_every_history
def test_a_pull_request_is_changed_only_in_the_publishing_stage(decisions: list[Decision]) -> None:
    outward = (do.OpenPullRequest, do.LookAtPullRequest, do.MergePullRequest, do.PostReport, do.TagRelease)
    for one in decisions:
        if any(isinstance(command, outward) for command in obligations(REVIEWED, one.after)):
            assert REVIEWED.stage(one.after.stage).work.publishes


@in_every_history
def test_a_comment_is_handled_once_and_answered_only_if_it_was_handled(decisions: list[Decision]) -> None:
    for one in decisions:
        before, after = one.before.publication, one.after.publication
        assert after.seen[: len(before.seen)] == before.seen
        assert {reply.mark for reply in after.replies} <= set(after.seen)
        assert after.round - before.round in (0, 1)


@in_every_history
def test_an_active_task_has_a_next_action_or_waits_for_its_place(decisions: list[Decision]) -> None:
    for one in decisions:
        if one.after.status is TaskStatus.IN_PROGRESS and not one.after.is_paused:
            assert obligations(REVIEWED, one.after)
        waits = one.after.is_paused and one.after.agent.blocked_by is PauseReason.RATE_LIMIT
        assert (one.after.next_action is NextAction.RETRY) <= (one.after.retry_at is not None or waits)


@in_every_history
def test_no_folder_is_started_twice_unless_its_start_may_have_been_lost(decisions: list[Decision]) -> None:
    """A restart sends the command again, and so does the end of a pause that came before the run existed."""
    begun: set[str] = set()
    for one in decisions:
        again = isinstance(one.event, events.DaemonStarted | events.TaskAdmitted | run_events.RunThawed)
        for command in one.commands:
            if isinstance(command, do.StartAgent | do.RunCheck):
                assert one.after.run is not None
                folder = one.after.run.folder
                assert again or folder not in begun
                begun.add(folder)


@in_every_history
def test_desired_commands_depend_on_the_saved_state_alone(decisions: list[Decision]) -> None:
    for one in decisions[-20:]:
        restored = from_document(to_document(one.after))
        assert obligations(REVIEWED, restored) == obligations(REVIEWED, one.after)


@in_every_history
def test_a_restart_sends_exactly_the_desired_commands(decisions: list[Decision]) -> None:
    last = decisions[-1].after
    after, commands = machine.decide(REVIEWED, last, forgotten(last, last.updated_at))
    assert commands == obligations(REVIEWED, after) == obligations(REVIEWED, last)


@in_every_history
def test_the_state_of_a_task_can_always_be_explained(decisions: list[Decision]) -> None:
    for one in decisions:
        snapshot = SchedulerSnapshot(
            tasks=LiveTasks((one.after,)), ended={}, capacity=Capacity(), now=one.after.updated_at
        )
        why = explain(one.after, snapshot)
        assert why.next
        assert all(why.facts)


@in_every_history
def test_a_task_without_disturbances_always_finishes(decisions: list[Decision]) -> None:
    task = replace(decisions[-1].after, policy=TaskPolicy())
    for _ in range(250):
        if task.status.is_final or task.status is TaskStatus.BLOCKED:
            return
        task, _ = machine.decide(REVIEWED, task, kindly(task)(task, task.updated_at))
    raise AssertionError(f"it goes round: {task.stage} owes {task.next_action}, {task.run}, {task.agent}")


KINDLY = {
    Subject.QUESTION: (RequestStatus.ANSWERED, "left"),
    Subject.PERMISSION: (RequestStatus.ANSWERED, "allow"),
    Subject.PLAN: (RequestStatus.APPROVED, ""),
    Subject.DEPENDENCY: (RequestStatus.PROVIDED, ""),
    Subject.STAGE: (RequestStatus.APPROVED, ""),
    Subject.PUBLISH: (RequestStatus.APPROVED, ""),
    Subject.MERGE: (RequestStatus.APPROVED, ""),
    Subject.RELEASE: (RequestStatus.APPROVED, ""),
}


def kindly(task: Task) -> Happening:
    """The event that advances a task without obstacles."""
    run = task.run
    if task.is_paused and task.pending_requests and task.agent.blocked_by in (
        PauseReason.QUESTION, PauseReason.DEPENDENCY, PauseReason.REVIEW
    ):  # fmt: skip
        ask = task.pending_requests[0]
        status, text = KINDLY[ask.draft.subject]
        plain = "as you like" if ask.draft.subject is Subject.QUESTION and not ask.draft.options else text
        return answers(status, plain)
    if task.waits_for_merge and not task.pending_requests:
        return seen(PullStatus.MERGED, number=task.publication.number or 0)
    if task.is_paused and task.agent.blocked_by is not None:
        return resume(task.agent.blocked_by)
    if task.wants_slot:
        return admitted
    if run is not None and run.process is ProcessState.PARKING:
        return exited if run.is_of_agent else judged(None)
    if any(isinstance(command, do.ThawRun) for command in obligations(REVIEWED, task)):
        return thawed
    if task.next_action is NextAction.STOP and run is not None and not run.is_of_agent:
        return judged(None)
    return answer

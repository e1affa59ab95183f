"""What holds for every history of a task, likely or not."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.core import commands as do
from orchestrator.core import events, machine
from orchestrator.core.admission import Room, Scene, to_let_go
from orchestrator.core.asks import Answer, AskStatus, Subject
from orchestrator.core.budget import Caps
from orchestrator.core.document import from_document, to_document
from orchestrator.core.errors import AnswerRefused, InvalidTransition
from orchestrator.core.forge import PullStatus
from orchestrator.core.guards import Evidence
from orchestrator.core.model import AgentStatus, BlockedBy, Owed, Process, Task, TaskStatus, Verdict
from orchestrator.core.obligations import alarms, obligations
from orchestrator.core.pipeline import Work
from orchestrator.core.publication import Publication
from orchestrator.core.stream.said import Recovery, Trouble
from orchestrator.core.terms import Autonomy, OnBlocked, Terms
from orchestrator.core.transitions import AGENT_TRANSITIONS, TASK_TRANSITIONS, allowed
from orchestrator.core.why import explain
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
"""The bundled pipeline, with a person looking at some of its stages."""


def forgotten(task: Task, at: datetime) -> events.Event:
    """The daemon is back and the run is not alive."""
    return events.DaemonStarted(at=at, run_alive=False)


def of_an_old_attempt(happening: Happening) -> Happening:
    """What happens, but to the attempt before."""
    return lambda task, at: happening(replace(task, agent=replace(task.agent, attempt=task.agent.attempt - 1)), at)


def of_another_run(happening: Happening) -> Happening:
    """What happens, but to a run that is not there."""
    return lambda task, at: happening(replace(task, run=None), at)


def cannot(number: int) -> Happening:
    """One of the commands that are owed cannot be carried out."""

    def event(task: Task, at: datetime) -> events.Event:
        owed = obligations(REVIEWED, task) or (do.FreezeRun(folder="agents/0"),)
        return events.CommandFailed(at=at, command=owed[number % len(owed)], reason="it cannot be had")

    return event


def answers(status: AskStatus, text: str = "", number: int | None = None) -> Happening:
    """Somebody answers what is asked first, or what bears that number."""

    def event(task: Task, at: datetime) -> events.Event:
        first = next((ask.number for ask in task.pending_asks), 1)
        return events.AskAnswered(at=at, number=number or first, status=status, answer=text, by="ada")

    return event


def quietly(task: Task, at: datetime) -> events.Event:
    """What comes next where nothing goes wrong and whatever is done here is approved; a proposed change waits."""
    if task.waits_for_merge:
        return alarm(task, at)
    if task.pending_asks:
        return answers(AskStatus.APPROVED)(task, at)
    return admitted(task, at) if task.wants_slot else answer(task, at)


def trouble(recovery: Recovery, fatal: bool = False) -> Happening:
    """The agent reports trouble."""
    return asking(trouble=Trouble(fatal=fatal, recovery=recovery, message="no network", details=""))


ASKED: st.SearchStrategy[Happening] = st.sampled_from(
    [
        *(asking(question()), asking(question(required=False)), asking(question(), question("And then?"))),
        *(asking(question(request_id="r1")), asking(permission()), asking(permission("r2", "command: ls"))),
        *(asking(dependency()), asking(dependency(required=False)), withdrawn(), answer_sent(), answer_sent("r2")),
        *(trouble(one) for one in (Recovery.PAUSE_AND_RETRY, Recovery.NOTIFY_USER)),
        asking(permission("r3"), answers=(Answer(status=AskStatus.ANSWERED, text="allow"),)),
    ]
)
ANSWERS: st.SearchStrategy[Happening] = st.sampled_from(
    [
        *(answers(AskStatus.ANSWERED, "left"), answers(AskStatus.ANSWERED, "allow"), answers(AskStatus.SKIPPED)),
        *(answers(AskStatus.PROVIDED), answers(AskStatus.REJECTED, "no"), answers(AskStatus.APPROVED)),
        *(answers(AskStatus.CHANGES_REQUESTED, "smaller"), answers(AskStatus.ANSWERED, "right", number=1), told),
    ]
)
GOES_WELL: st.SearchStrategy[Happening] = st.just(answer)
OUTSIDE: st.SearchStrategy[Happening] = st.sampled_from(
    [
        *(proposed, merged, refused("a check failed"), prepared, released, posted(), posted("no ticket"), round_asked),
        *(seen(), seen(asked=True), seen(hindrances=("a check failed",)), seen(PullStatus.CLOSED), seen(number=6)),
        *(seen(PullStatus.MERGED), seen(comments=("one",)), seen(comments=("two", "three"), asked=True)),
    ]
)
REQUESTS: st.SearchStrategy[Happening] = st.sampled_from(
    [
        *(pause(), resume(), cancel, pause(BlockedBy.PRESSURE), resume(BlockedBy.PRESSURE), pause(park=True)),
        *(pause(BlockedBy.SERVICE), resume(BlockedBy.SERVICE)),
        *(pause(BlockedBy.RATE_LIMIT), resume(BlockedBy.RATE_LIMIT), pause(BlockedBy.BUDGET), resume(BlockedBy.BUDGET)),
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
"""A change that was proposed, and the beginning of a round over what its reviewers say."""
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
        Terms(),
        Terms(autonomy=Autonomy.INTERACTIVE),
        Terms(autonomy=Autonomy.INTERACTIVE, question_timeout=30.0, park_after=10.0, auto_resume=False),
        Terms(autonomy=Autonomy.INTERACTIVE, caps=Caps(turns=4), usd_after_limit=0.3, reminders=()),
        Terms(look_every=60.0, follow_reviews=True, auto_merge=True, on_blocked=OnBlocked.ESCALATE),
        Terms(look_every=60.0),
    ]
)
"""A while without trouble, so that every stage is reached, and then anything."""


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
    events.DraftSubmitted,
    events.AskAnswered,
    events.RoundRequested,
    events.ArchiveRequested,
)


def lived(terms: Terms, history: list[tuple[Happening, int]]) -> list[Decision]:
    """The decisions of a history; what is refused changes nothing and is left out."""
    begun = replace(a_task(), terms=terms, publication=Publication(forge="https://forge.example/a/b.git"))
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
    """A test that holds a law against many histories."""

    @settings(max_examples=100, deadline=None)
    @given(TERMS, HISTORIES)
    def test(terms: Terms, history: list[tuple[Happening, int]]) -> None:
        law(lived(terms, history))

    return test


@in_every_history
def test_what_has_ended_stays_ended(decisions: list[Decision]) -> None:
    for one in decisions:
        if one.before.status.final:
            archived = isinstance(one.event, events.ArchiveRequested) and one.after.status is TaskStatus.ARCHIVED
            assert archived or one.after.status is one.before.status
            assert all(isinstance(command, do.FollowRun | do.StopRun | do.TellPerson) for command in one.commands)


@in_every_history
def test_every_change_of_status_is_in_the_tables(decisions: list[Decision]) -> None:
    for one in decisions:
        assert one.after.status in TASK_TRANSITIONS[one.before.status] | {one.before.status}
        assert one.after.agent.status in AGENT_TRANSITIONS[one.before.agent.status] | {one.before.agent.status}


@in_every_history
def test_numbers_never_fall(decisions: list[Decision]) -> None:
    for one in decisions:
        before, after = one.before, one.after
        assert after.agent.attempt - before.agent.attempt in (0, 1)
        assert after.failures.total >= before.failures.total
        assert all(after.stages[name].visits >= record.visits for name, record in before.stages.items())
        same_attempt = after.agent.attempt == before.agent.attempt
        assert not same_attempt or after.agent.read_offset >= before.agent.read_offset
        assert not same_attempt or after.agent.turn >= before.agent.turn


@in_every_history
def test_each_decision_has_the_next_number_and_no_decision_has_none(decisions: list[Decision]) -> None:
    for one in decisions[1:]:
        assert one.after is one.before or one.after.seq == one.before.seq + 1
        assert one.after is not one.before or not one.commands


@in_every_history
def test_a_task_has_one_run_at_most_and_only_for_what_it_is_at(decisions: list[Decision]) -> None:
    for one in decisions:
        before, after = one.before.run, one.after.run
        if before and (after is None or after.folder != before.folder):
            assert isinstance(one.event, events.AgentExited | events.CheckFinished), "a run was dropped"
        if one.after.owed in (Owed.AGENT, Owed.TURN, Owed.CHECKS):
            assert after is not None


@in_every_history
def test_status_says_running_only_while_an_agent_is_there(decisions: list[Decision]) -> None:
    for one in decisions:
        run, running = one.after.run, one.after.agent.status is AgentStatus.RUNNING
        of_agent = run is not None and run.folder == f"agents/{one.after.agent.attempt}"
        at_it = one.after.status is TaskStatus.IN_PROGRESS and not one.after.paused
        assert running == (of_agent and at_it)


@in_every_history
def test_nothing_is_begun_while_a_task_is_paused_or_over(decisions: list[Decision]) -> None:
    still = (do.FollowRun, do.FreezeRun, do.StopRun, do.WakeAt, do.TellPerson, do.LookAtPullRequest)
    for one in decisions:
        if one.after.paused or one.after.status is not TaskStatus.IN_PROGRESS:
            assert all(isinstance(command, still) for command in obligations(REVIEWED, one.after))


@in_every_history
def test_an_answer_is_given_once_and_stays(decisions: list[Decision]) -> None:
    for one in decisions:
        before, after = one.before.asks, one.after.asks
        assert [ask.number for ask in after] == list(range(1, len(after) + 1))
        for old, new in zip(before, after, strict=False):
            assert old.digest == new.digest
            assert old.pending or replace(old, told=new.told) == new
            assert old.told <= new.told


@in_every_history
def test_whatever_stands_still_is_moved_by_something(decisions: list[Decision]) -> None:
    """By an alarm, an answer, a place, a person, or by the end of what the whole machine or account is short of."""
    for one in decisions:
        task = one.after
        if not task.at_work or not task.paused:
            continue
        scene = Scene(tasks=(task,), ended={}, room=Room(), now=task.updated_at + timedelta(days=1))
        match task.agent.blocked_by:
            case None:
                assert task.wants_slot
            case BlockedBy.QUESTION | BlockedBy.DEPENDENCY | BlockedBy.REVIEW:
                assert task.pending_asks or "review" in allowed(task)
            case BlockedBy.SERVICE:
                assert task.retry_at in alarms(task) or list(to_let_go(scene))
            case BlockedBy.RATE_LIMIT:
                by_itself = task.retry_at in alarms(task) or list(to_let_go(scene))
                assert by_itself or not task.terms.auto_resume
            case BlockedBy.BUDGET:
                assert list(to_let_go(scene)) or "orchestrator budget" in explain(task, scene).next
            case BlockedBy.USER | BlockedBy.PRESSURE:
                assert "resume" in allowed(task)


@in_every_history
def test_spending_never_falls(decisions: list[Decision]) -> None:
    for one in decisions:
        before, after = one.before.total_spent, one.after.total_spent
        assert after.usd >= before.usd
        assert after.tokens >= before.tokens
        assert after.turns - before.turns in (0, 1)
        assert after.seconds >= before.seconds


@in_every_history
def test_an_agent_that_is_being_ended_is_told_nothing(decisions: list[Decision]) -> None:
    for one in decisions:
        run = one.after.run
        if run is not None and run.process is Process.PARKING:
            still = (do.FollowRun, do.StopRun, do.WakeAt, do.TellPerson)
            assert all(isinstance(command, still) for command in obligations(REVIEWED, one.after))


@in_every_history
def test_a_pull_request_is_touched_only_in_the_stage_that_publishes(decisions: list[Decision]) -> None:
    outward = (do.OpenPullRequest, do.LookAtPullRequest, do.MergePullRequest, do.PostReport, do.TagRelease)
    for one in decisions:
        if any(isinstance(command, outward) for command in obligations(REVIEWED, one.after)):
            assert REVIEWED.stage(one.after.stage).work is Work.DELIVER


@in_every_history
def test_a_comment_is_taken_up_once_and_answered_only_if_it_was_taken_up(decisions: list[Decision]) -> None:
    for one in decisions:
        before, after = one.before.publication, one.after.publication
        assert after.seen[: len(before.seen)] == before.seen
        assert {reply.mark for reply in after.replies} <= set(after.seen)
        assert after.round - before.round in (0, 1)


@in_every_history
def test_a_task_at_work_owes_something_or_waits_for_its_place(decisions: list[Decision]) -> None:
    for one in decisions:
        if one.after.status is TaskStatus.IN_PROGRESS and not one.after.paused:
            assert obligations(REVIEWED, one.after)
        waits = one.after.paused and one.after.agent.blocked_by is BlockedBy.RATE_LIMIT
        assert (one.after.owed is Owed.RETRY) <= (one.after.retry_at is not None or waits)


@in_every_history
def test_no_folder_is_begun_twice_unless_it_may_not_have_been_heard_of(decisions: list[Decision]) -> None:
    """A restart asks again, and so does the end of a pause that came before the run was there."""
    begun: set[str] = set()
    for one in decisions:
        again = isinstance(one.event, events.DaemonStarted | events.TaskAdmitted | events.RunThawed)
        for command in one.commands:
            if isinstance(command, do.StartAgent | do.RunCheck):
                assert one.after.run is not None
                folder = one.after.run.folder
                assert again or folder not in begun
                begun.add(folder)


@in_every_history
def test_what_is_owed_follows_from_the_saved_state_alone(decisions: list[Decision]) -> None:
    for one in decisions[-20:]:
        restored = from_document(to_document(one.after))
        assert obligations(REVIEWED, restored) == obligations(REVIEWED, one.after)


@in_every_history
def test_a_restart_asks_for_exactly_what_is_owed(decisions: list[Decision]) -> None:
    last = decisions[-1].after
    after, commands = machine.decide(REVIEWED, last, forgotten(last, last.updated_at))
    assert commands == obligations(REVIEWED, after) == obligations(REVIEWED, last)


@in_every_history
def test_it_can_always_be_said_why_a_task_is_where_it_is(decisions: list[Decision]) -> None:
    for one in decisions:
        scene = Scene(tasks=(one.after,), ended={}, room=Room(), now=one.after.updated_at)
        why = explain(one.after, scene)
        assert why.next
        assert all(why.facts)


@in_every_history
def test_a_task_that_is_left_in_peace_comes_to_an_end(decisions: list[Decision]) -> None:
    task = replace(decisions[-1].after, terms=Terms())
    for _ in range(250):
        if task.status.final or task.status is TaskStatus.BLOCKED:
            return
        task, _ = machine.decide(REVIEWED, task, kindly(task)(task, task.updated_at))
    raise AssertionError(f"it goes round: {task.stage} owes {task.owed}, {task.run}, {task.agent}")


KINDLY = {
    Subject.QUESTION: (AskStatus.ANSWERED, "left"),
    Subject.PERMISSION: (AskStatus.ANSWERED, "allow"),
    Subject.PLAN: (AskStatus.APPROVED, ""),
    Subject.DEPENDENCY: (AskStatus.PROVIDED, ""),
    Subject.STAGE: (AskStatus.APPROVED, ""),
    Subject.MERGE: (AskStatus.APPROVED, ""),
    Subject.RELEASE: (AskStatus.APPROVED, ""),
}


def kindly(task: Task) -> Happening:
    """What moves a task that nobody hinders."""
    run = task.run
    if task.paused and task.pending_asks and task.agent.blocked_by in (
        BlockedBy.QUESTION, BlockedBy.DEPENDENCY, BlockedBy.REVIEW
    ):  # fmt: skip
        ask = task.pending_asks[0]
        status, text = KINDLY[ask.asking.subject]
        plain = "as you like" if ask.asking.subject is Subject.QUESTION and not ask.asking.options else text
        return answers(status, plain)
    if task.waits_for_merge and not task.pending_asks:
        return seen(PullStatus.MERGED, number=task.publication.number or 0)
    if task.paused and task.agent.blocked_by is not None:
        return resume(task.agent.blocked_by)
    if task.wants_slot:
        return admitted
    if run is not None and run.process is Process.PARKING:
        return exited if run.of_agent else judged(None)
    if any(isinstance(command, do.ThawRun) for command in obligations(REVIEWED, task)):
        return thawed
    if task.owed is Owed.STOP and run is not None and not run.of_agent:
        return judged(None)
    return answer

"""Tests write a conversation with the state machine as one expression: `>>` is an event, `<<` a command it causes.

    Playbook(at("ANALYSIS")) >> finished() << "look at ANALYSIS" >> looked() << "stop agents/1"

Every command has to be named, in order; any other command is unexpected. When the two differ, both conversations are
printed side by side. Time advances only by `>> later(seconds)`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import zip_longest
from typing import Self, assert_never

from orchestrator.core.decide import machine
from orchestrator.core.decide.pausing import ALLOW, DENY
from orchestrator.core.events import commands as do
from orchestrator.core.events import events, publish_events, run_events
from orchestrator.core.events.agent_events import ErrorClass
from orchestrator.core.events.agent_messages import AgentError, DependencyType
from orchestrator.core.events.child_events import ChildEnded, ChildrenSubmitted
from orchestrator.core.events.forge import PullStatus
from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.budget import NOTHING_SPENT, Caps, Spending
from orchestrator.core.task.checkpoint import Reason
from orchestrator.core.task.checks import CheckResult, Verdict
from orchestrator.core.task.children import ChildStatus
from orchestrator.core.task.failures import Analysis
from orchestrator.core.task.guards import Evidence, FileFacts
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import NextAction, Priority, Task
from orchestrator.core.task.task_policy import DEFAULT_POLICY, Autonomy
from orchestrator.core.task.user_requests import Answer, RequestDraft, RequestStatus, Subject
from tests.fakes.tasks import TWO_CHECKS, full_pipeline, submitted
from tests.fakes.world import START

Happening = Callable[[Task, datetime], events.Event]

EXPLAINED = Analysis(root_cause_hypothesis="an index too far", confidence="high", suggested_fix="stop one earlier")

LEFT_BEHIND = {
    "TICKET_INTAKE": Evidence(files={"ticket.json": FileFacts(chars=80)}),
    "ANALYSIS": Evidence(
        files={
            "analysis.md": FileFacts(chars=900),
            "related-code.json": FileFacts(chars=90, json_filled=("impacts",)),
        },
        fresh=("analysis.md", "related-code.json"),
    ),
    "PLANNING": Evidence(
        files={"plan.md": FileFacts(chars=900, headings=("# Plan", "## Step 1: Do it", "## Step 2: Test it"))},
        fresh=("plan.md",),
    ),
    "DESIGN": Evidence(files={"design-v1.md": FileFacts(chars=900)}, fresh=("design-v1.md",)),
    "EVALUATION": Evidence(fresh=("failure-analysis.json",), analysis=EXPLAINED),
}
"""What a successful agent leaves in each stage; the evidence of a step is `committed`."""


LEFT_ELSEWHERE = {
    ("release", "ANALYSIS"): Evidence(
        files={"release-summary.md": FileFacts(chars=900, headings=("## Included Changes",))},
        fresh=("release-summary.md",),
    ),
    ("review_only", "PLANNING"): Evidence(
        files={"review-report.md": FileFacts(chars=900, headings=("## Findings",))}, fresh=("review-report.md",)
    ),
}
"""What a successful agent leaves in stages of other pipelines that share a name with one of the full pipeline."""


def full() -> Pipeline:
    """Return the bundled pipeline."""
    return full_pipeline()


def a_task() -> Task:
    """Return a task as it is submitted, with two checks."""
    return submitted(checks=TWO_CHECKS)


class Playbook:
    """One task and its conversation; `task` is its current state."""

    def __init__(self, task: Task, pipeline: Pipeline | None = None) -> None:
        self.pipeline = pipeline or full()
        self._task, self.now = task, task.updated_at
        self._expected: list[str] = []
        self._actual: list[str] = []

    @classmethod
    def submitted(cls, task: Task, pipeline: Pipeline | None = None) -> Self:
        """Return a conversation from its start."""
        begun, commands = machine.begin(pipeline or full(), events.TaskSubmitted(at=START, task=task))
        play = cls(begun, pipeline)
        play._actual = [f"  << {said(command, START)}" for command in commands]
        return play

    @property
    def task(self) -> Task:
        """The current task, once all events and commands so far were expected."""
        self._settle()
        return self._task

    def __rshift__(self, happening: Happening | timedelta) -> Self:
        self._settle()
        if isinstance(happening, timedelta):
            self.now += happening
            return self
        event = happening(self._task, self.now)
        self._task, commands = machine.decide(self.pipeline, self._task, event)
        line = f">> {type(event).__name__}"
        self._expected.append(line)
        self._actual += [line, *(f"  << {said(command, self.now)}" for command in commands)]
        return self

    def __lshift__(self, command: str) -> Self:
        self._expected.append(f"  << {command}")
        return self

    def __bool__(self) -> bool:
        self._settle()
        return True

    def _settle(self) -> None:
        if self._expected != self._actual:
            width = max(len(line) for line in [*self._expected, "expected"]) + 2
            rows = zip_longest(["expected", *self._expected], ["said", *self._actual], fillvalue="")
            raise AssertionError("\n".join(("", *(f"{ours:{width}}{theirs}" for ours, theirs in rows))))


def said(command: do.Command, now: datetime) -> str:  # noqa: C901, PLR0912 - one case for each command
    """Return the short name of a command in playbooks."""
    match command:
        case do.PrepareWorkspace():
            return "prepare the workspace"
        case do.StartAgent():
            return f"{'resume' if command.resume else 'start'} {command.role} {command.attempt}"
        case do.FollowRun():
            return f"follow {command.folder}"
        case do.SendTurn():
            return f"turn {command.turn} of {command.attempt}"
        case do.SendAnswer():
            return f"answer {command.request_id} of {command.attempt}"
        case do.InterruptTurn():
            return f"end turn {command.turn} of {command.attempt}"
        case do.TellPerson():
            return f"tell {command.notice.kind}"
        case do.StopRun():
            return f"{'interrupt' if command.interrupt else 'stop'} {command.folder}"
        case do.FreezeRun():
            return f"freeze {command.folder}"
        case do.ThawRun():
            return f"thaw {command.folder}"
        case do.LookAtGate():
            return f"look at {command.stage}"
        case do.RunCheck():
            return f"check {command.check.name} in {command.folder}"
        case do.DeliverBranch():
            return f"deliver {command.commit[:2]}"
        case do.OpenPullRequest():
            return f"propose {command.commit[:2]}"
        case do.LookAtPullRequest():
            return f"look at pull request {command.number}"
        case do.MergePullRequest():
            return f"merge {command.number}"
        case do.PrepareRelease():
            return "prepare the release"
        case do.TagRelease():
            return f"tag {command.version}"
        case do.PostReport():
            return f"post the report of {command.stage}"
        case do.JoinParent():
            return f"join {command.commit[:2]} to {command.parent}"
        case do.SubmitChildren():
            return f"submit {' '.join(child.task for child in command.children)}"
        case do.FollowChildren():
            return f"await {' '.join(command.tasks)}"
        case do.CancelChildren():
            return f"cancel {' '.join(command.tasks)}"
        case do.WakeAt():
            return f"wake in {(command.at - now).total_seconds():.0f} s"
        case _:
            assert_never(command)


def later(seconds: float) -> timedelta:
    """Let time pass."""
    return timedelta(seconds=seconds)


def daemon_started(task: Task, at: datetime) -> events.Event:
    """The daemon was restarted, and the run, if there is one, is alive."""
    return events.DaemonStarted(at=at, run_alive=task.run is not None)


def admitted(task: Task, at: datetime) -> events.Event:
    """There is a free place."""
    return events.TaskAdmitted(at=at)


def ready(task: Task, at: datetime) -> events.Event:
    """The worktree is ready at the base commit."""
    return events.WorkspaceReady(at=at, worktree="/w", branch=task.source.branch, head=task.source.base_commit)


def started(task: Task, at: datetime) -> events.Event:
    """The desired run has started."""
    return run_events.RunStarted(at=at, folder=task.run.folder if task.run else "agents/0", pid=4711)


def session(task: Task, at: datetime) -> events.Event:
    """The CLI reports its session."""
    return events.SessionStarted(at=at, attempt=task.agent.attempt, session_id=task.agent.session.id or "s")


def finished(
    reason: str = "", tool_uses: int = 3, error_class: str | None = None, malformed: tuple[str, ...] = ()
) -> Happening:
    """The agent's turn ended with a result, a failure if there is a reason."""
    return lambda task, at: events.TurnFinished(
        at=at,
        attempt=task.agent.attempt,
        outcome=events.TurnOutcome.FAILED if reason else events.TurnOutcome.OK,
        reason=reason,
        error_class=error_class,
        offset=task.agent.read_offset + 100,
        tool_uses=tool_uses,
        tokens=1000,
        cost_usd=0.25,
        malformed=malformed,
    )


def interrupted(task: Task, at: datetime) -> events.Event:
    """The agent ended its turn because it was interrupted."""
    return events.TurnFinished(
        at=at,
        attempt=task.agent.attempt,
        outcome=events.TurnOutcome.INTERRUPTED,
        offset=task.agent.read_offset + 100,
    )


def asking(
    *things: RequestDraft, trouble: AgentError | None = None, answers: tuple[Answer | None, ...] = ()
) -> Happening:
    """The agent sent these requests in one line of its output, or reported an error."""
    return lambda task, at: events.AgentSaid(
        at=at,
        attempt=task.agent.attempt,
        offset=task.agent.read_offset + 10,
        asking=things,
        trouble=trouble,
        answers=answers,
    )


def question(
    text: str = "Which one?",
    options: tuple[str, ...] = ("left", "right"),
    required: bool = True,
    default: str | None = None,
    request_id: str | None = None,
) -> RequestDraft:
    """Return a question as an agent asks it, in its text or by a request."""
    return RequestDraft(
        subject=Subject.QUESTION, text=text, options=options, required=required, default=default, request_id=request_id
    )


def permission(request_id: str = "r1", text: str = "command: rm -r build") -> RequestDraft:
    """Return a request for a tool in the CLI's own protocol."""
    return RequestDraft(
        subject=Subject.PERMISSION, text=text, name="Bash", options=(ALLOW, DENY), request_id=request_id, start=7
    )


def dependency(name: str = "API_KEY", required: bool = True, default: str | None = None) -> RequestDraft:
    """Return a dependency that only a user can provide."""
    return RequestDraft(
        subject=Subject.DEPENDENCY,
        text="the service wants a key",
        name=name,
        type=DependencyType.API_KEY,
        required=required,
        default=default,
    )


def answered(
    number: int, status: RequestStatus, answer: str = "", digest: str | None = None, by: str = "ada"
) -> Happening:
    """A user answered the request with this number."""
    return lambda _, at: events.AskAnswered(at=at, number=number, status=status, answer=answer, digest=digest, by=by)


def answer_sent(request_id: str = "r1") -> Happening:
    """The agent's process received the answer to its request."""
    return lambda task, at: events.AnswerSent(at=at, attempt=task.agent.attempt, request_id=request_id)


def withdrawn(request_id: str = "r1") -> Happening:
    """The agent's process withdrew its request."""
    return lambda task, at: events.RequestWithdrawn(at=at, attempt=task.agent.attempt, request_id=request_id)


def stalled(task: Task, at: datetime) -> events.Event:
    """The current turn had no output and no activity."""
    return events.StallSeen(
        at=at, attempt=task.agent.attempt, turn=task.agent.turn.number, evidence="no output for 900 s"
    )


def retry(task: Task, at: datetime) -> events.Event:
    """A user retries the blocked task."""
    return events.RetryRequested(at=at, by="ada")


def sent_off(task: Task, at: datetime) -> events.Event:
    """A user submits the draft."""
    return events.DraftSubmitted(at=at, by="ada")


def caps(limits: Caps) -> Happening:
    """A user changes the caps of the task."""
    return lambda _, at: events.CapsChanged(at=at, caps=limits, by="ada")


def urgent(task: Task, at: datetime) -> events.Event:
    """A user raises the priority of the task."""
    return events.PriorityChanged(at=at, priority=Priority.CRITICAL, by="ada")


def told(task: Task, at: datetime) -> events.Event:
    """A user was notified of the first pending notice."""
    return events.PersonTold(at=at, key=task.notices[0].key if task.notices else "nothing")


def limit_hit(resets_in: float | None = None, window: str | None = None) -> Happening:
    """The agent's turn ended at a usage limit, whose name and reset were reported or not."""
    return lambda task, at: events.TurnFinished(
        at=at,
        attempt=task.agent.attempt,
        outcome=events.TurnOutcome.FAILED,
        reason="You've hit your 5-hour limit",
        error_class=ErrorClass.USAGE_LIMIT,
        offset=task.agent.read_offset + 100,
        resets_at=None if resets_in is None else at + timedelta(seconds=resets_in),
        window=window,
    )


def exited(task: Task, at: datetime) -> events.Event:
    """The agent's process has exited."""
    return events.AgentExited(at=at, attempt=task.agent.attempt, reason="it was killed", signal=9)


def lost(task: Task, at: datetime) -> events.Event:
    """The agent was lost with its holder, or with the machine."""
    return events.AgentExited(at=at, attempt=task.agent.attempt, reason="its holder was killed", is_lost=True)


def looked(evidence: Evidence | None = None) -> Happening:
    """The daemon inspected the current stage; by default it finds the work of a successful agent."""
    return lambda task, at: events.GateLooked(
        at=at,
        stage=task.stage,
        visit=task.stages[task.stage].visits,
        turn=task.agent.turn.number,
        evidence=evidence or _left_behind(task),
    )


def _left_behind(task: Task) -> Evidence:
    elsewhere = LEFT_ELSEWHERE.get((task.pipeline, task.stage))
    return elsewhere or LEFT_BEHIND.get(task.stage) or committed(f"c{task.agent.turn.number}")


def committed(*commits: str, dirty: Sequence[str] = ()) -> Evidence:
    """Return the evidence of a step's turn on the branch."""
    return Evidence(head=commits[-1] if commits else None, commits=commits, dirty=tuple(dirty))


def judged(verdict: Verdict | None = Verdict.PASS, reason: str = "exit code") -> Happening:
    """The running check ended; without a verdict it was lost."""

    def event(task: Task, at: datetime) -> events.Event:
        result = (
            CheckResult(verdict=verdict, reason=reason, exit_code=int(verdict is Verdict.FAIL)) if verdict else None
        )
        check = task.evaluation.next_check
        folder = task.run.folder if task.run and task.run.folder.startswith("logs/") else "logs/0-none"
        return run_events.CheckFinished(at=at, folder=folder, name=check.name if check else "none", result=result)

    return event


def delivered(task: Task, at: datetime) -> events.Event:
    """The branch is in the user's repository."""
    return events.BranchDelivered(at=at, branch=task.source.branch, commit=task.source.commit)


def proposed(task: Task, at: datetime) -> events.Event:
    """The pull request is open and up to date."""
    head = task.source.commit
    return publish_events.PullRequestOpened(at=at, number=7, url="https://forge.example/pull/7", commit=head)


def seen(
    status: PullStatus = PullStatus.OPEN,
    *,
    comments: tuple[str, ...] = (),
    hindrances: tuple[str, ...] = (),
    asked: bool = False,
    number: int = 7,
) -> Happening:
    """The daemon polled the pull request with this result; comments are named by their marks."""
    return lambda task, at: publish_events.PullRequestSeen(
        at=at,
        number=number,
        status=status,
        hindrances=hindrances or (("a thread is not resolved",) if comments else ()),
        reviewers=("grace",),
        feedback=f"review-feedback-{task.publication.round + 1}" if comments else None,
        marks=comments,
        comments=tuple((f"id of {mark}", mark) for mark in comments),
        merge_commit="m" * 40 if status is PullStatus.MERGED else None,
        asked=asked,
    )


def to_be_seen_in(seconds: float, *hindrances: str) -> Happening:
    """The forge set the time of the next poll."""
    return lambda _, at: publish_events.PullRequestSeen(
        at=at, number=7, status=PullStatus.OPEN, hindrances=hindrances, look_after=seconds
    )


def merged(task: Task, at: datetime) -> events.Event:
    """The pull request is merged."""
    return publish_events.PullRequestMerged(at=at, commit="m" * 40)


def refused(*hindrances: str) -> Happening:
    """The pull request may not be merged yet."""
    return lambda _, at: publish_events.MergeRefused(at=at, hindrances=hindrances)


def held(content: str = "masked") -> Happening:
    """Nothing was published, because secrets are masked in the text."""
    return lambda task, at: publish_events.PublicationHeld(
        at=at, asking=RequestDraft(subject=Subject.PUBLISH, text="see it", name=task.stage, content=content)
    )


def prepared(task: Task, at: datetime) -> events.Event:
    """The changelog of the version is committed."""
    return publish_events.ReleasePrepared(at=at, version="1.2.3", commit="a1" * 20)


def released(task: Task, at: datetime) -> events.Event:
    """The tag is set and pushed."""
    return publish_events.Released(at=at, tag=f"v{task.publication.version}")


def posted(failure: str = "") -> Happening:
    """The report is posted to the ticket, unless that failed."""
    url = None if failure else "https://tickets.example/1"
    return lambda _, at: publish_events.ReportPosted(at=at, url=url, failure=failure)


def round_asked(task: Task, at: datetime) -> events.Event:
    """A user wants the comments on the pull request handled."""
    return events.RoundRequested(at=at, by="ada")


def archive(task: Task, at: datetime) -> events.Event:
    """A user archives the ended task."""
    return events.ArchiveRequested(at=at, by="ada")


def failed(command: do.Command, reason: str = "no") -> Happening:
    """A command failed."""
    return lambda _, at: events.CommandFailed(at=at, command=command, reason=reason)


def frozen(task: Task, at: datetime) -> events.Event:
    """The current run is frozen."""
    return run_events.RunFrozen(at=at, folder=task.run.folder if task.run else "agents/0")


def freeze_failed(task: Task, at: datetime) -> events.Event:
    """The current run could not be frozen."""
    return run_events.FreezeFailed(at=at, folder=task.run.folder if task.run else "agents/0", survivors=(9,))


def thawed(task: Task, at: datetime) -> events.Event:
    """The current run was thawed."""
    return run_events.RunThawed(at=at, folder=task.run.folder if task.run else "agents/0")


def alarm(task: Task, at: datetime) -> events.Event:
    """An alarm rang, possibly early."""
    return events.AlarmRang(at=at)


def checkpoint_of(reason: Reason, *uncommitted: str) -> Happening:
    """A checkpoint was saved for a reason."""
    return lambda task, at: events.CheckpointSaved(at=at, number=task.seq, reason=reason, uncommitted=uncommitted)


def checkpoint(task: Task, at: datetime) -> events.Event:
    """A checkpoint was saved."""
    return events.CheckpointSaved(at=at, number=task.seq)


def pause(blocked_by: PauseReason = PauseReason.USER, park: bool = False, turn: int | None = None) -> Happening:
    """A request to pause the task."""
    return lambda _, at: events.PauseRequested(at=at, blocked_by=blocked_by, park=park, turn=turn)


def resume(blocked_by: PauseReason = PauseReason.USER) -> Happening:
    """The reason for the pause is over."""
    return lambda _, at: events.ResumeRequested(at=at, blocked_by=blocked_by)


def cancel(task: Task, at: datetime) -> events.Event:
    """A user cancels the task."""
    return events.CancelRequested(at=at)


def planned(task: Task) -> tuple[str, ...]:
    """Return the ids of the children that are no tasks yet."""
    return tuple(child.task for child in task.children if child.status is ChildStatus.PLANNED)


def live(task: Task) -> tuple[str, ...]:
    """Return the ids of the children that are tasks and have not ended."""
    return tuple(child.task for child in task.children if child.status.is_live)


def children_submitted(task: Task, at: datetime) -> events.Event:
    """Every planned child is a task now."""
    return ChildrenSubmitted(at=at, tasks=planned(task))


def child_ended(child: str, failure: str = "", spent: Spending = NOTHING_SPENT) -> Happening:
    """A child was completed, or failed for a reason."""
    return lambda _, at: ChildEnded(at=at, task=child, completed=not failure, reason=failure, spent=spent)


PUBLISHED: Mapping[str, Happening] = {"release": prepared, "review_only": posted()}
"""How the work of the last stage is published, by pipeline."""


def answer(task: Task, at: datetime) -> events.Event:  # noqa: C901, PLR0912 - one case for each word
    """Return the next event in a world without errors."""
    match task.next_action:
        case NextAction.ADMISSION:
            return admitted(task, at)
        case NextAction.WORKSPACE:
            return ready(task, at)
        case NextAction.AGENT:
            return started(task, at)
        case NextAction.TURN if not task.agent.session.is_known:
            return session(task, at)
        case NextAction.TURN:
            return finished()(task, at)
        case NextAction.INTERRUPT:
            return finished()(task, at)
        case NextAction.GATE:
            return looked()(task, at)
        case NextAction.STOP:
            return exited(task, at)
        case NextAction.CHECKS:
            return judged()(task, at)
        case NextAction.RETRY:
            return events.AlarmRang(at=max(at, task.retry_at or at))
        case NextAction.DELIVERY:
            return delivered(task, at)
        case NextAction.PUBLISH:
            return PUBLISHED.get(task.pipeline, proposed)(task, at)
        case NextAction.MERGE:
            return merged(task, at)
        case NextAction.RELEASE:
            return released(task, at)
        case NextAction.NOTHING:
            return exited(task, at)
        case NextAction.CHILDREN:
            return children_submitted(task, at) if planned(task) else child_ended(live(task)[0])(task, at)
        case _:
            assert_never(task.next_action)


def at(stage: str, owed: NextAction | None = None, begun: Task | None = None, pipeline: Pipeline | None = None) -> Task:
    """Return a task that reached a stage without errors, as soon as this is its next action."""
    pipeline = pipeline or full()
    task, _ = machine.begin(pipeline, events.TaskSubmitted(at=START, task=begun or a_task()))
    for _ in range(100):
        if task.stage == stage and owed in (None, task.next_action) and task.next_action is not NextAction.ADMISSION:
            return task
        task, _ = machine.decide(pipeline, task, answer(task, task.updated_at))
    raise AssertionError(f"a task without trouble never owes {owed} in {stage}")


def at_work(stage: str = "ANALYSIS", **policy: object) -> Task:
    """A task whose agent was told what to do, said its session and works; its policy may be another."""
    begun = replace(a_task(), policy=replace(DEFAULT_POLICY, **policy))  # type: ignore[arg-type]  # any term
    task = at(stage, NextAction.TURN, begun)
    after, _ = machine.decide(full(), task, session(task, task.updated_at))
    return after


def interactive(stage: str = "ANALYSIS", **policy: object) -> Task:
    """Return an active interactive task."""
    return at_work(stage, autonomy=Autonomy.INTERACTIVE, **policy)


def evaluating(*verdicts: Verdict) -> Task:
    """Return a task whose two checks have these verdicts, as far as they are given."""
    task = at("EVALUATION", NextAction.CHECKS)
    for verdict in verdicts:
        task, _ = machine.decide(full(), task, judged(verdict)(task, task.updated_at))
    return task


def failing_again(task: Task) -> Playbook:
    """Continue the task to its next evaluation, which fails and is explained, without other errors."""
    while task.stage != "EVALUATION" or task.next_action is not NextAction.CHECKS:
        task, _ = machine.decide(full(), task, answer(task, task.updated_at))
    task, _ = machine.decide(full(), task, judged(Verdict.FAIL)(task, task.updated_at))
    task, _ = machine.decide(full(), task, judged(Verdict.PASS)(task, task.updated_at))
    while task.next_action is not NextAction.GATE:
        task, _ = machine.decide(full(), task, answer(task, task.updated_at))
    return Playbook(task)


def with_budget(task: Task, name: str, used: int) -> Task:
    """Return the task with this much of a budget used."""
    return replace(task, budgets={**task.budgets, name: replace(task.budgets[name], used=used)})

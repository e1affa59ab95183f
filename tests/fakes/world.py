"""A world in memory: everything that a daemon's commands act on, and that survives the daemon.

Agents, checks and git are small state machines that respond at once. Every effect is counted under its own name, so
that a test can check that nothing happened twice. Messages between daemon and
world are in a queue that a power cut empties.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import assert_never

from orchestrator.core.decide import machine
from orchestrator.core.events import child_events, events, publish_events, run_events
from orchestrator.core.events import commands as do
from orchestrator.core.events.agent_events import ErrorClass
from orchestrator.core.events.forge import PullStatus
from orchestrator.core.family.verdict import Verdict as Judged
from orchestrator.core.task.checks import CheckResult, Verdict
from orchestrator.core.task.failures import Analysis
from orchestrator.core.task.guards import Evidence, FileFacts
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.core.task.user_requests import RequestDraft, RequestStatus, Subject
from orchestrator.storage.state_document import from_document, to_document

MOST_DECISIONS = 1000
START = datetime(2026, 11, 21, 22, 0, 0, tzinfo=UTC)


class PowerCut(Exception):
    """The daemon dies here."""


Saying = Callable[[int, datetime], events.Event]
"""What a line of an agent's output becomes, given its end offset and the time it is read."""


@dataclass
class Tree:
    """A run as the world has it: its output, and the request whose answer it waits for.

    `given` are the names of the values that were provided when it was started.
    """

    said: list[Saying] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)
    given: tuple[str, ...] = ()
    alive: bool = True
    frozen: bool = False
    waiting: str | None = None


@dataclass
class World:
    """Runs, files and commits; `failing` evaluations fail before one passes.

    `asks` are the requests of its agents before they can do a stage's work, `walled` is the stage in which one of them
    reaches a usage limit, `refused` the one whose first verification fails. On its forge reviewers comment on this many
    rounds of a pull request, and then either approve it or, if `merges`, merge it themselves.
    """

    pipeline: Pipeline
    failing: int = 0
    asks: Mapping[str, RequestDraft] = field(default_factory=dict)
    walled: str | None = None
    refused: str | None = None
    rounds: int = 0
    merges: bool = False
    known: set[str] = field(default_factory=set)
    runs: dict[str, Tree] = field(default_factory=dict)
    effects: Counter[str] = field(default_factory=Counter)
    commits: list[str] = field(default_factory=list)
    works: set[str] = field(default_factory=set)
    delivered: str | None = None
    told: set[str] = field(default_factory=set)
    outside: list[str] = field(default_factory=list)

    def execute(  # noqa: C901, PLR0912 - one branch per command
        self, task: Task, command: do.Command, at: datetime
    ) -> list[events.Event]:
        """Cause a command's effect, unless it exists, and return the resulting events."""
        match command:
            case do.PrepareWorkspace():
                self._once("workspace")
                ready = events.WorkspaceReady(at=at, worktree="/w", branch=command.branch, head=task.source.base_commit)
                return [ready]
            case do.StartAgent():
                given = tuple(ask.draft.name for ask in task.requests if ask.status is RequestStatus.PROVIDED)
                return self._start(f"agents/{command.attempt}", at, given)
            case do.FollowRun():
                return self._heard(task, command.folder, at)
            case do.SendTurn():
                return self._turn(task, command, at)
            case do.SendAnswer():
                return self._answer(task, command, at)
            case do.InterruptTurn():
                return self._heard(task, f"agents/{command.attempt}", at)
            case do.TellPerson():
                self.told.add(command.notice.key)
                return [events.PersonTold(at=at, key=command.notice.key)]
            case do.StopRun():
                return self._stop(task, command.folder, at)
            case do.FreezeRun():
                self.runs[command.folder].frozen = True
                return [run_events.RunFrozen(at=at, folder=command.folder, stopped=(1,))]
            case do.ThawRun():
                self.runs[command.folder].frozen = False
                return [run_events.RunThawed(at=at, folder=command.folder)]
            case do.LookAtGate():
                return [self._seen(task, command, at)]
            case do.RunCheck():
                return self._check(command, at)
            case do.DeliverBranch():
                if self.delivered != command.commit:
                    self._once(f"delivery {command.commit}")
                self.delivered = command.commit
                return [events.BranchDelivered(at=at, branch=command.branch, commit=command.commit)]
            case do.OpenPullRequest():
                return [self._propose(command, at)]
            case do.LookAtPullRequest():
                return [self._reviewed(command, at)]
            case do.MergePullRequest():
                return [self._merge(command, at)]
            case do.PrepareRelease():
                self._leaves(f"changelog on {command.commit}")
                return [publish_events.ReleasePrepared(at=at, version="1.0.0", commit="r" * 40)]
            case do.TagRelease():
                self._leaves(f"tag {command.version} at {command.commit}")
                return [publish_events.Released(at=at, tag=f"v{command.version}")]
            case do.PostReport():
                self._leaves("report")
                return [publish_events.ReportPosted(at=at, url="https://tickets.example/1")]
            case do.JoinParent():
                return [events.BranchDelivered(at=at, branch=task.source.branch, commit=command.commit)]
            case do.SubmitChildren() | do.FollowChildren() | do.CancelChildren():
                return [*_told_of_children(command, at)]
            case do.WakeAt():
                return [events.AlarmRang(at=max(at, command.at))] if task.retry_at else []
            case _:
                assert_never(command)

    def _leaves(self, effect: str) -> None:
        """Look for a publishing effect before causing it."""
        if effect not in self.outside:
            self._once(effect)
            self.outside.append(effect)

    def _propose(self, command: do.OpenPullRequest, at: datetime) -> events.Event:
        self._leaves(f"push {command.commit}")
        for reply in command.replies:
            self._leaves(f"reply to {reply.comment_id}")
        return publish_events.PullRequestOpened(at=at, number=1, url="https://forge.example/1", commit=command.commit)

    def _reviewed(self, command: do.LookAtPullRequest, at: datetime) -> events.Event:
        """Comments appear once the change is published, and are in every poll."""
        seen = publish_events.PullRequestSeen(at=at, number=command.number, status=PullStatus.OPEN, reviewers=("ada",))
        comment = f"comment {command.round}"
        if command.round <= self.rounds:
            assert comment not in command.seen
            return replace(
                seen,
                hindrances=("a thread is not resolved",),
                feedback=f"review-feedback-{command.round}",
                marks=(comment,),
                comments=((f"id {command.round}", comment),),
                asked=command.asked,
            )
        if self.merges or "merge" in self.outside:
            return replace(seen, status=PullStatus.MERGED, merge_commit="m" * 40)
        return replace(seen, asked=command.asked)

    def _merge(self, command: do.MergePullRequest, at: datetime) -> events.Event:
        pushed = [one for one in self.outside if one.startswith("push ")]
        assert pushed[-1] == f"push {command.head}", "the merged commit is not the one pushed last"
        self._leaves("merge")
        return publish_events.PullRequestMerged(at=at, commit="m" * 40)

    def _once(self, effect: str) -> None:
        self.effects[effect] += 0 if effect == "workspace" and self.effects[effect] else 1

    def _start(self, folder: str, at: datetime, given: tuple[str, ...] = ()) -> list[events.Event]:
        if folder not in self.runs:
            self._once(f"start {folder}")
            self.runs[folder] = Tree(given=given)
        return [run_events.RunStarted(at=at, folder=folder, pid=1)]

    def _turn(self, task: Task, command: do.SendTurn, at: datetime) -> list[events.Event]:
        folder = f"agents/{command.attempt}"
        tree = self.runs[folder]
        if command.uuid not in tree.taken and tree.alive:
            assert not tree.frozen
            tree.taken.add(command.uuid)
            self._begin(task, tree, command)
        return self._heard(task, folder, at)

    def _begin(self, task: Task, tree: Tree, command: do.SendTurn) -> None:
        """Run a turn: a limit, a question, or the work, as soon as the questions are answered."""
        asking = self.asks.get(task.stage)
        if task.stage == self.walled and not self.effects["wall"]:
            self._once("wall")
            tree.said.append(_at_the_wall(command.attempt))
            return
        if asking is not None and "Answers to what you asked" in command.text:
            assert asking.subject is not Subject.DEPENDENCY or asking.name in tree.given, (
                "the notice was recorded but not sent"
            )
            self.known.add(task.stage)
        if asking is not None and task.stage not in self.known:
            self._once(f"ask in {task.stage}")
            tree.said.append(_asked(command.attempt, asking))
            tree.waiting = asking.request_id
            if tree.waiting is not None:
                return
        else:
            self._work(task)
        tree.said.append(_well(command.attempt))

    def _answer(self, task: Task, command: do.SendAnswer, at: datetime) -> list[events.Event]:
        folder = f"agents/{command.attempt}"
        tree = self.runs[folder]
        if tree.waiting == command.request_id and tree.alive:
            assert not tree.frozen
            self._once(f"answer {command.request_id}")
            tree.waiting = None
            self.known.add(task.stage)
            self._work(task)
            tree.said.append(_well(command.attempt))
        sent = events.AnswerSent(at=at, attempt=command.attempt, request_id=command.request_id)
        return [sent, *self._heard(task, folder, at)]

    def _work(self, task: Task) -> None:
        name = f"{task.stage} visit {task.stages[task.stage].visits}"
        stage = self.pipeline.stage(task.stage)
        if stage.work.commits:
            name += f" step {task.agent.turn.step}"
        if stage.work.commits or stage.commits:
            self.commits.append(f"c{len(self.commits) + 1}".ljust(40, "0"))
        self._once(f"work {name}")
        self.works.add(name)

    def _stop(self, task: Task, folder: str, at: datetime) -> list[events.Event]:
        if folder in self.runs:
            self.runs[folder].alive = False
            return self._heard(task, folder, at)
        return [self._ended(task, folder, at)]

    def _heard(self, task: Task, folder: str, at: datetime) -> list[events.Event]:
        tree = self.runs[folder]
        heard = [
            say(offset, at)
            for offset, say in enumerate(tree.said, 1)
            if folder.startswith("agents/") and offset > task.agent.read_offset
        ]
        return heard if tree.alive else [*heard, self._ended(task, folder, at)]

    def _ended(self, task: Task, folder: str, at: datetime) -> events.Event:
        if folder.startswith("agents/"):
            return events.AgentExited(at=at, attempt=int(folder.removeprefix("agents/")), code=0)
        check = task.evaluation.next_check
        failed = self.effects[f"check {folder}"] and int(folder[5]) <= self.failing
        result = CheckResult(verdict=Verdict.FAIL if failed else Verdict.PASS, reason="as the world has it")
        return run_events.CheckFinished(at=at, folder=folder, name=check.name if check else "", result=result)

    def _check(self, command: do.RunCheck, at: datetime) -> list[events.Event]:
        self._start(command.folder, at)
        if not self.effects[f"check {command.folder}"]:
            self._once(f"check {command.folder}")
            self.runs[command.folder].alive = False
        return [run_events.RunStarted(at=at, folder=command.folder)]

    def _seen(self, task: Task, command: do.LookAtGate, at: datetime) -> events.Event:
        stage = self.pipeline.stage(command.stage)
        files = {
            "ticket.json": FileFacts(chars=100),
            "analysis.md": FileFacts(chars=300),
            "related-code.json": FileFacts(chars=10, json_filled=("impacts",)),
            "plan.md": FileFacts(chars=300, headings=("## Step 1: Do it", "## Step 2: Test it")),
            "design-v1.md": FileFacts(chars=300),
            "review-report.md": FileFacts(chars=300, headings=("## Findings",)),
            "release-summary.md": FileFacts(chars=300, headings=("## Included Changes",)),
        }
        done = f"{task.stage} visit {command.visit}" in self.works
        fresh = tuple(name for name in files if name in stage.artifacts or (name.startswith("design") and done))
        since = self.commits.index(command.since) + 1 if command.since in self.commits else 0
        new = tuple(self.commits[since:]) if stage.work.commits or stage.commits else ()
        for guard in stage.guards if stage.documents or stage.answer else ():
            files |= guard.sample_files()
        if stage.work.verifies:
            failures = ("C1: it is not good enough",) if (stage.name, command.visit) == (self.refused, 1) else ()
            files[stage.artifacts[0]] = FileFacts(chars=90, verdict=Judged(passed=not failures, failures=failures))
        evidence = Evidence(
            files=files if done or not stage.work.judges_new_files_only else {},
            fresh=fresh if done else (),
            head=self.commits[-1] if new else None,
            commits=new,
            analysis=Analysis(root_cause_hypothesis="a bug", confidence="mid", suggested_fix="mend it"),
        )
        return events.GateLooked(at=at, stage=command.stage, visit=command.visit, turn=command.turn, evidence=evidence)


def _well(attempt: int) -> Saying:
    ok = events.TurnOutcome.OK
    return lambda offset, at: events.TurnFinished(at=at, attempt=attempt, outcome=ok, offset=offset, tool_uses=1)


def _asked(attempt: int, asking: RequestDraft) -> Saying:
    return lambda offset, at: events.AgentSaid(at=at, attempt=attempt, offset=offset, asking=(asking,))


def _at_the_wall(attempt: int) -> Saying:
    return lambda offset, at: events.TurnFinished(
        at=at,
        attempt=attempt,
        outcome=events.TurnOutcome.FAILED,
        reason="You've hit your 5-hour limit",
        error_class=ErrorClass.USAGE_LIMIT,
        offset=offset,
        resets_at=at + timedelta(minutes=10),
    )


@dataclass
class Plug:
    """Counts the moments before and after every commit and command, and cuts the power at one of them."""

    at: int | None = None
    passed: int = 0

    def moment(self) -> None:
        """Count one moment, or cut the power."""
        if self.passed == self.at:
            self.at = None
            raise PowerCut
        self.passed += 1


@dataclass(frozen=True)
class Request:
    """A request that a user sends once, when the task is in a certain state; repeated until it is accepted."""

    when: Callable[[Task], bool]
    event: Callable[[datetime], events.Event]


@dataclass
class Night:
    """The run of one task in a world, with possible power cuts; a restart has only what was committed."""

    world: World
    begun: Task
    plug: Plug = field(default_factory=Plug)
    requests: Sequence[Request] = ()
    restarts: int = 0

    def until_the_end(self) -> Task:
        """Run, restart after every power cut, and return the task as it ends."""
        pipeline = self.world.pipeline
        task, _ = machine.begin(pipeline, events.TaskSubmitted(at=START, task=self.begun))
        saved = task
        queue: deque[events.Event] = deque()
        waiting, idle = list(self.requests), 0
        while not ended(task) or queue:
            try:
                asked = waiting[0].event(self._now(task)) if waiting and waiting[0].when(task) else None
                event = asked or (queue.popleft() if queue else self._prompted(task))
                before = task
                task, commands = machine.decide(pipeline, task, event)
                idle = 0 if task is not before else idle + 1
                assert idle < 10, f"stuck: {task.stage} owes {task.next_action}, {task.run}"
                assert task.seq < MOST_DECISIONS, f"endless: {task.stage} owes {task.next_action}, {task.run}"
                self.plug.moment()
                saved = task
                if asked:
                    del waiting[0]
                self.plug.moment()
                for command in commands:
                    told = self.world.execute(task, command, self._now(task))
                    self.plug.moment()
                    queue.extend(told)
            except PowerCut:
                self.restarts += 1
                task = from_document(to_document(saved))
                alive = task.run is not None and task.run.folder in self.world.runs
                queue = deque([events.DaemonStarted(at=self._now(task), run_alive=alive)])
        return task

    def _prompted(self, task: Task) -> events.Event:
        """Return the next external event when nothing else happens: a free place, or an alarm."""
        if task.wants_slot:
            return events.TaskAdmitted(at=self._now(task))
        return events.AlarmRang(at=self._now(task) + timedelta(hours=2))

    def _now(self, task: Task) -> datetime:
        return task.updated_at + timedelta(milliseconds=1)


def ended(task: Task) -> bool:
    """Whether nothing will advance the task any more."""
    return task.run is None and not task.notices and (task.status.is_final or task.status is TaskStatus.BLOCKED)


def _told_of_children(
    command: do.SubmitChildren | do.FollowChildren | do.CancelChildren, at: datetime
) -> list[child_events.ChildEvent]:
    """Return what a parent is told of its children, who do their work at once."""
    match command:
        case do.SubmitChildren():
            return [child_events.ChildrenSubmitted(at=at, tasks=tuple(one.task for one in command.children))]
        case do.FollowChildren():
            return [child_events.ChildEnded(at=at, task=one, completed=True) for one in command.tasks]
        case do.CancelChildren():
            return [child_events.ChildEnded(at=at, task=one, completed=False) for one in command.tasks]

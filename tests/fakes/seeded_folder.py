"""A data folder as a busy month leaves it, for pages, screenshots and benchmarks; nothing in it is at work.

    seeded = seed(data_dir, repo, Size(crowd=1000))

A daemon that starts on it finds each of its tasks at rest: ended, blocked, paused by a person, waiting for an answer,
or to start tomorrow. So it shows what was seeded until somebody acts. From a shell:

    python -m tests.fakes.seeded_folder DIR     # makes DIR/repo and DIR/data, as large as they get
"""

import os
import sys
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from unittest.mock import patch

from orchestrator.core.decide import machine
from orchestrator.core.events.events import TaskSubmitted, WorkspaceReady
from orchestrator.core.schedule.trouble import AccountState
from orchestrator.core.task.agent import AgentStatus, PauseReason
from orchestrator.core.task.checkpoint import Reason
from orchestrator.core.task.checks import Check, CheckKind, Evaluation, Verdict
from orchestrator.core.task.children import Child, ChildPlan, ChildStatus
from orchestrator.core.task.guards import Evidence
from orchestrator.core.task.task import NextAction, Priority, Schedule, Source, Task, TaskStatus, Timing
from orchestrator.core.task.task_policy import DEFAULT_POLICY, Autonomy
from orchestrator.core.task.ticket import SensitiveCheck, Ticket
from orchestrator.core.task.usage_limits import Window
from orchestrator.daemon.reporting.summary import SUMMARY_FILE
from orchestrator.formats.files import make_private
from orchestrator.storage.store import FolderStore
from orchestrator.workspaces.workspace import Workspace
from tests.fakes.repositories import commit, git, repository
from tests.fakes.seeded_history import Happening, History, accepted, write_inputs
from tests.fakes.seeded_service import seed_service
from tests.fakes.seeded_texts import FILES, Words, write_transcript
from tests.fakes.tasks import bundled_pipeline
from tests.unit import playbook

CHECKS = (
    Check(name="unit_test", command="python -m pytest -q", kind=CheckKind.UNIT_TEST, source="repo"),
    Check(name="lint", command="ruff check .", kind=CheckKind.LINT, source="repo"),
)
DAY = timedelta(days=1)
OF_CROWD = (
    (TaskStatus.COMPLETED, 56), (TaskStatus.ARCHIVED, 10), (TaskStatus.FAILED, 5), (TaskStatus.CANCELLED, 5),
    (TaskStatus.BLOCKED, 4), (TaskStatus.PENDING, 8), (TaskStatus.DRAFT, 4), (TaskStatus.IN_PROGRESS, 8),
)  # fmt: skip
"""How many of a hundred tasks have which status."""
AT_WORK = (
    *((stage, NextAction.TURN) for stage in ("ANALYSIS", "PLANNING", "DESIGN", "IMPLEMENTATION")),
    ("EVALUATION", NextAction.CHECKS),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is seeded: tasks in the crowd, those of them with a whole history, lines of the long journal, and bytes
    of the long transcript.
    """

    crowd: int = 100
    histories: int = 20
    journal: int = 500
    transcript: int = 1_000_000


LARGEST = Size(crowd=1100, histories=60, journal=10_000, transcript=50_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeded:
    """The ids of the tasks that stand for something.

    `question`, `dependency` and `review` wait for a person, and the reviewed one has a branch with a change. All three
    have artifacts. `long` has the long journal and, of its agent 2, the long transcript. `crowd` are those that are
    there to be many.
    """

    question: str
    dependency: str
    review: str
    blocked: str
    limited: str
    parent: str
    children: tuple[str, ...]
    long: str
    completed: str
    crowd: tuple[str, ...]


def seed(data_dir: Path, repo: Path, size: Size | None = None, words: Words | None = None) -> Seeded:
    """Fill an empty data folder with tasks of a repository, which is made if there is none."""
    make_private(data_dir)
    with patch.object(os, "fsync"), patch.object(os, "fdatasync"):  # nothing here has to outlive a power cut
        store = FolderStore(data_dir)
        try:
            return _Seeding(store, repo, size or Size(), words or Words()).everything()
        finally:
            store.close()


class _Seeding:
    def __init__(self, store: FolderStore, repo: Path, size: Size, words: Words) -> None:
        self.store, self.repo, self.size, self.words = store, repo, size, words
        self.base = git(repo, "rev-parse", "HEAD") if repo.exists() else repository(repo, FILES)
        self.now = datetime.now(UTC).replace(microsecond=0)
        self.random = Random(20_261_122)
        self.number = 100

    def everything(self) -> Seeded:
        crowd = tuple(self._of_crowd(number) for number in range(self.size.crowd))
        parent, children = self._family()
        seeded = Seeded(
            question=self._question(),
            dependency=self._dependency(),
            review=self._review(),
            blocked=self._blocked(),
            limited=self._limited(),
            parent=parent,
            children=children,
            long=self._long(),
            completed=self._history(timedelta(hours=9)).until_ended().release(),
            crowd=crowd,
        )
        reset = self.now + timedelta(hours=3, minutes=12)
        warned = Window(status="allowed_warning", resets_at=self.now + 4 * DAY, utilization=0.86, seen_at=self.now)
        used_up = Window(status="rejected", resets_at=reset, utilization=1.0, seen_at=self.now)
        self.store.keep_account(AccountState(windows={"five_hour": used_up, "seven_day": warned}))
        made = (seeded.completed, seeded.blocked, seeded.review, seeded.long)
        seed_service(self.store.data_dir, self.repo, made, self.words, self.now)
        return seeded

    def _title(self, number: int) -> str:
        return self.words.titles[number % len(self.words.titles)]

    def _task(self, age: timedelta, pipeline: str = "full", title: str = "", task_id: str = "") -> Task:
        """A task as somebody submitted it so long ago."""
        self.number += 1
        at = self.now - age
        key = f"TEXT-{self.number}"
        task_id = task_id or f"{key}_{at:%Y%m%d_%H%M%S}"
        return accepted(
            Task(
                id=task_id,
                title=title or self._title(self.number),
                folder=str(self.store.files.path_of(task_id)),
                ticket=Ticket(key=key, source="jira", sensitive_check=SensitiveCheck(result="CLEAN", scanned_at=at)),
                pipeline=pipeline,
                source=Source(repo=str(self.repo), base_branch="main", base_commit=self.base, branch=f"feature/{key}"),
                timing=Timing(created_at=at),
                policy=replace(DEFAULT_POLICY, autonomy=Autonomy.INTERACTIVE),
                evaluation=Evaluation(checks=CHECKS),
                schedule=Schedule(priority=self.random.choices(tuple(Priority), (5, 84, 9, 2))[0]),
                updated_at=at,
            )
        )

    def _history(self, age: timedelta, pipeline: str = "full", title: str = "") -> History:
        return History(self.store, self._task(age, pipeline, title), self.words.ticket)

    def _working(self, age: timedelta, stage: str = "ANALYSIS", title: str = "", pipeline: str = "full") -> History:
        """A history of a task whose agent works, with a real workspace, its artifacts and a transcript."""
        history = self._history(age, pipeline, title)
        made = Workspace(self.store.data_dir).prepare(history.task.id, self.repo, self.base, history.task.source.branch)
        history.until("TICKET_INTAKE", NextAction.WORKSPACE)
        history >> (
            lambda _, at: WorkspaceReady(
                at=at, worktree=str(made.worktree), branch=made.branch, head=self.base, base=self.base
            )
        )
        folder = self.store.files.path_of(history.task.id)
        for name, text in self.words.artifacts.items():
            (folder / name).write_text(text, encoding="utf-8")
        write_transcript(folder / "agents/1", min(200_000, self.size.transcript), self.words)
        return history.until(stage, NextAction.TURN)

    def _parked(self, history: History) -> str:
        """Let the paused agent's process be ended, and close the task."""
        history >> playbook.frozen >> timedelta(seconds=history.task.policy.park_after) >> playbook.alarm
        history >> playbook.exited
        assert history.task.run is None, history.task
        return history.release()

    def _question(self) -> str:
        asked = playbook.question(self.words.question, self.words.options)
        return self._parked(self._working(timedelta(hours=3), title=self._title(0)) >> playbook.asking(asked))

    def _dependency(self) -> str:
        wanted = replace(playbook.dependency("ADDRESS_SERVICE_KEY"), text=self.words.wanted)
        return self._parked(self._working(timedelta(hours=2), title=self._title(9)) >> playbook.asking(wanted))

    def _review(self) -> str:
        """A task that waits for the approval of a change on its branch: text, a new file, and one that is removed."""
        history = self._working(timedelta(hours=5), "EXECUTION", self._title(11), "custom")
        worktree = Path(history.task.source.worktree or "")
        (worktree / "README.md").unlink()
        made = commit(worktree, self.words.change, self.words.subject)
        Workspace(self.store.data_dir).facts(history.task.id, self.base, self.base)
        evidence = Evidence(head=made, commits=(made,), subjects=(self.words.subject,))
        history >> playbook.finished() >> playbook.looked(evidence)
        return history.until_reviewed().release()

    def _blocked(self) -> str:
        history = self._history(timedelta(hours=7), title=self._title(2))
        history.until_ended([Verdict.FAIL, Verdict.PASS] * 5, self.words.reason)
        assert history.task.status is TaskStatus.BLOCKED
        return history.release()

    def _limited(self) -> str:
        """A task that waits until the usage limit of the account is over."""
        history = self._working(timedelta(hours=1), "DESIGN", title=self._title(5))
        wait = (self.now + timedelta(hours=3, minutes=12) - history.now).total_seconds()
        history >> playbook.limit_hit(wait, "five_hour") >> playbook.frozen >> playbook.exited
        return history.release()

    def _family(self) -> tuple[str, tuple[str, ...]]:
        """A parent of twelve children that depend on each other in layers of three; half of them have ended."""
        parent = self._task(timedelta(hours=11), "issue-plan-execute", "Carry out the twelve issues of the review")
        plans = tuple(
            ChildPlan(
                key=f"I{number}",
                title=self._title(number),
                after=tuple(f"I{before}" for before in range(number - 3, number - 1) if before >= 0 and number >= 3),
            )
            for number in range(12)
        )
        ids = {plan.key: f"{parent.id}.{plan.key}" for plan in plans}
        children = tuple(self._child(parent, plan, number, ids) for number, plan in enumerate(plans))
        begun = replace(
            parent,
            status=TaskStatus.IN_PROGRESS,
            stage="ISSUES",
            children=children,
            next_action=NextAction.CHILDREN,
            agent=replace(parent.agent, status=AgentStatus.WAITING_DEPENDENCY, blocked_by=PauseReason.CHILDREN),
        )
        self._commit(begun)
        return parent.id, tuple(ids.values())

    def _child(self, parent: Task, plan: ChildPlan, number: int, ids: dict[str, str]) -> Child:
        task = self._task(timedelta(hours=10), "issue", plan.title, ids[plan.key])
        after = tuple(ids[key] for key in plan.after)
        task = replace(task, parent=parent.id, schedule=replace(task.schedule, after=after))
        if number < 6:
            status = ChildStatus.FAILED if number == 4 else ChildStatus.COMPLETED
            ended = TaskStatus.FAILED if number == 4 else TaskStatus.COMPLETED
            self._commit(replace(task, status=ended, next_action=NextAction.NOTHING))
            reason = self.words.reason if number == 4 else ""
            return Child(plan=plan, task=task.id, status=status, commit="c" * 40, reason=reason)
        paused = replace(task.agent, status=AgentStatus.PAUSED, blocked_by=PauseReason.USER)
        self._commit(replace(task, agent=paused))
        return Child(plan=plan, task=task.id, status=ChildStatus.SUBMITTED)

    def _long(self) -> str:
        """A task with a long journal and a long transcript: paused and resumed for days."""
        history = self._working(6 * DAY, "IMPLEMENTATION", title=self._title(7))
        folder = self.store.files.path_of(history.task.id)
        write_transcript(folder / "agents/2", self.size.transcript, self.words)
        resumed: tuple[Happening, ...] = (playbook.frozen, playbook.resume(), playbook.admitted, playbook.thawed)
        saved = playbook.checkpoint_of(Reason.INTERVAL, "search/query.py")
        while history.task.seq < self.size.journal - 3:
            history >> playbook.pause()
            for happening in (*resumed, saved):
                history >> happening
        return self._parked(history >> playbook.pause())

    def _of_crowd(self, number: int) -> str:
        """One of many tasks: the first ones have whole histories, the others are in their journals as they are."""
        age = timedelta(hours=30 * 24 * (number + 1) / (self.size.crowd + 1))
        if number < self.size.histories:
            pipeline = ("full", "full", "review_only")[number % 3]
            failing = [Verdict.FAIL] * self.random.choice((0, 0, 1, 2)) if pipeline == "full" else []
            return (
                self._history(30 * DAY * number / self.size.histories + DAY, pipeline)
                .until_ended(failing, self.words.reason)
                .release()
            )
        statuses, weights = zip(*OF_CROWD, strict=True)
        status = self.random.choices(statuses, weights)[0]
        return self._commit(self._at_rest(self._task(age), status))

    def _at_rest(self, task: Task, status: TaskStatus) -> Task:
        """The task in a status in which nothing happens by itself."""
        match status:
            case TaskStatus.PENDING:
                return replace(task, schedule=replace(task.schedule, start_at=self.now + DAY))
            case TaskStatus.DRAFT:
                return replace(task, status=status, next_action=NextAction.NOTHING)
        done = status in (TaskStatus.COMPLETED, TaskStatus.ARCHIVED)
        stage, owed = ("COMPLETION", NextAction.DELIVERY) if done else self.random.choice(AT_WORK)
        reached = playbook.at(stage, owed, task)
        if status is TaskStatus.IN_PROGRESS:
            return _paused(reached)
        reason = f"EVALUATION failed 3 times: {self.words.reason}" if status is TaskStatus.BLOCKED else None
        return replace(reached, status=status, block_reason=reason, next_action=NextAction.NOTHING, run=None)

    def _commit(self, task: Task) -> str:
        """Write a task whose whole history is that it was submitted as it is."""
        pipeline = bundled_pipeline(task.pipeline)
        event = TaskSubmitted(at=task.timing.created_at, task=task, by="ada")
        begun, _ = machine.begin(pipeline, event)
        self.store.commit(None, replace(begun, status=task.status, next_action=task.next_action), event)
        write_inputs(self.store, task, pipeline, self.words.ticket)
        if task.status.is_final:
            self.store.files.path_of(task.id, SUMMARY_FILE).write_text(f"# {task.title}\n", encoding="utf-8")
        self.store.release(task.id)
        return task.id


def _paused(task: Task) -> Task:
    agent = replace(task.agent, status=AgentStatus.PAUSED, blocked_by=PauseReason.USER)
    return replace(task, agent=agent, run=None, next_action=NextAction.AGENT)


if __name__ == "__main__":
    root = Path(sys.argv[1])
    print(seed(root / "data", root / "repo", LARGEST))  # noqa: T201

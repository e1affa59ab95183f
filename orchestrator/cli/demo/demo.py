"""`orchestrator demo`: the whole story in a throw-away repository, with real processes, in well under a minute.

A ticket goes through the full pipeline. On the way the agent asks a question, is frozen and thawed in the middle of a
command, works on while the daemon is killed -9, waits out a usage limit, and has to mend its work after a failed
evaluation; then the work is reviewed. The demo does a person's part over the same API, and says how it is typed.
"""

import shlex
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, assert_never

import typer
from pydantic import BaseModel

from orchestrator.cli.demo.environment import LOOK_EVERY, PIPELINE, TICKET, DemoEnvironment, DemoFailed
from orchestrator.cli.demo.printer import Printer
from orchestrator.cli.demo.process_state import GONE, STILL, process_states, state_of
from orchestrator.cli.demo.progress import is_active, is_limited, news
from orchestrator.core.decide.pausing import DENY
from orchestrator.core.task.agent import ProcessState
from orchestrator.core.task.task import TaskStatus
from orchestrator.core.task.task_policy import Autonomy
from orchestrator.core.task.user_requests import RequestKind, Subject
from orchestrator.server.schemas.task_input import SubmissionBody
from orchestrator.server.schemas.tasks import TaskView
from orchestrator.server.schemas.user_requests import RequestView

WORK_SECONDS = {False: 90.0, True: 1800.0}
"""How long the whole may take, without and with the real CLI."""
FROZEN_SECONDS = 1.5
"""How long the paused agent is watched."""
ENDINGS = (signal.SIGTERM, signal.SIGHUP)


class StoryPart(StrEnum):
    """What is told of; all of it happens with the scripted agent."""

    QUESTION = "question"
    PAUSE = "pause"
    KILL = "kill"
    LIMIT = "limit"
    FAILURE = "failure"
    REVIEW = "review"


class DemoResult(BaseModel):
    """What the demo answers programs."""

    task: str
    status: TaskStatus
    branch: str
    commit: str | None
    checks: dict[str, str]
    moments: list[StoryPart]
    seconds: float
    repository: str
    folder: str


def demo(
    claude: Annotated[bool, typer.Option("--claude", help="Use the real claude CLI and your account.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document at the end.")] = False,
) -> None:
    """See a ticket become a reviewed branch, with all that a night brings on the way.

    Everything happens in a new folder below the folder for temporary files, which stays for you to look at.
    """
    house = DemoEnvironment(Path(tempfile.mkdtemp(prefix="orchestrator-demo-")), claude=claude)
    teller = Printer(aside=as_json)
    story = Story(house, teller)
    with _ended_like_ctrl_c():
        try:
            task = story.run()
        finally:
            _end(house, teller)
    if as_json:
        typer.echo(story.outcome(task).model_dump_json(indent=2))
    else:
        print_ending(teller, house, task)


class Story:
    """What happens, in its order; `moments` says what of it has happened."""

    def __init__(self, house: DemoEnvironment, teller: Printer) -> None:
        """Makes nothing yet."""
        self._house, self._client, self._teller = house, house.client, teller
        self._session: str | None = None
        self.moments: list[StoryPart] = []

    def run(self) -> TaskView:
        """Everything from an empty folder to the finished branch. Raises DemoFailed."""
        house, tell = self._house, self._teller
        house.make()
        tell.say(f"a git repository with a small Python package is made: {house.repository}")
        self._start()
        task = self._submit()
        task = self._until(task, lambda now: is_active(now, 1) and (house.claude or house.tick_count() > 0))
        if task.status is TaskStatus.IN_PROGRESS:
            self._freeze_and_thaw(task)
        task = self._until(task, lambda now: is_active(now, 2))
        if task.status is TaskStatus.IN_PROGRESS:
            self._kill_and_start(task)
        task = self._until(task, lambda _: False)
        self._check_end(task)
        return task

    def outcome(self, task: TaskView) -> DemoResult:
        """The outcome for programs."""
        return DemoResult(
            task=task.id,
            status=task.status,
            branch=task.branch,
            commit=task.head,
            checks={name: result.verdict.value for name, result in task.results.items()},
            moments=self.moments,
            seconds=round(self._teller.elapsed(), 1),
            repository=str(self._house.repository),
            folder=task.folder,
        )

    def _start(self) -> None:
        self._house.start()
        self._teller.say(f"the daemon runs (pid {self._house.pid})")
        self._teller.command(f"orchestrator --config {self._house.config} serve")

    def _submit(self) -> TaskView:
        body = SubmissionBody(
            text=TICKET, repo=self._house.repository, pipeline=PIPELINE, autonomy=Autonomy.INTERACTIVE
        )
        task = self._client.submit(body, key=str(self._house.root))
        self._teller.say(f"ticket {task.id} is handed in: {task.title}")
        where = f"--file {self._house.ticket} --repo {self._house.repository}"
        self._teller.command(f"orchestrator submit {where} --pipeline {PIPELINE} --interactive")
        return task

    def _until(self, task: TaskView, reached: Callable[[TaskView], bool]) -> TaskView:
        """Follow the task until something is reached or it ended; tell of what happens, and do a person's part."""
        while True:
            now = self._client.task(task.id)
            for line in news(task, now):
                self._teller.say(line)
            self._notice(task, now)
            task = now
            over = task.status.is_final and task.run is None
            if over or task.status is TaskStatus.BLOCKED or reached(task):
                return task
            for request in task.waiting:
                self._answer(request)
            if self._teller.elapsed() > WORK_SECONDS[self._house.claude]:
                raise DemoFailed(f"it took too long in {task.stage}; the daemon's log is {self._house.log}")
            time.sleep(LOOK_EVERY)

    def _notice(self, before: TaskView, now: TaskView) -> None:
        """Take note of a failure, and of a limit: when it is over, the session must be the same. Raises DemoFailed."""
        if now.failures.total > before.failures.total:
            self._happened(StoryPart.FAILURE)
        if is_limited(now) and not is_limited(before):
            self._session = now.agent.session_id
            self._tell_why(now)
        if is_limited(before) and not is_limited(now):
            if now.agent.session_id != self._session:
                raise DemoFailed(f"session {self._session} did not go on after the limit; see {now.folder}")
            self._happened(StoryPart.LIMIT)

    def _answer(self, request: RequestView) -> None:
        """Do what a person would; nobody is here to allow an agent more than it may."""
        match request.kind:
            case RequestKind.QUESTION:
                self._answer_question(request)
            case RequestKind.REVIEW:
                self._approve(request)
            case RequestKind.DEPENDENCY:
                self._teller.say(f"the agent needs {request.name}: {request.text}")
                self._client.reject(request, "there is nothing to provide in a demo")
                self._teller.command(
                    f"orchestrator provide {request.task} {shlex.quote(request.name)} --reject 'a demo'"
                )
            case _:
                assert_never(request.kind)

    def _answer_question(self, request: RequestView) -> None:
        self._teller.say(f"the agent asks: {request.text}", *(f"- {option}" for option in request.options))
        refused = request.subject is Subject.PERMISSION
        text = DENY if refused else request.default or next(iter(request.options), "Decide yourself.")
        self._client.answer(request, text)
        self._teller.command(f"orchestrator answer {request.task} {shlex.quote(text)}")
        self._happened(StoryPart.QUESTION)

    def _approve(self, request: RequestView) -> None:
        self._teller.say(f"a person is to look at it: {request.text}")
        self._tell_why(self._client.task(request.task))
        if request.subject is Subject.STAGE:
            review = self._client.review(request)
            if review.change and review.worktree and review.head:
                span = f"{review.base_commit[:9]} {review.head[:9]}"
                self._teller.command(f"git -C {shlex.quote(review.worktree)} diff {span}")
                self._teller.detail(f"{review.change.files} files changed, {review.change.added} lines added")
        self._client.approve(request)
        self._teller.command(f"orchestrator approve {request.task}")
        self._happened(StoryPart.REVIEW)

    def _tell_why(self, task: TaskView) -> None:
        found = self._client.why(task.id)
        self._teller.command(f"orchestrator why {task.id}")
        self._teller.detail(*(f"because {fact}" for fact in found.facts), f"next: {found.next}")

    def _freeze_and_thaw(self, task: TaskView) -> None:
        """Pause, and see that nothing moves; resume, and see that it moves again. Raises DemoFailed."""
        house, tell = self._house, self._teller
        self._client.request(task.id, "pause")
        tell.command(f"orchestrator pause {task.id}")
        task = self._until(task, lambda now: now.run is None or now.run.process is ProcessState.FROZEN)
        states = process_states(Path(task.folder), task.run.folder) if task.run else {}
        tell.say(f"paused: {len(states)} processes stand still: {', '.join(f'{p} {s}' for p, s in states.items())}")
        before = house.tick_count()
        time.sleep(FROZEN_SECONDS)
        ticked = house.tick_count() - before
        if not house.claude:
            tell.say(f"the agent's command, which ticks every 0.1 s, ticked {ticked} times in {FROZEN_SECONDS} s")
        if ticked or not STILL.issuperset(states.values()):
            raise DemoFailed(f"a paused process went on; the decisions are in {task.folder}/journal.jsonl")
        self._client.request(task.id, "resume")
        tell.command(f"orchestrator resume {task.id}")
        self._until(task, lambda now: not now.paused and (house.claude or house.tick_count() > before))
        tell.say("resumed: it goes on in the middle of its command")
        self._happened(StoryPart.PAUSE)

    def _kill_and_start(self, task: TaskView) -> None:
        """Kill the daemon under a working agent, and start it again. Raises DemoFailed."""
        agent, killed = task.agent, self._house.pid
        self._house.kill()
        self._teller.command(f"kill -9 {killed}")
        lives = agent.pid is not None and state_of(agent.pid) != GONE
        what = f"the {agent.role} (pid {agent.pid}) {'works on' if lives else 'is gone'}"
        self._teller.say(f"killed -9 the daemon; {what}")
        self._start()
        if not lives and not self._house.claude:
            raise DemoFailed(f"the agent did not outlive the daemon; look at {task.folder}/agents")
        self._happened(StoryPart.KILL)

    def _check_end(self, task: TaskView) -> None:
        if task.status is not TaskStatus.COMPLETED:
            raise DemoFailed(f"it ended {task.status}: {task.block_reason}; the daemon's log is {self._house.log}")
        lacking = [moment.value for moment in StoryPart if moment not in self.moments]
        if lacking and not self._house.claude:
            raise DemoFailed(f"what should have happened and did not: {', '.join(lacking)}; look at {task.folder}")

    def _happened(self, moment: StoryPart) -> None:
        if moment not in self.moments:
            self.moments.append(moment)


def print_ending(teller: Printer, house: DemoEnvironment, task: TaskView) -> None:
    """What was built and where to look."""
    span, folder = f"main..{task.branch}", Path(task.folder)
    teller.blank()
    teller.heading(f"Built in {teller.elapsed():.0f} s: the branch {task.branch} of {house.repository}")
    commits = house.git("log", "--reverse", "--format=%h %s", span).splitlines()
    teller.lines(*commits, house.git("diff", "--shortstat", f"main...{task.branch}").strip())
    teller.heading("Look at it")
    teller.lines(
        f"{folder / 'summary.md'}",
        f"{folder / 'test-report.md'} (and test-report-1.md, of the evaluation that failed)",
        f"{folder / 'journal.jsonl'} (every decision)",
        f"git -C {house.repository} log -p {span}",
        f"orchestrator --config {house.config} serve, and beside it:",
        f"orchestrator --config {house.config} show {task.id}   (or why, logs, checkpoints list)",
    )
    teller.heading("Clean up")
    teller.lines(f"rm -r {house.root}")
    teller.heading("Next")
    teller.lines("orchestrator doctor, then orchestrator serve and orchestrator submit")


def _end(house: DemoEnvironment, teller: Printer) -> None:
    """Leave nothing running, whatever went before; a second Ctrl-C does not interrupt that."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        house.end()
        teller.say("nothing of it runs any more")
    finally:
        signal.signal(signal.SIGINT, before)
        teller.detail(f"all of it is in {house.root}")


@contextmanager
def _ended_like_ctrl_c() -> Iterator[None]:
    """Take SIGTERM and the end of the terminal as Ctrl-C, unless they are ignored."""
    taken = [number for number in ENDINGS if signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)

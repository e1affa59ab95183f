"""`orchestrator demo`: from ticket to branch in a temporary repository, with real processes, in under a minute.

A ticket goes through the full pipeline. On the way the agent asks a question, is frozen and thawed in the middle of a
command, keeps working while the daemon is killed with SIGKILL, waits for a usage limit to end, and has to fix its
work after a failed evaluation; then the work is reviewed. The demo does what a person would do, over the same API, and
prints the command for each step.
"""

import shlex
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, assert_never

import typer
from pydantic import BaseModel

from orchestrator.cli.context import UsageError
from orchestrator.cli.demo.environment import LOOK_EVERY, PIPELINE, DemoEnvironment, DemoFailed
from orchestrator.cli.demo.printer import Printer
from orchestrator.cli.demo.process_state import GONE, STILL, process_states, state_of
from orchestrator.cli.demo.progress import StoryPart, is_active, is_limited, news
from orchestrator.cli.demo.scripts.job import TICKET
from orchestrator.cli.demo.tour import Tour, parts_of_others
from orchestrator.core.decide.pausing import DENY
from orchestrator.core.task.agent import ProcessState
from orchestrator.core.task.task import TaskStatus
from orchestrator.core.task.task_policy import Autonomy
from orchestrator.core.task.user_requests import RequestKind, Subject
from orchestrator.formats.table import nearest
from orchestrator.pipelines.bundled import Kind, bundled
from orchestrator.pipelines.definition_files import Folders
from orchestrator.pipelines.definitions import load_definitions
from orchestrator.server.schemas.task_input import SubmissionBody
from orchestrator.server.schemas.tasks import TaskView
from orchestrator.server.schemas.user_requests import RequestView

FULL = "full"
"""The pipeline whose demo tells a story."""
WORK_SECONDS = {False: 90.0, True: 1800.0}
"""How long the demo may take, without and with the real CLI."""
FROZEN_SECONDS = 1.5
"""How long the paused agent is watched."""
BUNDLED = Folders(pipelines=(bundled(Kind.PIPELINES),), roles=(bundled(Kind.AGENTS),))
LEFT = {
    "summary.md": "",
    "review-report.md": "",
    "test-report.md": " (and one for each evaluation before it)",
    "journal.jsonl": " (every decision)",
}
"""Files of a task that are worth a look."""
ENDINGS = (signal.SIGTERM, signal.SIGHUP)


class DemoResult(BaseModel):
    """The result of the demo, as `--json` prints it."""

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
    pipeline: Annotated[
        str, typer.Option(metavar="NAME", help="Play this bundled pipeline, without crashes and limits.")
    ] = FULL,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document at the end.")] = False,
) -> None:
    """Watch a ticket become a reviewed branch, through a crash, a usage limit and a failed evaluation.

    Everything happens in a new temporary folder, which is kept for you to look at.
    """
    printer = Printer(aside=as_json)
    part = _story(printer, claude=claude) if pipeline == FULL else _tour(printer, pipeline, claude=claude)
    with _ended_like_ctrl_c():
        try:
            task = part.run()
        finally:
            _end(part.environment, printer)
    if as_json:
        typer.echo(_result(part, task, printer).model_dump_json(indent=2))
    else:
        print_ending(printer, part.environment, task)


def _story(printer: Printer, *, claude: bool) -> "Story":
    return Story(DemoEnvironment(_folder(), claude=claude), printer)


def _tour(printer: Printer, name: str, *, claude: bool) -> Tour:
    """Return the demo of a pipeline. Raises UsageError."""
    definitions = load_definitions(BUNDLED)
    played = sorted(set(definitions.pipelines) - parts_of_others(definitions.pipelines))
    if claude:
        raise UsageError(f"--claude plays {FULL} only; leave out --pipeline")
    if name not in played:
        raise UsageError(f"there is no demo of the pipeline {name!r:.60}; {nearest(name, played)}")
    return Tour(_folder(), printer, definitions.pipelines[name], definitions)


def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="orchestrator-demo-"))


def _result(part: "Story | Tour", task: TaskView, printer: Printer) -> DemoResult:
    """Return the result for programs."""
    return DemoResult(
        task=task.id,
        status=task.status,
        branch=task.branch,
        commit=task.head,
        checks={name: result.verdict.value for name, result in task.results.items()},
        moments=part.moments,
        seconds=round(printer.elapsed(), 1),
        repository=str(part.environment.repository),
        folder=task.folder,
    )


class Story:
    """Runs the demo step by step; `moments` lists the parts that have happened."""

    def __init__(self, environment: DemoEnvironment, printer: Printer) -> None:
        self.environment, self._client, self._printer = environment, environment.client, printer
        self._session: str | None = None
        self.moments: list[StoryPart] = []

    def run(self) -> TaskView:
        """Run the demo from an empty folder to the finished branch and return the task. Raises DemoFailed."""
        environment, printer = self.environment, self._printer
        environment.make()
        printer.tell(f"created a git repository with a small Python package: {environment.repository}")
        self._start()
        task = self._submit()
        task = self._until(task, lambda now: is_active(now, 1) and (environment.claude or environment.tick_count() > 0))
        if task.status is TaskStatus.IN_PROGRESS:
            self._freeze_and_thaw(task)
        task = self._until(task, lambda now: is_active(now, 2))
        if task.status is TaskStatus.IN_PROGRESS:
            self._kill_and_start(task)
        task = self._until(task, lambda _: False)
        self._check_end(task)
        return task

    def _start(self) -> None:
        self.environment.start()
        self._printer.tell(f"the daemon runs (pid {self.environment.pid})")
        self._printer.command(f"orchestrator --config {self.environment.config} serve")

    def _submit(self) -> TaskView:
        body = SubmissionBody(
            text=TICKET, repo=self.environment.repository, pipeline=PIPELINE, autonomy=Autonomy.INTERACTIVE
        )
        task = self._client.submit(body, key=str(self.environment.root))
        self._printer.tell(f"submitted the ticket as task {task.id}: {task.title}")
        where = f"--file {self.environment.ticket} --repo {self.environment.repository}"
        self._printer.command(f"orchestrator submit {where} --pipeline {PIPELINE} --interactive")
        return task

    def _until(self, task: TaskView, reached: Callable[[TaskView], bool]) -> TaskView:
        """Follow the task until `reached` or its end, report what happens, and answer what people are asked."""
        while True:
            now = self._client.task(task.id)
            for line in news(task, now):
                self._printer.tell(line)
            self._notice(task, now)
            task = now
            over = task.status.is_final and task.run is None
            if over or task.status is TaskStatus.BLOCKED or reached(task):
                return task
            for request in task.waiting:
                self._answer(request)
            if self._printer.elapsed() > WORK_SECONDS[self.environment.claude]:
                raise DemoFailed(f"the task took too long in {task.stage}; the daemon's log is {self.environment.log}")
            time.sleep(LOOK_EVERY)

    def _notice(self, before: TaskView, now: TaskView) -> None:
        """Note a failure, and a usage limit, after which the session must be the same. Raises DemoFailed."""
        if now.failures.total > before.failures.total:
            self._happened(StoryPart.FAILURE)
        if is_limited(now) and not is_limited(before):
            self._session = now.agent.session_id
            self._print_why(now)
        if is_limited(before) and not is_limited(now):
            if now.agent.session_id != self._session:
                raise DemoFailed(f"session {self._session} did not continue after the limit; see {now.folder}")
            self._happened(StoryPart.LIMIT)

    def _answer(self, request: RequestView) -> None:
        """Answer a request as a person would; extra permissions are denied."""
        match request.kind:
            case RequestKind.QUESTION:
                self._answer_question(request)
            case RequestKind.REVIEW:
                self._approve(request)
            case RequestKind.DEPENDENCY:
                self._printer.tell(f"the agent needs {request.name}: {request.text}")
                self._client.reject(request, "there is nothing to provide in a demo")
                self._printer.command(
                    f"orchestrator provide {request.task} {shlex.quote(request.name)} --reject 'a demo'"
                )
            case _:
                assert_never(request.kind)

    def _answer_question(self, request: RequestView) -> None:
        self._printer.tell(f"the agent asks: {request.text}", *(f"- {option}" for option in request.options))
        refused = request.subject is Subject.PERMISSION
        text = DENY if refused else request.default or next(iter(request.options), "Decide yourself.")
        self._client.answer(request, text)
        self._printer.command(f"orchestrator answer {request.task} {shlex.quote(text)}")
        self._happened(StoryPart.QUESTION)

    def _approve(self, request: RequestView) -> None:
        self._printer.tell(f"a person has to review it: {request.text}")
        self._print_why(self._client.task(request.task))
        if request.subject is Subject.STAGE:
            review = self._client.review(request)
            if review.change and review.worktree and review.head:
                span = f"{review.base_commit[:9]} {review.head[:9]}"
                self._printer.command(f"git -C {shlex.quote(review.worktree)} diff {span}")
                self._printer.detail(f"{review.change.files} files changed, {review.change.added} lines added")
        self._client.approve(request)
        self._printer.command(f"orchestrator approve {request.task}")
        self._happened(StoryPart.REVIEW)

    def _print_why(self, task: TaskView) -> None:
        found = self._client.why(task.id)
        self._printer.command(f"orchestrator why {task.id}")
        self._printer.detail(*(f"because {fact}" for fact in found.facts), f"next: {found.next}")

    def _freeze_and_thaw(self, task: TaskView) -> None:
        """Pause and resume the task, and check that its processes stop and continue. Raises DemoFailed."""
        environment, printer = self.environment, self._printer
        self._client.request(task.id, "pause")
        printer.command(f"orchestrator pause {task.id}")
        task = self._until(task, lambda now: now.run is None or now.run.process is ProcessState.FROZEN)
        states = process_states(Path(task.folder), task.run.folder) if task.run else {}
        printer.tell(f"paused: {len(states)} processes are stopped: {', '.join(f'{p} {s}' for p, s in states.items())}")
        before = environment.tick_count()
        time.sleep(FROZEN_SECONDS)
        ticked = environment.tick_count() - before
        if not environment.claude:
            printer.tell(f"the agent's command, which ticks every 0.1 s, ticked {ticked} times in {FROZEN_SECONDS} s")
        if ticked or not STILL.issuperset(states.values()):
            raise DemoFailed(f"a paused process continued; the decisions are in {task.folder}/journal.jsonl")
        self._client.request(task.id, "resume")
        printer.command(f"orchestrator resume {task.id}")
        self._until(task, lambda now: not now.paused and (environment.claude or environment.tick_count() > before))
        printer.tell("resumed: the agent continues in the middle of its command")
        self._happened(StoryPart.PAUSE)

    def _kill_and_start(self, task: TaskView) -> None:
        """Kill the daemon while an agent works, and start it again. Raises DemoFailed."""
        agent, killed = task.agent, self.environment.pid
        self.environment.kill()
        self._printer.command(f"kill -9 {killed}")
        lives = agent.pid is not None and state_of(agent.pid) != GONE
        what = f"the {agent.role} (pid {agent.pid}) {'keeps working' if lives else 'is gone'}"
        self._printer.tell(f"killed the daemon with SIGKILL; {what}")
        self._start()
        if not lives and not self.environment.claude:
            raise DemoFailed(f"the agent died with the daemon; look at {task.folder}/agents")
        self._happened(StoryPart.KILL)

    def _check_end(self, task: TaskView) -> None:
        if task.status is not TaskStatus.COMPLETED:
            raise DemoFailed(
                f"the task ended as {task.status}: {task.block_reason}; the daemon's log is {self.environment.log}"
            )
        lacking = [moment.value for moment in StoryPart if moment not in self.moments]
        if lacking and not self.environment.claude:
            raise DemoFailed(f"these parts of the demo did not happen: {', '.join(lacking)}; look at {task.folder}")

    def _happened(self, moment: StoryPart) -> None:
        if moment not in self.moments:
            self.moments.append(moment)


def print_ending(printer: Printer, environment: DemoEnvironment, task: TaskView) -> None:
    """Print what was built and where to look at it."""
    folder, log = Path(task.folder), f"git -C {environment.repository} log -p main..{task.branch}"
    is_built = bool(environment.git("branch", "--list", task.branch))
    built = f"Built in {printer.elapsed():.0f} s: the branch {task.branch} of {environment.repository}"
    printer.blank()
    printer.heading(built if is_built else f"Done in {printer.elapsed():.0f} s")
    if is_built:
        commits = environment.git("log", "--reverse", "--format=%h %s", f"main..{task.branch}").splitlines()
        printer.lines(*commits, environment.git("diff", "--shortstat", f"main...{task.branch}").strip())
    printer.heading("Look at the result")
    found = {name: f"{folder / name}{note}" for name, note in LEFT.items() if (folder / name).exists()}
    printer.lines(
        *found.values(),
        *([log] if is_built else []),
        f"orchestrator --config {environment.config} serve   (and in another terminal:)",
        f"orchestrator --config {environment.config} show {task.id}   (or why, logs, checkpoints list)",
    )
    printer.heading("Clean up")
    printer.lines(f"rm -r {environment.root}")
    printer.heading("Next")
    printer.lines("orchestrator doctor, then orchestrator serve and orchestrator submit")


def _end(environment: DemoEnvironment, printer: Printer) -> None:
    """Stop everything that the demo started; a second Ctrl-C does not interrupt that."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        environment.end()
        printer.tell("everything that the demo started has ended")
    finally:
        signal.signal(signal.SIGINT, before)
        printer.detail(f"its files are in {environment.root}")


@contextmanager
def _ended_like_ctrl_c() -> Iterator[None]:
    """Treat SIGTERM and SIGHUP as Ctrl-C, unless they are ignored."""
    taken = [number for number in ENDINGS if signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)

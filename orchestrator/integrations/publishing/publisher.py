"""Publishing a finished change: executes each publishing command, repeats it after a pause, and comments on the ticket.

Every command checks first whether its effect is there already, so it may be executed again. What a forge cannot do now
is repeated after the pause that it names; what a person has to fix is raised.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar, assert_never

import structlog

from orchestrator.core.decide.final_message import report_file
from orchestrator.core.events import commands as do
from orchestrator.core.events import events, publish_events
from orchestrator.core.events.forge import PullStatus
from orchestrator.core.task.task import Task
from orchestrator.errors import OrchestratorError
from orchestrator.integrations.errors import RemoteError
from orchestrator.integrations.forges.texts import neutralize
from orchestrator.integrations.publishing.merge import merge_pull_request
from orchestrator.integrations.publishing.outbound import Outbound
from orchestrator.integrations.publishing.proposal import open_pull_request
from orchestrator.integrations.publishing.release import Release
from orchestrator.integrations.publishing.review_round import look_at_pull_request

log = structlog.get_logger()

AT_ONCE = 16
"""Changes that are published at the same time; a slow forge delays other changes, and nothing else."""
LONGEST_PAUSE = 900.0
"""Seconds until a forge that could not answer is asked again at the latest."""
PublishCommand = (
    do.OpenPullRequest | do.LookAtPullRequest | do.MergePullRequest | do.PrepareRelease | do.TagRelease | do.PostReport
)
T = TypeVar("T")
TellTracker = Callable[[Task, str, str | None], Awaitable[str]]
"""Comments on a task's ticket and sets its status, if one is given; returns why that failed, or ""."""


class PublishCancelled(OrchestratorError):
    """The task was stopped while it waited for its forge; nothing more is published for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    """Executes publishing commands, at most `AT_ONCE` of them at a time."""

    outbound: Outbound
    tell_tracker: TellTracker
    waiting: dict[str, asyncio.Event] = field(default_factory=dict)
    """One event for each task that waits for its forge; set when the task stops."""
    threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(AT_ONCE, "publisher"), repr=False)

    def on_decision(self, task: Task, _event: events.Event) -> None:
        """Stop waiting for the forge of a task that is no longer active."""
        if not task.is_active and task.id in self.waiting:
            self.waiting[task.id].set()

    async def execute(self, task: Task, command: PublishCommand) -> publish_events.PublishEvent:
        """Execute a command and return its event. Raises what a person has to fix, and PublishCancelled."""
        while True:
            try:
                return await self._execute(task, command)
            except RemoteError as error:
                if error.again_after is None:
                    raise
                pause = min(error.again_after, LONGEST_PAUSE)
                log.warning("forge_put_off", task=task.id, command=type(command).__name__, reason=str(error))
            await self._wait(task, pause)

    async def _wait(self, task: Task, pause: float) -> None:
        """Wait for so many seconds. Raises PublishCancelled."""
        stopped = self.waiting[task.id] = asyncio.Event()
        try:
            async with asyncio.timeout(pause):
                await stopped.wait()
        except TimeoutError:
            return
        finally:
            del self.waiting[task.id]
        raise PublishCancelled(f"{task.id} was stopped while it waited for its forge")

    async def _execute(self, task: Task, command: PublishCommand) -> publish_events.PublishEvent:
        out = self.outbound
        match command:
            case do.OpenPullRequest():
                opened = await self._in_thread(partial(open_pull_request, out, task, command))
                if isinstance(opened, publish_events.PullRequestOpened):
                    await self._tell_proposal(task, opened)
                return opened
            case do.LookAtPullRequest():
                seen = await self._in_thread(partial(look_at_pull_request, out, task, command))
                if seen.status is PullStatus.MERGED:
                    await self._tell(task, f"Merged as {seen.merge_commit}", "Done")
                return seen
            case do.MergePullRequest():
                merged = await self._in_thread(partial(merge_pull_request, out, task, command))
                if isinstance(merged, publish_events.PullRequestMerged):
                    await self._tell(task, f"Merged as {merged.commit}", "Done")
                return merged
            case do.PrepareRelease():
                return await self._in_thread(partial(self._prepare_release, task, command))
            case do.TagRelease():
                released = await self._in_thread(partial(self._tag_release, task, command))
                await self._tell(task, f"Released as {released.tag}", "Done")
                return released
            case do.PostReport():
                return await self._post_report(task, command)
            case _:
                assert_never(command)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Run something that blocks, in a thread: a remote server decides how long it takes."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, work)

    async def _tell(self, task: Task, text: str, status: str | None) -> str:
        """Comment on the ticket; if the tracker refuses, only a warning is logged, because the work itself is done."""
        failure = await self.tell_tracker(task, neutralize(self.outbound.fit(text)), status)
        if failure:
            log.warning("ticket_not_told", task=task.id, reason=failure)
        return failure

    def _prepare_release(self, task: Task, command: do.PrepareRelease) -> publish_events.ReleasePrepared:
        upstream = self.outbound.upstream(task)
        self.outbound.refuse_secrets(task, command.commit)
        out = self.outbound
        summary = out.files.read_text(task.id, out.family_of(task).release_summary)
        release = Release(out.workspace, out.files)
        version, commit = release.prepare(task, summary, command.commit, out.fit, upstream)
        return publish_events.ReleasePrepared(at=self.outbound.clock(), version=version, commit=commit)

    def _tag_release(self, task: Task, command: do.TagRelease) -> publish_events.Released:
        tag = Release(self.outbound.workspace, self.outbound.files).tag(task, command, self.outbound.upstream(task))
        return publish_events.Released(at=self.outbound.clock(), tag=tag)

    async def _tell_proposal(self, task: Task, opened: publish_events.PullRequestOpened) -> None:
        """Comment on the ticket with the pull request, and after a round of review with the commits of the round."""
        await self._tell(task, f"Pull request: {opened.url}", "In Review")
        before = task.publication.head
        if task.publication.round and before and before != opened.commit:
            await self._tell(task, f"Review feedback addressed in {before[:12]}..{opened.commit[:12]}", None)

    async def _post_report(
        self, task: Task, command: do.PostReport
    ) -> publish_events.ReportPosted | publish_events.PublicationHeld:
        """Post the last report that a stage left as a comment on the ticket."""
        report = report_file(task)
        if report is None:
            return publish_events.ReportPosted(at=self.outbound.clock(), failure="no stage left a report")
        text = self.outbound.files.read_text(task.id, report)
        held = self.outbound.held(task, text, command.confirmed)
        if held is not None:
            return held
        failure = await self._tell(task, text, "Done")
        url = None if failure else self.outbound.sources(task).ticket_url
        return publish_events.ReportPosted(at=self.outbound.clock(), url=url, failure=failure)

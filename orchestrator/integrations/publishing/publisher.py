"""Carrying a finished change out of the machine: push, pull request, answers to reviewers, merge, release, report.

Everything is looked for before it is done, so each may be asked for again. Every text that leaves goes through the
sanitizer and is stopped when that says so: then it is kept in quarantine, and a person is told which rules it met in
which lines. What a forge cannot do now is tried again after the time that it names; what a person has to mend is
raised.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TypeVar, assert_never

import orjson
import structlog

from orchestrator.core.decide.final_message import report_file
from orchestrator.core.events import commands as do
from orchestrator.core.events import events, publish_events
from orchestrator.core.events.forge import PullRequestDraft, PullState, PullStatus
from orchestrator.core.task.pipeline import Family
from orchestrator.core.task.task import Task
from orchestrator.errors import OrchestratorError
from orchestrator.formats.codec import JsonObject
from orchestrator.formats.fields import object_of, text_of
from orchestrator.formats.files import parsed
from orchestrator.integrations.forges.errors import ForgeError, ForgeUnreachable, MergeRefused
from orchestrator.integrations.forges.open_forge import Host, Opened, open_forge
from orchestrator.integrations.forges.protocol import Forge
from orchestrator.integrations.forges.texts import neutralize
from orchestrator.integrations.publishing.feedback import Round, feedback, new_failures
from orchestrator.integrations.publishing.merge_policy import UNSETTLED, MergePolicy, merge_blockers
from orchestrator.integrations.publishing.pull_request import (
    PullRequestWords,
    Sources,
    criteria_of,
    labels,
    pull_request,
    related_code,
    squash_commit,
)
from orchestrator.integrations.publishing.push import forge_address, push, push_address
from orchestrator.integrations.publishing.release import Release, Upstream
from orchestrator.redaction.outgoing_text import TextKind, sanitize
from orchestrator.redaction.rules import Redactor, Result
from orchestrator.storage.quarantine import quarantine
from orchestrator.storage.task_files import TaskFiles
from orchestrator.workspaces.evaluation.secret_scan import refuse_told_secrets
from orchestrator.workspaces.workspace import Workspace

log = structlog.get_logger()

AT_ONCE = 16
"""Changes that are brought out at the same time: slow forges hold up one another, and nothing else."""
MOST_NAMED = 10
"""Commits that are named in an answer to a reviewer."""
LONGEST_PAUSE = 900.0
"""Seconds until a forge that could not answer is asked again at the latest."""
SOON = 10.0
"""Seconds in which a forge works out whether a pull request can be merged."""
Publishing = (
    do.OpenPullRequest | do.LookAtPullRequest | do.MergePullRequest | do.PrepareRelease | do.TagRelease | do.PostReport
)
Came = TypeVar("Came")
Tell = Callable[[Task, str, str | None], Awaitable[str]]
"""Leaves a comment on a task's ticket and sets its status, if one is given; answers with why not, or with nothing."""


class PublishRefused(OrchestratorError):
    """A text that was to leave holds what must not be passed on; the message says where it is kept and why."""


class PublishCancelled(OrchestratorError):
    """The task was given up while its forge was waited for; nothing more is done for it outside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    """`hosts` is what the settings say of forges now; `quarantined` is where texts are kept that must not leave."""

    workspace: Workspace
    files: TaskFiles
    release: Release
    hosts: Callable[[], Mapping[str, Host]]
    redactor: Redactor
    quarantined: Path
    tell_tracker: Tell
    family_of: Callable[[Task], Family]
    clock: Callable[[], datetime]
    waiting: dict[str, asyncio.Event] = field(default_factory=dict)
    """Of the tasks whose forge is waited for; set where the task is given up meanwhile."""
    threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(AT_ONCE, "publisher"), repr=False)

    def decided(self, task: Task, _event: events.Event) -> None:
        """Wait no longer for the forge of a task that is at work no more."""
        if not task.is_active and task.id in self.waiting:
            self.waiting[task.id].set()

    async def execute(self, task: Task, command: Publishing) -> publish_events.PublishEvent:
        """Bring it about, and give what came of it. Raises what a person has to mend, and PublishCancelled."""
        while True:
            try:
                return await self._effect(task, command)
            except ForgeError as error:
                if error.again_after is None:
                    raise
                pause = min(error.again_after, LONGEST_PAUSE)
                log.warning("forge_put_off", task=task.id, command=type(command).__name__, reason=str(error))
            await self._wait(task, pause)

    async def _wait(self, task: Task, pause: float) -> None:
        """Let so many seconds pass. Raises PublishCancelled."""
        given_up = self.waiting[task.id] = asyncio.Event()
        try:
            async with asyncio.timeout(pause):
                await given_up.wait()
        except TimeoutError:
            return
        finally:
            del self.waiting[task.id]
        raise PublishCancelled(f"{task.id} was given up while its forge was waited for")

    async def _effect(self, task: Task, command: Publishing) -> publish_events.PublishEvent:
        match command:
            case do.OpenPullRequest():
                opened = await self._apart(partial(self._open, task, command))
                await self._tell(task, f"Pull request: {opened.url}", "In Review")
                return opened
            case do.LookAtPullRequest():
                seen = await self._apart(partial(self._look, task, command))
                if seen.status is PullStatus.MERGED:
                    await self._tell(task, f"Merged as {seen.merge_commit}", "Done")
                return seen
            case do.MergePullRequest():
                merged = await self._apart(partial(self._merge, task, command))
                if isinstance(merged, publish_events.PullRequestMerged):
                    await self._tell(task, f"Merged as {merged.commit}", "Done")
                return merged
            case do.PrepareRelease():
                return await self._apart(partial(self._prepare, task, command))
            case do.TagRelease():
                released = await self._apart(partial(self._tag, task, command))
                await self._tell(task, f"Released as {released.tag}", "Done")
                return released
            case do.PostReport():
                return await self._post(task)
            case _:
                assert_never(command)

    async def _apart(self, work: Callable[[], Came]) -> Came:
        """What comes of something that blocks for as long as another machine likes: in threads of its own."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, work)

    async def _tell(self, task: Task, text: str, status: str | None) -> str:
        """What a tracker does not take is a warning: the work is done all the same."""
        failure = await self.tell_tracker(task, neutralize(self._fit(text, TextKind.TEXT)), status)
        if failure:
            log.warning("ticket_not_told", task=task.id, reason=failure)
        return failure

    def _open(self, task: Task, command: do.OpenPullRequest) -> publish_events.PullRequestOpened:
        sources, address = self._sources(task), push_address(Path(task.source.repo))
        words = self._words(pull_request(task, sources))
        self._refuse_told_secrets(task, command.commit)
        with self._forge(task) as opened:
            clone = self.workspace.clone_of(task.id)
            push(clone, address or "", command.commit, f"refs/heads/{command.branch}", opened.login)
            draft = PullRequestDraft(
                key=f"{task.id}:pull-request",
                head=command.branch,
                base=task.source.base_branch,
                title=words.title,
                body=words.body,
            )
            pull = opened.forge.open(draft)
            if pull.status is PullStatus.MERGED and pull.head_sha != command.commit:  # it was merged during the round
                pull = opened.forge.open(replace(draft, key=f"{draft.key}:{command.round}"))
            try:
                opened.forge.add_labels(pull.number, tuple(filter(self._is_clean, labels(task, sources.related))))
            except ForgeError as error:
                log.warning("labels_not_set", task=task.id, reason=str(error))
            self._reply(task, command, opened, pull.number)
        return publish_events.PullRequestOpened(
            at=self.clock(), number=pull.number, url=pull.url, commit=command.commit
        )

    def _reply(self, task: Task, command: do.OpenPullRequest, opened: Opened, number: int) -> None:
        """Each comment is answered once, with the commits of the round; who looked before is asked to look again.

        Also after a round that nobody asked for: an approval counts for the commit that was looked at.
        """
        text = self._fit(self._answer(task, command.commit), TextKind.TEXT) if command.replies else ""
        for reply in command.replies:
            key = f"{task.id}:reply:{_name(reply.mark)}"
            _as_far_as_it_goes(task, partial(opened.forge.reply, number, reply.comment_id, key, text))
        for reviewer in task.publication.reviewers:
            _as_far_as_it_goes(task, partial(opened.forge.request_review, number, (reviewer,)))

    def _answer(self, task: Task, commit: str) -> str:
        """What was made of a round, counted from what was pushed before it."""
        since = task.publication.head or task.source.base_commit
        commits = self.workspace.clone_of(task.id).git.run("rev-list", "--reverse", f"{since}..{commit}").split()
        if not commits:
            return "Looked at; nothing was changed for it."
        more = f" and {len(commits) - MOST_NAMED} more" if len(commits) > MOST_NAMED else ""
        return f"Addressed in {', '.join(one[:12] for one in commits[:MOST_NAMED])}{more}."

    def _look(self, task: Task, command: do.LookAtPullRequest) -> publish_events.PullRequestSeen:
        """What cannot be seen now is told as a hindrance: a look that fails is no reason to halt a task."""
        try:
            with self._forge(task) as opened:
                state = opened.forge.state(command.number)
                ours = state.pull.status is PullStatus.OPEN and state.pull.head_sha == task.publication.head
                looked = self._heard(opened.forge, command, state) if ours else None
        except ForgeError as error:
            return publish_events.PullRequestSeen(
                at=self.clock(),
                number=command.number,
                status=PullStatus.OPEN,
                hindrances=(f"the pull request could not be looked at: {error}",),
                look_after=max(error.again_after, task.policy.look_every) if error.again_after else None,
            )
        new = feedback(looked, frozenset(command.seen)) if looked else None
        if new is not None:
            self.files.write(task.id, f"{new.name}.md", self.redactor.masked(new.markdown).encode())
            masked = self.redactor.masked(orjson.dumps(new.document, option=orjson.OPT_INDENT_2).decode())
            self.files.write(task.id, f"{new.name}.json", masked.encode())
        hindrances = self._hindrances(task, state)
        unsettled = UNSETTLED in hindrances and hindrances != task.publication.hindrances
        return publish_events.PullRequestSeen(
            at=self.clock(),
            number=command.number,
            status=state.pull.status,
            hindrances=hindrances,
            reviewers=tuple(dict.fromkeys(review.author for review in state.reviews if review.counts)),
            feedback=new.name if new else None,
            marks=new.marks if new else (),
            comments=new.answers if new else (),
            merge_commit=state.pull.merge_commit,
            asked=command.asked and looked is not None,
            look_after=SOON if unsettled else None,
        )

    def _heard(self, forge: Forge, command: do.LookAtPullRequest, state: PullState) -> Round:
        """What reviewers and checks say of the commit that was judged here.

        Of another one nothing is taken up: a round over it could not be pushed.
        """
        failed = new_failures(state, frozenset(command.seen))
        return Round(
            number=command.round,
            at=self.clock(),
            state=state,
            comments=forge.open_comments(command.number),
            failed=tuple(forge.failure(check, state.pull.head_sha) for check in failed),
        )

    def _merge(
        self, task: Task, command: do.MergePullRequest
    ) -> publish_events.PullRequestMerged | publish_events.MergeRefused:
        with self._forge(task) as opened:
            state = opened.forge.state(command.number)
            if state.pull.status is PullStatus.MERGED:
                self._clean_up(task, command, opened)
                return publish_events.PullRequestMerged(at=self.clock(), commit=state.pull.merge_commit or command.head)
            hindrances = self._hindrances(task, state)
            if hindrances == (UNSETTLED,):
                raise ForgeUnreachable(f"{state.pull.url}: {UNSETTLED}", again_after=SOON)
            if hindrances:
                return publish_events.MergeRefused(at=self.clock(), hindrances=hindrances)
            subjects = self.workspace.subjects(task.id, task.source.base_commit, command.head)
            words = squash_commit(task, subjects, command.number, state.pull.url, self._sources(task))
            words = self._words(words)
            try:
                merged = opened.forge.merge(command.number, words.title, words.body, command.head)
            except MergeRefused as error:
                if error.again_after is not None:
                    raise
                return publish_events.MergeRefused(at=self.clock(), hindrances=(str(error),))
            self._clean_up(task, command, opened)
        return publish_events.PullRequestMerged(at=self.clock(), commit=merged)

    def _clean_up(self, task: Task, command: do.MergePullRequest, opened: Opened) -> None:
        try:
            opened.forge.delete_branch(command.number)
        except ForgeError as error:
            log.warning("branch_not_deleted", task=task.id, reason=str(error))

    def _hindrances(self, task: Task, state: PullState) -> tuple[str, ...]:
        policy = MergePolicy(head=task.publication.head or "", approvals=task.policy.approvals)
        return merge_blockers(state, policy) if state.pull.status is PullStatus.OPEN else ()

    def _prepare(self, task: Task, command: do.PrepareRelease) -> publish_events.ReleasePrepared:
        fit, upstream = partial(self._fit, outlet=TextKind.TEXT), self._upstream(task)
        self._refuse_told_secrets(task, command.commit)
        summary = self.files.read_text(task.id, self.family_of(task).release_summary)
        version, commit = self.release.prepare(task, summary, command.commit, fit, upstream)
        return publish_events.ReleasePrepared(at=self.clock(), version=version, commit=commit)

    def _tag(self, task: Task, command: do.TagRelease) -> publish_events.Released:
        tag = self.release.tag(task, command, self._upstream(task))
        return publish_events.Released(at=self.clock(), tag=tag)

    def _upstream(self, task: Task) -> Upstream | None:
        """Where a release is pushed to; None if it stays at home."""
        address = push_address(Path(task.source.repo)) if task.publication.forge else None
        if address is None:
            return None
        with self._forge(task) as opened:
            return Upstream(address=address, login=opened.login)

    async def _post(self, task: Task) -> publish_events.ReportPosted:
        report = report_file(task)
        if report is None:
            return publish_events.ReportPosted(at=self.clock(), failure="no stage left a report")
        text = self.files.read_text(task.id, report)
        failure = await self._tell(task, text, "Done")
        url = None if failure else self._sources(task).ticket_url
        return publish_events.ReportPosted(at=self.clock(), url=url, failure=failure)

    def _forge(self, task: Task) -> "_Closing":
        """The forge of the task's repository, which may have moved since the task was handed in."""
        address = forge_address(Path(task.source.repo)) or task.publication.forge or ""
        return _Closing(open_forge(address, self.hosts()))

    def _sources(self, task: Task) -> Sources:
        family = self.family_of(task)
        ticket, template = self._document(task, "ticket.json"), self._document(task, "ticket-parsed.json")
        return Sources(
            analysis=self.files.read_text(task.id, family.analysis),
            related=related_code(self.files.read_text(task.id, family.related_code)),
            acceptance=criteria_of(object_of(template.get("fields")).get("acceptance_criteria")),
            ticket_url=text_of(ticket.get("url"), 2000) or None,
        )

    def _document(self, task: Task, name: str) -> JsonObject:
        return object_of(parsed(self.files.read(task.id, name)))

    def _words(self, words: PullRequestWords) -> PullRequestWords:
        return PullRequestWords(title=self._fit(words.title, TextKind.TITLE), body=self._fit(words.body, TextKind.TEXT))

    def _is_clean(self, label: str) -> bool:
        return sanitize(label, TextKind.TITLE, self.redactor).verdict is Result.CLEAN

    def _refuse_told_secrets(self, task: Task, commit: str) -> None:
        refuse_told_secrets(self.workspace.git_of(task.id), task.source.base_commit, commit, self.redactor)

    def _fit(self, text: str, outlet: TextKind) -> str:
        """The text as it may leave. Raises PublishRefused, and keeps it, where it must not."""
        result = sanitize(text, outlet, self.redactor)
        if result.verdict is not Result.BLOCKED:
            return result.text
        kept = quarantine(self.quarantined, text, self.redactor.scan(text))
        rules = ", ".join(f"{finding.rule} in line {finding.line}" for finding in result.findings)
        raise PublishRefused(
            f"a text that was to be published holds what must not be passed on ({rules}); it is kept in {kept}: "
            "mend the artifact that it came from, then retry"
        )


@dataclass(frozen=True, slots=True)
class _Closing:
    """A forge whose connections are closed when it is left."""

    opened: Opened

    def __enter__(self) -> Opened:
        return self.opened

    def __exit__(self, *_: object) -> None:
        self.opened.forge.close()


def _as_far_as_it_goes(task: Task, say: Callable[[], object]) -> None:
    """Say something that nothing hangs on: what it answers may have been deleted, and who is asked may have left.

    Raises what will pass by itself.
    """
    try:
        say()
    except ForgeError as error:
        if error.again_after is not None:
            raise
        log.warning("reviewer_not_told", task=task.id, reason=str(error))


def _name(mark: str) -> str:
    """A mark in letters that a forge's key may have."""
    return sha256(mark.encode()).hexdigest()[:16]

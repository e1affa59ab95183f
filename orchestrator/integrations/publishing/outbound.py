"""What publishing works with: the task's repository and forge, the content of its artifacts, and the filter for texts.

Every text that is published passes the sanitizer. One that it blocks is kept in quarantine, and the error names the
rules that matched, and the lines.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path

from orchestrator.core.events.publish_events import PublicationHeld
from orchestrator.core.family.family import Family
from orchestrator.core.task.task import Task
from orchestrator.core.task.task_policy import Autonomy
from orchestrator.core.task.user_requests import RequestDraft, Subject
from orchestrator.errors import OrchestratorError
from orchestrator.formats.codec import JsonObject
from orchestrator.formats.fields import object_of, text_of
from orchestrator.formats.files import parsed
from orchestrator.integrations.forges.open_forge import Host, Opened, open_forge
from orchestrator.integrations.publishing.pull_request import PullRequestWords, Sources, criteria_of, related_code
from orchestrator.integrations.publishing.push import forge_address, push_address
from orchestrator.integrations.publishing.release import Upstream
from orchestrator.redaction.outgoing_text import TextKind, sanitize
from orchestrator.redaction.rules import Redactor, Result
from orchestrator.storage.quarantine import quarantine
from orchestrator.storage.task_files import TaskFiles
from orchestrator.workspaces.evaluation.attention import look_first
from orchestrator.workspaces.evaluation.secret_scan import refuse_secrets_in_messages
from orchestrator.workspaces.workspace import Workspace

MASKED = "to-be-published.md"
"""Where a person finds a text in which secrets were masked."""


class PublishRefused(OrchestratorError):
    """A text contains what must not be published; the message says why, and where the text is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outbound:
    """`hosts` gives what the settings say about forges now; blocked texts are kept in `quarantined`."""

    workspace: Workspace
    files: TaskFiles
    family_of: Callable[[Task], Family]
    hosts: Callable[[], Mapping[str, Host]]
    redactor: Redactor
    quarantined: Path
    clock: Callable[[], datetime]

    @contextmanager
    def forge(self, task: Task) -> Iterator[Opened]:
        """Open the forge of the task's repository, which may have moved since the task was submitted. Blocks."""
        opened = open_forge(forge_address(Path(task.source.repo)) or task.publication.forge or "", self.hosts())
        with closing(opened.forge):
            yield opened

    def upstream(self, task: Task) -> Upstream | None:
        """Return where a release is pushed to, None if it stays on this machine."""
        address = push_address(Path(task.source.repo)) if task.publication.forge else None
        if address is None:
            return None
        with self.forge(task) as opened:
            return Upstream(address=address, login=opened.login)

    def sources(self, task: Task) -> Sources:
        """Return what the task's artifacts contribute to a pull request."""
        family = self.family_of(task)
        ticket, template = self._document(task, "ticket.json"), self._document(task, "ticket-parsed.json")
        return Sources(
            analysis=self.files.read_text(task.id, family.analysis),
            related=related_code(self.files.read_text(task.id, family.related_code)),
            acceptance=criteria_of(object_of(template.get("fields")).get("acceptance_criteria")),
            ticket_url=text_of(ticket.get("url"), 2000) or None,
            look_first=self._look_first(task),
        )

    def refuse_secrets(self, task: Task, commit: str) -> None:
        """Raise SecretLeaked if a commit that would be pushed, or its message, adds a secret."""
        refuse_secrets_in_messages(self.workspace.git_of(task.id), task.source.base_commit, commit, self.redactor)

    def fit(self, text: str, kind: TextKind = TextKind.TEXT) -> str:
        """Return the text as it may be published. Raises PublishRefused and keeps the text if it must not be."""
        result = sanitize(text, kind, self.redactor)
        if result.verdict is not Result.BLOCKED:
            return result.text
        kept = quarantine(self.quarantined, text, self.redactor.scan(text))
        rules = ", ".join(f"{finding.rule} in line {finding.line}" for finding in result.findings)
        raise PublishRefused(
            f"a text contains what must not be published ({rules}); it is kept in {kept}: "
            "fix the artifact that it came from, then retry"
        )

    def held(self, task: Task, text: str, confirmed: Sequence[str]) -> PublicationHeld | None:
        """Return the event of an attended task whose text would go out with secrets masked, unless a person has
        confirmed that very text. The text is kept, masked, for the person to read.
        """
        scan = self.redactor.scan(text)
        if task.policy.autonomy is not Autonomy.INTERACTIVE or scan.result is not Result.REDACTED:
            return None
        rules = ", ".join(dict.fromkeys(f"{finding.rule} in line {finding.line}" for finding in scan.findings))
        draft = RequestDraft(
            subject=Subject.PUBLISH,
            text=f"secrets are masked in the text that is to be published ({rules}): read {task.display_path(MASKED)}, "
            "then publish it like that, or have the file changed that it comes from",
            name=task.stage,
            content=sha256(scan.text.encode()).hexdigest(),
        )
        if draft.digest in confirmed:
            return None
        self.files.write(task.id, MASKED, scan.text.encode())
        return PublicationHeld(at=self.clock(), asking=draft)

    def fit_words(self, words: PullRequestWords) -> PullRequestWords:
        """Return a title and a body as they may be published; raises as `fit`."""
        return PullRequestWords(title=self.fit(words.title, TextKind.TITLE), body=self.fit(words.body))

    def is_clean(self, label: str) -> bool:
        """Return whether a label may be published unchanged."""
        return sanitize(label, TextKind.TITLE, self.redactor).verdict is Result.CLEAN

    def _look_first(self, task: Task) -> tuple[str, ...]:
        source = task.source
        return look_first(self.workspace.git_of(task.id), source.base_commit, source.commit, task.evaluation.checks)

    def _document(self, task: Task, name: str) -> JsonObject:
        return object_of(parsed(self.files.read(task.id, name)))

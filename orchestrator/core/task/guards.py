"""Guards: the conditions between two stages, and the evidence that they judge.

A guard answers with a list of what is missing, which is empty when the guard holds. It sees the task and the evidence
that the daemon itself found in files and in git. It never sees what an agent says about its own work.

Each kind of guard is one class with one entry in the table `core.guards.GUARDS`, or in its family's own table.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import ClassVar

from orchestrator.core.family.verdict import Verdict
from orchestrator.core.task.children import ChildPlan
from orchestrator.core.task.failures import Analysis
from orchestrator.core.task.task import Task

LOCAL_BYPASS = "LOCAL_BYPASS"
"""The result of the secret scan for a ticket that a person submitted without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """What the daemon knows about one artifact.

    `chars` is its length without surrounding white space, `digests` are hashes of the text below each heading,
    `json_filled` are the keys with a value (None where the file is not a JSON object), `digest` hashes the content.
    `children` are the ones that a plan of children names, `verdict` is that of a verifier, `problems` say why the file
    cannot be read as what it should be. `found` are those of the words that guards look for which it contains. `marks`
    are what its family notes about it for guards of its own.
    """

    chars: int
    headings: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()
    json_filled: tuple[str, ...] | None = None
    digest: str = ""
    children: tuple[ChildPlan, ...] = ()
    verdict: Verdict | None = None
    problems: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the daemon found: artifacts by name, documents by path, files that it refused, and the state of the branch.

    `fresh` names the artifacts that were left since the last look, `commits` are the new ones, oldest first, and
    `subjects` the first lines of their messages. `absent` are commits on record that the repository does not have.
    """

    files: Mapping[str, FileFacts] = field(default_factory=dict)
    fresh: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    head: str | None = None
    commits: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    dirty: tuple[str, ...] = ()
    analysis: Analysis | None = None

    @property
    def digest(self) -> str:
        """A hash of everything that a person would review."""
        seen = [self.head or "", *(f"{name} {facts.digest}" for name, facts in sorted(self.files.items()))]
        return sha256("\n".join(seen).encode()).hexdigest()


NOTHING_SEEN = Evidence()


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard(ABC):
    """One condition for leaving a stage.

    Every kind of guard is a frozen dataclass. Its fields are the keys that a pipeline file gives it: `str`, `int` or
    `tuple[str, ...]`. A field's metadata may hold `minimum` (of a number) or `choices` (of texts).
    """

    file_keys: ClassVar[tuple[str, ...]] = ()
    """Fields that name a file which some stage must leave, or the guard could never hold."""
    budget_keys: ClassVar[tuple[str, ...]] = ()
    """Fields that name a budget of the pipeline."""
    needs_steps: ClassVar[bool] = False
    """Whether it can only hold in a pipeline with a stage that works through the steps of a plan."""

    @abstractmethod
    def missing(self, task: Task, evidence: Evidence) -> tuple[str, ...]:
        """Return what keeps this guard from holding, in words for agents and people; nothing if it holds."""

    @abstractmethod
    def describe(self) -> str:
        """Return the condition in a few words, for graphs."""

    def overspent(self, task: Task) -> tuple[str, ...]:
        """Return the exceeded budgets. No agent can change that, so an unattended task accepts them."""
        del task
        return ()

    def accepted_verdicts(self) -> tuple[str, ...]:
        """Return the verdicts of checks that this guard accepts."""
        return ()

    def sought(self) -> tuple[str, ...]:
        """Return the words that this guard looks for in files."""
        return ()

    def sample_files(self) -> Mapping[str, FileFacts]:
        """Return files with which this guard holds, for the simulation."""
        return {}


def missing(guards: Sequence[Guard], task: Task, evidence: Evidence) -> tuple[str, ...]:
    """Return everything that keeps these guards from holding, in their order, each once."""
    return tuple(dict.fromkeys(lack for guard in guards for lack in guard.missing(task, evidence)))


def accepted(guards: Sequence[Guard]) -> frozenset[str]:
    """Return the verdicts of checks that these guards accept."""
    return frozenset(verdict for guard in guards for verdict in guard.accepted_verdicts())


def sought(guards: Sequence[Guard]) -> tuple[str, ...]:
    """Return the words that these guards look for in files, each once."""
    return tuple(dict.fromkeys(word for guard in guards for word in guard.sought()))


def overspent(guards: Sequence[Guard], task: Task) -> tuple[str, ...]:
    """Return the budgets of which more was used than these guards allow."""
    return tuple(lack for guard in guards for lack in guard.overspent(task))


def missing_of_step(evidence: Evidence) -> tuple[str, ...]:
    """Return what a step still lacks to count as done: a commit of its own, and a clean worktree after it."""
    return (() if evidence.commits else ("no new commit was made for this step",)) + uncommitted(evidence)


def uncommitted(evidence: Evidence) -> tuple[str, ...]:
    """Return a line that names the first uncommitted files; nothing if the worktree is clean."""
    shown = ", ".join(evidence.dirty[:10]) + (", …" if len(evidence.dirty) > 10 else "")
    return (f"uncommitted changes: {shown}",) if evidence.dirty else ()

"""Examine what a stage left behind: artifacts from the outbox, the task's files, the state of the branch.

This module only collects facts; guards decide what they mean. Everything is bounded, because it comes from an agent.
"""

import re
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import orjson

from orchestrator.core.events.commands import LookAtGate
from orchestrator.core.family.family import Family, examine_nothing, prepare_nothing
from orchestrator.core.task import guards
from orchestrator.core.task.children import problems_of
from orchestrator.core.task.failures import Analysis
from orchestrator.core.task.guards import Evidence, FileFacts
from orchestrator.core.task.pipeline import Pipeline, Stage
from orchestrator.core.task.task import Task
from orchestrator.errors import OrchestratorError
from orchestrator.formats.codec import from_json
from orchestrator.formats.files import write_atomically
from orchestrator.redaction.display import remove_disguise
from orchestrator.redaction.masking import names_in as values_in
from orchestrator.workspaces.documents import TreeFiles, is_match
from orchestrator.workspaces.evaluation.artifact_facts import LARGEST_ARTIFACT, facts_of, facts_of_files, names_in
from orchestrator.workspaces.evaluation.secret_scan import refuse_leaks
from orchestrator.workspaces.outbox import Imported, OutboxLimits, import_files, read_text
from orchestrator.workspaces.recording import record
from orchestrator.workspaces.workspace import Workspace

CONFIDENCES = ("low", "mid", "high")


class FamilyFault(OrchestratorError):
    """A family could not cope with the files of one task."""


@contextmanager
def reading_as(family: Family) -> Generator[None, None, None]:
    """Let a family read what an agent or a repository wrote. A fault of its own in that concerns this task alone: it
    must not end the daemon, which would meet the same files after every restart. Raises FamilyFault for it.
    """
    try:
        yield
    except (OSError, OrchestratorError):
        raise
    except Exception as error:
        raise FamilyFault(
            f"the family {family.name!r} cannot cope with a file of this task "
            f"({type(error).__name__}: {error!s:.200}); please report that, then correct the file and retry the task"
        ) from error


@dataclass(frozen=True, slots=True)
class Gates:
    """Examines stages; every method blocks and may be repeated."""

    workspace: Workspace
    secrets: Callable[[Task], Mapping[str, str]]
    """The provided values of a task that none of its work may contain."""
    last_message: Callable[[Task], str]
    """The last message of the task's present agent; empty if there is none."""

    def refuse_leaks(self, task: Task, commit: str) -> None:
        """Raise SecretLeaked if the work up to this commit contains provided values; VaultError if those are lost."""
        refuse_leaks(self.workspace.git_of(task.id), task.source.base_commit, commit, self.secrets(task))

    def look(self, task: Task, pipeline: Pipeline, command: LookAtGate) -> Evidence:
        """Import what the stage left, and return what is there. Raises what the workspace and the outbox raise."""
        stage, family, folder = pipeline.stage(command.stage), pipeline.family, Path(task.folder)
        taken = self._import(task, stage, folder / "agents" / str(command.attempt) / "out")
        fresh = _with_fix_as_plan(folder, pipeline, tuple(artifact.name for artifact in taken.files))
        if stage.answer and stage.answer not in fresh and self._keep_answer(task, stage.answer):
            fresh = (*fresh, stage.answer)
        if stage.name == pipeline.start:
            fresh += tuple(name for name in family.given if (folder / name).is_file())
        known = {name for record in task.stages.values() for name in record.artifacts}
        words = guards.sought((*stage.guards, *(guard for choice in stage.choices for guard in choice.when)))
        names = fresh if stage.work.judges_new_files_only else names_in(folder)
        seen = Evidence(
            files=facts_of_files(folder, names, words),
            fresh=fresh,
            refused=tuple(f"{one.name}: {one.reason}" for one in taken.refused if one.name not in known),
            analysis=_analysis(folder, family.failure_analysis) if family.failure_analysis in fresh else None,
        )
        files = cache(partial(self.files_of, task))  # a tree of the worktree takes several runs of git
        if stage.shows_branch:
            seen = self._with_branch(seen, task, command)
            documents = [task.fill(pattern) for pattern in stage.documents]
            texts = files().matching(documents) if documents else {}
            seen = replace(seen, files={**seen.files, **{one: facts_of(one, texts[one], words) for one in texts}})
        with reading_as(pipeline.family):
            return _with_meaning(seen, task, pipeline, stage, files)

    def files_of(self, task: Task) -> TreeFiles:
        """Return the files of the task's work and of its folder, for its family to read. Raises WorkspaceError."""
        return self.workspace.files(task.id, Path(task.folder))

    def prepare(self, task: Task, pipeline: Pipeline) -> None:
        """Write what the family composes for the agent of the present stage. Raises WorkspaceError and OSError."""
        if pipeline.family.prepare is prepare_nothing:
            return
        with reading_as(pipeline.family):
            prepared = pipeline.family.prepare(task, task.stage, self.files_of(task))
        for name, text in prepared.items():
            write_atomically(Path(task.folder) / name, text.encode(), durable=False)

    def record(self, task: Task, pipeline: Pipeline, stage: str) -> None:
        """Put what the family composes in this stage on the branch, as of the time when the stage was entered: so it is
        the same however often it is looked at. Raises WorkspaceError and GitError.
        """
        at = task.stages[stage].started_at or task.timing.created_at
        with reading_as(pipeline.family):
            records = pipeline.family.records(task, stage, self.files_of(task), at)
        record(self.workspace, task, records, at)

    def _import(self, task: Task, stage: Stage, outbox: Path) -> Imported:
        secrets = self.secrets(task)
        limits = OutboxLimits(LARGEST_ARTIFACT, lambda body: _objection(body, secrets))
        return import_files(outbox, stage.artifacts, Path(task.folder), limits)

    def _keep_answer(self, task: Task, name: str) -> bool:
        """Keep the agent's last message as an artifact; return whether there is one that may be kept."""
        body = remove_disguise(self.last_message(task)).strip().encode()
        if not body or _objection(body, self.secrets(task)):
            return False
        write_atomically(Path(task.folder) / name, body + b"\n")
        return True

    def _with_branch(self, seen: Evidence, task: Task, command: LookAtGate) -> Evidence:
        facts = self.workspace.facts(task.id, task.source.base_commit, command.since)
        return replace(
            seen,
            head=facts.head,
            commits=tuple(commit.sha for commit in reversed(facts.commits)),
            subjects=tuple(commit.subject for commit in reversed(facts.commits)),
            dirty=facts.dirty,
        )


def _with_meaning(
    seen: Evidence, task: Task, pipeline: Pipeline, stage: Stage, files: Callable[[], TreeFiles]
) -> Evidence:
    """Return the evidence with the children that a plan names, and the verdict of a verifier, read as its family does,
    and what else its family reads in artifacts; or with what is wrong in those files.
    """
    found = _examined(seen.files, task, pipeline, stage, files)
    for above in pipeline.stages.values():
        if above.children in found:
            found[above.children] = _with_children(found[above.children], above, task, pipeline, files)
    for name in stage.artifacts if stage.work.verifies else ():
        if name in found:
            found[name] = _with_verdict(found[name], task, pipeline, name)
    return replace(seen, files=found)


def _examined(
    found: Mapping[str, FileFacts], task: Task, pipeline: Pipeline, stage: Stage, files: Callable[[], TreeFiles]
) -> dict[str, FileFacts]:
    """Return the facts with what the family finds in the files."""
    if pipeline.family.examine is examine_nothing:
        return dict(found)
    examined: dict[str, FileFacts] = {}
    documents = [task.fill(pattern) for pattern in stage.documents]
    for name, facts in found.items():
        is_document = any(is_match(name, pattern) for pattern in documents)
        text = files().committed(name) if is_document else files().artifact(name)
        seen = pipeline.family.examine(task, name, text or "", files())
        examined[name] = replace(facts, problems=seen.problems, marks=seen.marks)
    return examined


def _with_children(
    facts: FileFacts, stage: Stage, task: Task, pipeline: Pipeline, files: Callable[[], TreeFiles]
) -> FileFacts:
    text = read_text(Path(task.folder), stage.children or "", LARGEST_ARTIFACT) or ""
    try:
        plans = tuple(draft.plan for draft in pipeline.family.read_children(text, files()))
    except ValueError as error:
        return replace(facts, problems=(*facts.problems, str(error)))
    problems = facts.problems + problems_of(plans, stage.child_pipelines)
    return replace(facts, children=() if problems else plans, problems=problems)


def _with_verdict(facts: FileFacts, task: Task, pipeline: Pipeline, name: str) -> FileFacts:
    text = read_text(Path(task.folder), name, LARGEST_ARTIFACT) or ""
    try:
        return replace(facts, verdict=pipeline.family.read_verdict(text))
    except ValueError as error:
        return replace(facts, problems=(str(error),))


def _objection(body: bytes, secrets: Mapping[str, str]) -> str:
    names = ", ".join(values_in(body, secrets))
    return (
        f"it holds the provided value of {names}, which must not be in any file; write only the name" if names else ""
    )


def _with_fix_as_plan(folder: Path, pipeline: Pipeline, fresh: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names with the plan among them: the newest fix of the plan that was left takes its place."""
    numbered = re.compile(re.escape(pipeline.family.plan_fix).replace(r"\*", "([1-9][0-9]{0,3})"))
    fixes = {int(found[1]): name for name in fresh if (found := numbered.fullmatch(name))}
    content = read_text(folder, fixes[max(fixes)], LARGEST_ARTIFACT) if fixes else None
    if content is None:
        return fresh
    for plan in pipeline.plans:
        write_atomically(folder / plan, content.encode())
    return tuple(dict.fromkeys((*fresh, *pipeline.plans)))


def _analysis(folder: Path, name: str) -> Analysis | None:
    """Return what the evaluator wrote, if it has the requested form."""
    try:
        value = orjson.loads(read_text(folder, name, LARGEST_ARTIFACT) or "")
        analysis = from_json(Analysis, value)
    except (orjson.JSONDecodeError, TypeError, ValueError):
        return None
    if analysis.confidence not in CONFIDENCES or not analysis.root_cause_hypothesis.strip():
        return None
    return Analysis(
        root_cause_hypothesis=analysis.root_cause_hypothesis[:2000],
        confidence=analysis.confidence,
        suggested_fix=analysis.suggested_fix[:2000],
    )

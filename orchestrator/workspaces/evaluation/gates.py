"""Examine what a stage left behind: artifacts from the outbox, the task's files, the state of the branch.

This module only collects facts; guards decide what they mean. Everything is bounded, because it comes from an agent.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import orjson

from orchestrator.core.events.commands import LookAtGate
from orchestrator.core.task.children import problems_of
from orchestrator.core.task.failures import Analysis
from orchestrator.core.task.guards import Evidence, FileFacts
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import Task
from orchestrator.formats.codec import from_json
from orchestrator.formats.files import write_atomically
from orchestrator.redaction.masking import names_in
from orchestrator.workspaces.evaluation.secret_scan import refuse_leaks
from orchestrator.workspaces.outbox import OutboxLimits, import_files, read_text
from orchestrator.workspaces.workspace import Workspace

LARGEST_ARTIFACT = 2 * 1024 * 1024
"""Bytes."""
MOST_HEADINGS, LONGEST_HEADING = 500, 300
CONFIDENCES = ("low", "mid", "high")


@dataclass(frozen=True, slots=True)
class Gates:
    """Examines stages; every method blocks and may be repeated."""

    workspace: Workspace
    secrets: Callable[[Task], Mapping[str, str]]
    """The provided values of a task that none of its work may contain."""

    def refuse_leaks(self, task: Task, commit: str) -> None:
        """Raise SecretLeaked if the work up to this commit contains provided values; VaultError if those are lost."""
        refuse_leaks(self.workspace.git_of(task.id), task.source.base_commit, commit, self.secrets(task))

    def look(self, task: Task, pipeline: Pipeline, command: LookAtGate) -> Evidence:
        """Import what the stage left, and return what is there. Raises what the workspace and the outbox raise."""
        stage, family = pipeline.stage(command.stage), pipeline.family
        folder = Path(task.folder)
        outbox = folder / "agents" / str(command.attempt) / "out"
        secrets = self.secrets(task)
        taken = import_files(
            outbox, stage.artifacts, folder, OutboxLimits(LARGEST_ARTIFACT, lambda body: _objection(body, secrets))
        )
        fresh = _with_fix_as_plan(folder, pipeline, tuple(artifact.name for artifact in taken.files))
        known = {name for record in task.stages.values() for name in record.artifacts}
        files = _files(folder, fresh if stage.work.judges_new_files_only else _all(folder))
        seen = Evidence(
            files=_with_children(files, folder, pipeline),
            fresh=fresh,
            refused=tuple(f"{one.name}: {one.reason}" for one in taken.refused if one.name not in known),
            analysis=_analysis(folder, family.failure_analysis) if family.failure_analysis in fresh else None,
        )
        return self._with_branch(seen, task, command) if stage.work.commits else seen

    def _with_branch(self, seen: Evidence, task: Task, command: LookAtGate) -> Evidence:
        facts = self.workspace.facts(task.id, task.source.base_commit, command.since)
        return Evidence(
            files=seen.files,
            fresh=seen.fresh,
            refused=seen.refused,
            head=facts.head,
            commits=tuple(commit.sha for commit in reversed(facts.commits)),
            dirty=facts.dirty,
        )


def _objection(body: bytes, secrets: Mapping[str, str]) -> str:
    names = ", ".join(names_in(body, secrets))
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


def _with_children(files: dict[str, FileFacts], folder: Path, pipeline: Pipeline) -> dict[str, FileFacts]:
    """Return the facts with the children that plans among the files name, or with what is wrong in those plans."""
    for plan in {stage.children for stage in pipeline.stages.values() if stage.children} & files.keys():
        try:
            drafts = pipeline.family.read_children(read_text(folder, plan, LARGEST_ARTIFACT) or "")
        except ValueError as error:
            files[plan] = replace(files[plan], problems=(str(error),))
            continue
        plans = tuple(draft.plan for draft in drafts)
        problems = problems_of(plans)
        files[plan] = replace(files[plan], children=() if problems else plans, problems=problems)
    return files


def seen_in(folder: Path) -> Evidence:
    """Return the facts about the files of a task's or a workspace's own folder; nothing is imported."""
    return Evidence(files=_files(folder, _all(folder)))


def seen_of(task: Task) -> Evidence:
    """Return the facts about the files in the task's own folder; nothing is imported."""
    return seen_in(Path(task.folder))


def _all(folder: Path) -> list[str]:
    """Return the names of the task's own files that guards may ask for."""
    return [path.name for path in folder.iterdir() if path.suffix in {".md", ".json"} and path.is_file()]


def _files(folder: Path, names: Iterable[str]) -> dict[str, FileFacts]:
    found = ((name, read_text(folder, name, LARGEST_ARTIFACT)) for name in names)
    return {name: _facts(name, content) for name, content in found if content is not None}


def _facts(name: str, content: str) -> FileFacts:
    headings, digests = _sections(content)
    return FileFacts(
        chars=len(content.strip()),
        headings=headings,
        digests=digests,
        json_filled=_filled(content) if name.endswith(".json") else None,
        digest=sha256(content.encode()).hexdigest(),
    )


def _sections(content: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the headings of a text, and a hash of the text below each."""
    parts: list[list[str]] = []
    for line in content.splitlines():
        if line.startswith("#") and len(parts) < MOST_HEADINGS:
            parts.append([line[:LONGEST_HEADING]])
        elif parts:
            parts[-1].append(line.strip())
    below = (sha256("\n".join(part[1:]).strip().encode()).hexdigest()[:16] for part in parts)
    return tuple(part[0] for part in parts), tuple(below)


def _filled(content: str) -> tuple[str, ...] | None:
    """Return the keys of a JSON object whose values are not empty; None if it is not an object."""
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    return tuple(str(key)[:100] for key, item in value.items() if item)[:100] if isinstance(value, dict) else None


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

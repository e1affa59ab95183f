"""The script of a pipeline: what the agent of each of its stages does, derived from what the stages declare.

A stage of which a family knows more has the family's own words; for all others files are made that fit its guards.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase

from orchestrator.cli.demo.scripts.issues import issue_turns
from orchestrator.cli.demo.scripts.job import CODE, REPOSITORY, WORDS
from orchestrator.cli.demo.scripts.works import work_turns
from orchestrator.core.guards.files import FilesMinChars, GlobCount
from orchestrator.core.task.pipeline import Pipeline, Stage
from orchestrator.formats.codec import JsonObject
from orchestrator.pipelines.definitions import Definitions
from orchestrator.pipelines.role import Role

Turn = list[JsonObject]
"""Objects of actions, done in their order."""
Turns = Mapping[str, Turn]
"""What is done in each stage, by its name, or by `STAGE of KEY` for one child alone."""

REPEATED = 8
"""How often a stage may be visited."""
PARAGRAPH = (
    "textkit turns a title into a part of a web address: words in small letters, joined by single hyphens, with "
    "nothing at the edges. Whoever writes a page names it once, and its address follows from that name. "
)
KNOWN = {name.removeprefix("./"): text for name, text in {**REPOSITORY, **CODE, **WORDS}.items()}
"""The files of the job, by their paths."""
PASSED = (
    '=== VERIFICATION_RESULT ===\n{"criteria": [{"id": "C1", "status": "passed", "details": "It was run and read."}]}'
)
FAMILIES: Mapping[str, Callable[[Pipeline, Mapping[str, Role]], Turns]] = {"works": work_turns, "issues": issue_turns}
"""The families whose files have formats of their own."""
OWN_WORK = ("tickets",)
"""The families whose stages the scripted agent knows by itself."""


def script_of(pipeline: Pipeline, definitions: Definitions) -> dict[str, list[Turn]]:
    """Return the scenario for a pipeline and for those of its children."""
    turns: dict[str, Turn] = {}
    for one in _with_children(pipeline, definitions.pipelines):
        if one.family.name not in OWN_WORK:
            turns |= {stage.name: _turn(stage) for stage in one.stages.values() if stage.role}
            turns |= FAMILIES.get(one.family.name, _no_turns)(one, definitions.roles)
    return {stage: [turn] * REPEATED for stage, turn in turns.items()}


def _with_children(pipeline: Pipeline, declared: Mapping[str, Pipeline]) -> Iterator[Pipeline]:
    yield pipeline
    names = dict.fromkeys(name for stage in pipeline.stages.values() for name in stage.child_pipelines)
    for name in names:
        yield from _with_children(declared[name], declared)


def _no_turns(pipeline: Pipeline, roles: Mapping[str, Role]) -> Turns:
    del pipeline, roles
    return {}


def _turn(stage: Stage) -> Turn:
    """Return a turn that leaves what the stage asks for, and commits if its agent may."""
    if stage.work.verifies:
        return [{"answer": PASSED}] if stage.answer else [{"leave": {stage.artifacts[0]: PASSED}}]
    commits = stage.commits or stage.work.commits
    writes_code = commits and not (stage.documents and all(name.startswith("docs/") for name in stage.documents))
    written: JsonObject = {**CODE, **WORDS} if writes_code else {}
    names = [name for name in _names(stage) if name != stage.answer]
    written |= {name: _text(stage, name) for name in names}
    turn: Turn = [{"leave": written}]
    if commits:
        turn.append({"commit": f"{stage.name.replace('_', ' ').capitalize()} of slugify"})
    return [*turn, {"answer": _text(stage, stage.answer) if stage.answer else "Done."}]


def _names(stage: Stage) -> list[str]:
    """Return the files to leave: those that guards name, and one for each pattern that no guard's file fits."""
    patterns = (*stage.artifacts, *stage.documents)
    named = [getattr(guard, key) for guard in stage.guards for key in guard.file_keys]
    found = [name for name in dict.fromkeys(named) if "*" not in name and any(_fits(name, one) for one in patterns)]
    for pattern in patterns:
        counts = (one.at_least for one in stage.guards if isinstance(one, GlobCount) and one.pattern == pattern)
        there = sum(_fits(name, pattern) for name in (*found, *KNOWN))
        wanted = max(counts, default=1)
        found += [pattern.replace("*", f"{number:02}_part") for number in range(there + 1, wanted + 1)]
    return [name if "/" in name or name not in stage.documents else f"./{name}" for name in found]


def _fits(name: str, pattern: str) -> bool:
    return name.count("/") == pattern.count("/") and fnmatchcase(name, pattern)


def _text(stage: Stage, path: str) -> str:
    """Return a text for which the guards hold that ask for a file of this name; the job's own, where that is enough."""
    name = path.removeprefix("./")
    lines, least, keys = [KNOWN.get(name) or f"# {name.rpartition('/')[2].partition('.')[0]}\n"], 0, list[str]()
    for guard in stage.guards:
        if isinstance(guard, FilesMinChars) and _fits(name, guard.pattern):
            least = max(least, guard.more_than + 1)
        if (sample := guard.sample_files().get(name)) is not None:
            least = max(least, sample.chars)
            lines += [*sample.headings, *sample.found]
            keys += sample.json_filled or ()
    if keys or name.endswith(".json"):
        return json.dumps({key: [PARAGRAPH] for key in keys or ("notes",)})
    lacking = max(0 if name in KNOWN else 1, least - sum(map(len, lines)))
    return "\n".join([*lines, *[PARAGRAPH] * -(-lacking // len(PARAGRAPH))]).rstrip() + "\n"

"""The model's part behind the real CLI: planner, implementer and evaluator of one small real job.

A role's part is a generator: it yields a tool call, is handed the tool's result, and returns its last words. Nothing is
kept between two calls to the model: each plays the part again from the turn's text and the results so far. So it does
not matter which process asks, and a session that was resumed goes on like one that never stopped.
"""

import json
import re
import shlex
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.fakes import scripted_agent as job
from tests.fakes.scripted_model import Reply, Say, Scene, ToolResult, Use

Part = Generator[Use, ToolResult, str]


class Turn(job.Turn):
    """What a turn's text says, with the places that only a real model needs; `name` is as tests speak of it."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        place = re.search(r"^worktree: (.+) \(branch ", text, re.MULTILINE)
        number = re.search(r"^Do step ([0-9]+)", text, re.MULTILINE)
        self.worktree = Path(place.group(1) if place else ".")
        self.name = f"{self.stage} {number.group(1)}" if number else self.stage
        self.answered = "why: What you asked for was answered." in text


HASTY = '''

def slugify(text: str) -> str:
    """The text as a part of a web address: its words in small letters, joined by single hyphens."""
    slug = "".join(letter if letter.isalnum() else "-" for letter in text.lower())
    while "--" in slug:
        slug = slug.replace("--", "-")
    return slug
'''
"""Not right yet: hyphens stand at its edges."""
TRIES = (job.CARELESS, HASTY, job.SLUGIFY)
LAST_LINE = '    return text.upper() + "!"\n'
"""Of the module as the user has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """A model for every stage of the job; turns are named as `IMPLEMENTATION 2`, by stage and step.

    `before` holds what is done first in a turn, unless it goes on after an interruption or an answer. The turns named
    in `idle` end without any work until the gate says what is missing. slugify is wrong until `careless` repairs of it
    were planned. `after` holds what is done first in a turn that brings an answer.
    """

    before: Mapping[str, Use] = field(default_factory=dict)
    after: Mapping[str, Use] = field(default_factory=dict)
    idle: frozenset[str] = frozenset()
    careless: int = 0

    def __call__(self, scene: Scene) -> Reply:
        """The next move of whoever is asked."""
        turn = Turn(scene.prompt)
        if turn.name in self.idle and not turn.missing:
            return Say("Everything is done.")
        part = self._part(turn)
        try:
            move = next(part)
            for result in scene.results:
                move = part.send(result)
        except StopIteration as end:
            return Say(str(end.value))
        return move

    def _part(self, turn: Turn) -> Part:
        if turn.resumed:
            yield bash(f"git status --short; git log --oneline -3; ls {shlex.quote(str(turn.outbox))}")
        elif turn.answered and turn.name in self.after:
            yield self.after[turn.name]
        elif turn.name in self.before and not turn.answered:
            yield self.before[turn.name]
        match turn.stage:
            case "ANALYSIS":
                return (yield from analyse(turn))
            case "PLANNING":
                return (yield from plan(turn))
            case "DESIGN":
                return (yield from design(turn))
            case "IMPLEMENTATION":
                return (yield from implement(turn, careless=self.careless))
            case "EVALUATION":
                return (yield from explain(turn))
        raise ValueError(f"a turn that is no stage's: {turn.stage!r}")


def running_first(command: str, turn: str) -> Roles:
    """Roles that run a command first in that turn."""
    return Roles(before={turn: bash(command)})


def analyse(turn: Turn) -> Part:
    """The planner's first turn."""
    files = yield Use("Glob", {"pattern": "**/*.py"})
    module = yield Use("Read", {"file_path": str(turn.worktree / job.MODULE)})
    impact = "slugify gives hyphens that it should not." if "def slugify" in module.text else "Nothing calls it yet."
    analysis = job.ANALYSIS.format(ticket=turn.ticket, title=turn.title, recent="begun", impact=impact)
    related = {"pack": files.text.splitlines(), "impacts": [{"symbol": "slugify", "impact_analysis": impact}]}
    yield write(turn.outbox / "analysis.md", analysis)
    yield write(turn.outbox / "related-code.json", json.dumps(related))
    return "The analysis is in the outbox."


def plan(turn: Turn) -> Part:
    """The planner's second turn: the whole job, what mends it, or what reviewers ask for."""
    if turn.mode == "review_cycle":
        return (yield from plan_round(turn))
    fix = (yield from numbered(turn, "plan-fix-{}.md")) if turn.bugfix else ""
    steps = "".join(
        job.STEP.format(number=number, text=text, file=file, why=f"{why} {fix}".strip(), needs=needs, check=check)
        for number, (text, file, why, needs, check) in enumerate(job.FIX_STEPS if turn.bugfix else job.FIRST_STEPS, 1)
    )
    yield write(turn.outbox / "plan.md", f"# Plan for {turn.ticket}\n\n{steps}")
    if fix:
        cause = f"## Failure\n{turn.log}\n\n## Root cause\nEvery sign became a hyphen.\n\n"
        yield write(turn.outbox / fix, cause + steps)
    return "The plan is in the outbox."


def plan_round(turn: Turn) -> Part:
    """The planner's second turn when reviewers have spoken."""
    newest = yield bash(f"ls -t {shlex.quote(str(turn.folder))} | grep '^review-feedback-.*md$' | head -1")
    seen = yield Use("Read", {"file_path": str(turn.folder / newest.text.strip())})
    wishes = "\n".join(line.partition("> ")[2] for line in seen.text.splitlines() if "> " in line)
    number = newest.text.strip().removeprefix("review-feedback-").removesuffix(".md")
    step = job.STEP.format(
        number=1, text=job.ROUND_STEP.format(number), file="README.md", why=wishes, needs="none", check="Read it."
    )
    name = yield from numbered(turn, "plan-fix-{}.md")
    yield write(turn.outbox / name, f"## Failure\nReviewers ask for changes:\n{wishes}\n\n{step}")
    return "The plan is in the outbox."


def design(turn: Turn) -> Part:
    """The planner's third turn."""
    module = yield Use("Read", {"file_path": str(turn.worktree / job.MODULE)})
    name = yield from numbered(turn, "design-v{}.md")
    yield write(turn.outbox / name, job.DESIGN.format(ticket=turn.ticket, current=module.text))
    return "The design is in the outbox."


def implement(turn: Turn, *, careless: int) -> Part:
    """One step of the plan, which may have been done in part before."""
    if found := re.match(job.ROUND_STEP.format("([0-9]+)").lower(), turn.step):
        heading = f"## Round {found[1]}"
        yield bash(f"grep -qx '{heading}' README.md || printf '\\n{heading}\\n\\nIt was asked for.\\n' >> README.md")
    elif "readme" in turn.step:
        readme = yield Use("Read", {"file_path": str(turn.worktree / "README.md")})
        if "## slugify" not in readme.text:
            yield edit(turn.worktree / "README.md", "`shout(text)` shouts.\n", "`shout(text)` shouts.\n" + job.README)
    elif "test" in turn.step:
        yield Use("Read", {"file_path": str(turn.worktree / job.TESTS)})
        yield write(turn.worktree / job.TESTS, job.TEST + job.EDGES * ("edges" in turn.step))
        yield bash("python3 -B -m unittest -q")
    else:
        mended = 0
        if careless:
            planned = yield bash(f"ls {shlex.quote(str(turn.folder))} | grep -c '^plan-fix-' || true")
            mended = int(planned.text.strip())
        right = mended >= careless
        yield from put_slugify(turn.worktree / job.MODULE, job.SLUGIFY if right else TRIES[mended])
    subject = shlex.quote(turn.subject)
    yield bash(
        f'git add -A && {{ test -z "$(git status --porcelain)" && git log -1 --format=%s | grep -qxF {subject}; }} '
        f"|| git commit -q --allow-empty -m {subject}"
    )
    return "The step is committed."


def put_slugify(module: Path, wanted: str) -> Part:
    """Write slugify, or mend the one that is there."""
    seen = yield Use("Read", {"file_path": str(module)})
    if "def slugify" not in seen.text:
        yield edit(module, LAST_LINE, LAST_LINE + wanted)
        return ""
    there = HASTY if 'while "--"' in seen.text else job.CARELESS if 'else "-"' in seen.text else job.SLUGIFY
    if there != wanted:
        yield edit(module, there.strip(), wanted.strip())
    return ""


def explain(turn: Turn) -> Part:
    """The evaluator's turn."""
    seen = yield bash(f"tail -n 40 {shlex.quote(str(turn.folder / turn.log))}")
    complaint = next((line for line in seen.text.splitlines() if "Error:" in line), "the output does not say why")
    analysis = {
        "root_cause_hypothesis": f"slugify makes a hyphen of every sign: {complaint}",
        "confidence": "high" if "Error:" in seen.text else "low",
        "suggested_fix": "Split the text into words and join those by single hyphens.",
    }
    yield write(turn.outbox / "failure-analysis.json", json.dumps(analysis))
    return "The cause is in the outbox."


def numbered(turn: Turn, name: str) -> Generator[Use, ToolResult, str]:
    """The name with the next free number."""
    listed = yield bash(f"ls {shlex.quote(str(turn.folder))}")
    number = 1
    while name.format(number) in listed.text.split():
        number += 1
    return name.format(number)


def bash(command: str) -> Use:
    """Run a command."""
    return Use("Bash", {"command": command, "description": "work"})


def write(file: Path, text: str) -> Use:
    """Write a whole file."""
    return Use("Write", {"file_path": str(file), "content": text})


def edit(file: Path, old: str, new: str) -> Use:
    """Replace a passage of a file."""
    return Use("Edit", {"file_path": str(file), "old_string": old, "new_string": new})

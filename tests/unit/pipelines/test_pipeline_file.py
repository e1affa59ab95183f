"""Pipeline files: the bundled one, and every way to get one wrong."""

import tomllib
from pathlib import Path

import pytest

from orchestrator.core.guards.budgets import BudgetWithin
from orchestrator.core.guards.files import FileExists, FileMinChars, GlobCount, HeadingCount, JsonNonempty
from orchestrator.core.guards.results import ChecksAcceptable, StepsCommitted, StepsCompleted, TreeClean
from orchestrator.core.guards.ticket import TicketFiltered
from orchestrator.core.task.guards import Guard
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.formats.toml import line_numbers
from orchestrator.pipelines.families.tickets.family import TICKETS
from orchestrator.pipelines.pipeline_file import PipelineError, parse_pipeline
from orchestrator.pipelines.pipeline_rules import check_roles

FULL = Path("config/pipelines/full.toml").read_text(encoding="utf-8")

SMALL = """\
name = "small"
description = "Two stages."
start = "WORK"

[budgets]
tries = 1

[stages.WORK]
work = "agent"
role = "worker"
artifacts = ["notes.md", "draft-v*.md"]
guards = [
    { guard = "file_exists", file = "notes.md" },
    { guard = "budget_within", name = "tries" },
]
next = "DONE"
on_fail = "WORK"
budget = "tries"

[stages.DONE]
work = "deliver"
"""


def problems_of(text: str) -> list[str]:
    with pytest.raises(PipelineError) as caught:
        parse_pipeline(text, "small.toml")
    return [str(problem) for problem in caught.value.problems]


def test_the_bundled_pipeline_has_the_seven_stages() -> None:
    pipeline = parse_pipeline(FULL, "full.toml")
    walk = [pipeline.stage(pipeline.start)]
    while walk[-1].next is not None:
        walk.append(pipeline.stage(walk[-1].next))
    assert [(stage.name, stage.work.name, stage.role) for stage in walk] == [
        ("TICKET_INTAKE", "intake", None),
        ("ANALYSIS", "agent", "planner"),
        ("PLANNING", "agent", "planner"),
        ("DESIGN", "agent", "planner"),
        ("IMPLEMENTATION", "steps", "implementer"),
        ("EVALUATION", "checks", "evaluator"),
        ("COMPLETION", "deliver", None),
    ]


@pytest.mark.parametrize(
    ("stage", "guards"),
    [
        (
            "TICKET_INTAKE",
            (FileExists(file="ticket.json"), TicketFiltered(accept=("CLEAN", "REDACTED", "LOCAL_BYPASS"))),
        ),
        (
            "ANALYSIS",
            (
                FileMinChars(file="analysis.md", more_than=200),
                JsonNonempty(file="related-code.json", any_of=("pack", "ckv", "ckg", "impacts", "results")),
            ),
        ),
        ("PLANNING", (HeadingCount(file="plan.md", prefix="## Step", at_least=1),)),
        ("DESIGN", (GlobCount(pattern="design-v*.md", at_least=1), BudgetWithin(name="design_revisions"))),
        ("IMPLEMENTATION", (StepsCompleted(), StepsCommitted(), TreeClean())),
        ("EVALUATION", (ChecksAcceptable(accept=("PASS", "WARN", "SKIPPED")),)),
        ("COMPLETION", ()),
    ],
)
def test_each_stage_of_the_bundled_pipeline_is_left_through_its_guards(stage: str, guards: tuple[Guard, ...]) -> None:
    assert parse_pipeline(FULL, "full.toml").stage(stage).guards == guards


BUNDLED = [
    parse_pipeline(path.read_text("utf-8"), str(path)) for path in sorted(Path("config/pipelines").glob("*.toml"))
]
OF_CHILDREN = {name for one in BUNDLED for stage in one.stages.values() for name in stage.child_pipelines}


@pytest.mark.parametrize("pipeline", [one for one in BUNDLED if one.name not in OF_CHILDREN], ids=lambda one: one.name)
def test_every_bundled_pipeline_that_people_submit_to_admits_the_same_tickets(pipeline: Pipeline) -> None:
    assert TicketFiltered(accept=("CLEAN", "REDACTED", "LOCAL_BYPASS")) in pipeline.stage(pipeline.start).guards


def test_a_failed_evaluation_goes_back_to_analysis_within_a_budget_of_three() -> None:
    pipeline = parse_pipeline(FULL, "full.toml")
    evaluation = pipeline.stage("EVALUATION")
    assert (evaluation.on_fail, evaluation.budget) == ("ANALYSIS", "eval_cycles")
    assert pipeline.budgets == {
        "eval_cycles": 3,
        "design_revisions": 3,
        "gate_retries": 2,
        "agent_retries": 2,
        "reworks": 10,
        "escalations": 1,
        "review_rounds": 10,
    }


def test_a_minimal_pipeline_gets_the_default_budgets_and_branch() -> None:
    pipeline = parse_pipeline(SMALL, "small.toml")
    assert pipeline.budgets == {"tries": 1, "gate_retries": 2, "agent_retries": 2, "reworks": 10, "escalations": 1}
    assert pipeline.branch == "{type}/{ticket}"
    assert pipeline.roles == ("worker",)


WRONG = [
    ("name =", "nme =", "small.toml:1: unknown key 'nme'; did you mean 'name'?"),
    ('start = "WORK"', 'start = "WROK"', "small.toml:3: start names an unknown stage 'WROK'; did you mean 'WORK'?"),
    ('start = "WORK"', "start = 7", "small.toml:3: start = 7 must be text in quotes"),
    ("description", 'family = "tickts"\ndescription', "small.toml:2: unknown family 'tickts'; did you mean 'tickets'?"),
    ("tries = 1", "tries = -1", "small.toml:6: tries = -1 must be a whole number, 0 or more"),
    ("tries = 1", "tries = true", "small.toml:6: tries = True must be a whole number, 0 or more"),
    ("tries = 1", "tries = 1\nrties = 2", "small.toml:7: nothing counts against the budget 'rties'"),
    ('work = "agent"', 'work = "agnet"', "small.toml:9: unknown kind of work 'agnet'; did you mean 'agent'?"),
    ('role = "worker"\n', "", "small.toml:8: stage WORK needs an agent: name its role with role = …"),
    ('"notes.md", "draft', '"../notes.md", "draft', "small.toml:11: artifact '../notes.md' must be a plain file name"),
    ('"draft-v*.md"', '"s*.json"', "small.toml:11: artifact 's*.json' would let an agent write state.json"),
    ("file_exists", "file_exist", "small.toml:13: unknown guard 'file_exist'; did you mean 'file_exists'?"),
    ('file = "notes.md" }', 'flie = "notes.md" }', "small.toml:13: unknown key 'flie'; did you mean 'file'?"),
    (', file = "notes.md" }', " }", "small.toml:13: 'file' is missing"),
    ('file = "notes.md" }', 'file = "note.md" }', "small.toml:13: no stage leaves 'note.md' (see artifacts); did you"),
    ('name = "tries" }', 'name = "tires" }', "small.toml:14: unknown budget 'tires'; did you mean 'tries'?"),
    ('guard = "file_exists", file = "notes.md"', 'guard = "steps_completed"', "small.toml:13: no stage has work = "),
    (
        'guard = "file_exists", file = "notes.md"',
        'guard = "checks_acceptable", accept = ["PAS"]',
        "small.toml:13: checks_acceptable cannot accept 'PAS'; did you mean 'PASS'?",
    ),
    ('next = "DONE"\n', "", "small.toml:8: WORK is a dead end"),
    (
        'work = "deliver"',
        'work = "deliver"\npublish = "brnach"',
        "small.toml:22: unknown way to publish 'brnach'; did you mean 'branch'?",
    ),
    (
        'work = "agent"',
        'work = "agent"\npublish = "report"',
        'small.toml:10: only a stage with work = "deliver" publishes, WORK has work = "agent"',
    ),
    ('work = "agent"', 'work = "steps"', "small.toml:8: stage WORK works through steps: name their file with plan = "),
    (
        'work = "deliver"',
        'work = "deliver"\nreview = true',
        "small.toml:22: a review of DONE needs an agent in it, or on_fail = the stage where changes are made",
    ),
    ("[budgets]\ntries = 1", "budgets = 1", "small.toml:5: budgets = 1 must be a table"),
    ('    { guard = "file_exists", file = "notes.md" },\n', "    1,\n", "small.toml:12: guards = "),
    ('next = "DONE"', 'next = "DON"', "small.toml:16: next of WORK names an unknown stage 'DON'; did you mean 'DONE'?"),
    ('on_fail = "WORK"\nbudget = "tries"', 'on_fail = "WORK"', "small.toml:17: WORK could go back forever"),
    ('on_fail = "WORK"\n', "", "small.toml:17: the budget of WORK counts ways back, but there is no on_fail"),
    ('next = "DONE"', 'next = "WORK"', "small.toml:16: WORK → WORK is an endless loop"),
    ('next = "DONE"', 'next = "WORK"', "small.toml:20: DONE is never reached"),
    ('work = "deliver"', 'work = "deliver"\nrole = "x"', "small.toml:22: stage DONE is done by the daemon (deliver)"),
    (
        'work = "deliver"',
        'work = "deliver"\nsquash = true',
        'small.toml:22: only work with publish = "parent" comes home as one commit',
    ),
    ('work = "deliver"', 'work = "deliver"\nplan = "notes.md"', 'small.toml:22: only a stage with work = "steps"'),
    ("description", 'branch = "fix"\ndescription', "small.toml:2: branch must use {ticket} or {task}"),
    ("description", 'branch = "{tikcet}"\ndescription', "small.toml:2: branch uses an unknown word {tikcet}; did you"),
    ("description", 'branch = "{ticket"\ndescription', "small.toml:2: branch = '{ticket' is no template"),
    ("stages.DONE", "stages.done", "small.toml:20: a stage name has capitals, digits and _ only, not 'done'"),
    ("[stages.DONE]", "[stages.DONE", "small.toml:20: this is not TOML"),
    ("description", "x = " + "[" * 5000 + "\ndescription", "small.toml: lists or tables are nested too deeply"),
]


@pytest.mark.parametrize(("right", "wrong", "message"), WRONG, ids=[message[:60] for _, _, message in WRONG])
def test_an_error_is_reported_with_its_line_and_the_nearest_name(right: str, wrong: str, message: str) -> None:
    assert right in SMALL
    found = problems_of(SMALL.replace(right, wrong))
    assert any(problem.startswith(message) for problem in found), found


@pytest.mark.parametrize("name", ["BLOCKED", "COMPLETED", *TICKETS.aliases])
def test_no_stage_may_have_the_name_of_a_result(name: str) -> None:
    assert any("is the name of a result" in problem for problem in problems_of(SMALL.replace("DONE", name)))


def test_a_cycle_of_several_stages_is_reported_once() -> None:
    text = FULL.replace('next = "COMPLETION"', 'next = "DESIGN"')
    circles = [problem for problem in problems_of(text) if "is an endless loop" in problem]
    assert len(circles) == 1
    assert "DESIGN → IMPLEMENTATION → EVALUATION → DESIGN" in circles[0]


def test_all_problems_are_reported_at_once_in_the_order_of_the_file() -> None:
    with pytest.raises(PipelineError) as caught:
        parse_pipeline(SMALL.replace("name = ", "nme = ").replace("agent", "agnet").replace('"DONE"', '"DON"'), "f")
    lines = [problem.line for problem in caught.value.problems]
    assert {0, 1, 9, 16} <= set(lines)
    assert lines == sorted(lines)
    assert str(caught.value).count("\n") == len(lines) - 1


def test_a_pipeline_without_stages_is_reported() -> None:
    assert any("a pipeline needs stages" in problem for problem in problems_of('name = "a"\n'))


def test_unknown_roles_are_reported_with_the_line_that_names_them() -> None:
    pipeline = parse_pipeline(SMALL, "small.toml")
    assert check_roles(pipeline, ["worker"]) == ()
    [problem] = check_roles(pipeline, ["worked", "planner"])
    assert str(problem) == "small.toml:10: stage WORK names an unknown role 'worker'; did you mean 'worked'?"


AWKWARD = """\
top = 1  # = [ "
"quoted key" = '''
[not.a.header]
x = 1'''
dotted.key = { a = "},", b = [1, [2,
  3], { c = 4 }] }

[[array]]
x = 1
[array.inner]
y = "# no comment"
[[array]]
x = QQQa
"quoted\\QQQ textQQQ
z = 1.5
[ table . "with space" ]
k = 2000-01-01T00:00:00Z
""".replace("QQQ", '"""')


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("top",), 1),
        (("quoted key",), 2),
        (("dotted", "key"), 5),
        (("dotted", "key", "b", 0), 5),
        (("dotted", "key", "b", 1, 1), 6),
        (("dotted", "key", "b", 2, "c"), 6),
        (("array", 0, "x"), 9),
        (("array", 0, "inner", "y"), 11),
        (("array", 1, "x"), 13),
        (("array", 1, "z"), 15),
        (("table", "with space", "k"), 17),
    ],
)
def test_the_line_of_every_key_is_known_for_any_notation(path: tuple[str | int, ...], line: int) -> None:
    assert tomllib.loads(AWKWARD)
    assert line_numbers(AWKWARD)[path] == line

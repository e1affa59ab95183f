"""A batch of issues in the demo: the solution and the result are the examples in the texts of the roles."""

from collections.abc import Mapping

from orchestrator.cli.demo.scripts.job import CODE, RUN_TESTS, WORDS
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.formats.codec import JsonObject
from orchestrator.pipelines.examples import examples_in
from orchestrator.pipelines.role import Role

EXAMPLE_ID, EXAMPLE_COMMIT = "ISS-20260528-001", "4f0c1d2"
"""What the roles' examples are about."""


def issue_turns(pipeline: Pipeline, roles: Mapping[str, Role]) -> dict[str, list[JsonObject]]:
    """Return what is done in the stages of one issue."""
    turns: dict[str, list[JsonObject]] = {}
    for stage in pipeline.stages.values():
        left: JsonObject = {}
        examples = examples_in(roles[stage.role].prompt) if stage.role else {}
        for name in stage.artifacts:
            if name in examples:
                left[name] = examples[name].replace(EXAMPLE_ID, "{key}").replace(EXAMPLE_COMMIT, "{head}")
        change: list[JsonObject] = [
            {"leave": {**CODE, **WORDS, "docs/{key}.md": "# {key}\n\nSolved in textkit.\n"}},
            {"run": RUN_TESTS},
            {"commit": "{key}: Add slugify to textkit"},
        ]
        if left:
            turns[stage.name] = [*(change if stage.commits else []), {"leave": left}]
    return turns

"""A pipeline as a graph: its stages and the edges between them with their conditions, as Mermaid, DOT or plain text."""

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from orchestrator.core.task.pipeline import OnExhausted, Pipeline, Stage
from orchestrator.core.task.publication import Publish

COMPLETED, BLOCKED, FAILED = "COMPLETED", "BLOCKED", "FAILED"
"""Where the last edges lead; no stage may have these names."""
_WIDTH = 100
_MERMAID = str.maketrans({"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "`": "#96;", "|": "#124;"})
_DOT = str.maketrans({"\\": "\\\\", '"': '\\"'})
_FAILS = dict.fromkeys(Publish, ("it fails", "it has failed {times}")) | {
    Publish.PULL_REQUEST: ("its reviewers want a change", "they want one after it was changed {times}"),
    Publish.RELEASE: ("a person wants a change", "one is wanted after it was changed {times}"),
}


class EdgeKind(StrEnum):
    """Why a task goes from one stage to another."""

    NEXT = "next"
    BACK = "back"
    HALT = "halt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """One edge from a stage; `labels` are its conditions."""

    source: str
    target: str
    way: EdgeKind
    labels: tuple[str, ...] = ()


def graph_edges(pipeline: Pipeline) -> tuple[Edge, ...]:
    """Return every edge, in the order of the stages: forward, back, to BLOCKED or FAILED."""
    return tuple(edge for stage in pipeline.stages.values() for edge in _edges(stage, pipeline))


def mermaid(pipeline: Pipeline) -> str:
    """Return the pipeline as a Mermaid flowchart, which GitHub and GitLab show in Markdown."""
    lines = ["flowchart TD"]
    for stage in pipeline.stages.values():
        left, right, _ = stage.work.shape
        lines.append(f'    {stage.name}{left}"{_marked_up(stage.name, *about(stage))}"{right}')
    lines.append(f"    start([start]) --> {pipeline.start}")
    for edge in graph_edges(pipeline):
        arrow = "-->" if edge.way is EdgeKind.NEXT else "-.->"
        label = f'|"{_marked_up(*edge.labels)}"|' if edge.labels else ""
        lines.append(f"    {edge.source} {arrow}{label} {edge.target}")
    return "\n".join(lines) + "\n"


def dot(pipeline: Pipeline) -> str:
    """Return the pipeline in the language of Graphviz."""
    lines = [f"digraph {_quoted(pipeline.name)} {{", "    start [shape=point];"]
    for stage in pipeline.stages.values():
        shape = stage.work.shape[2]
        lines.append(f"    {stage.name} [shape={shape}, label={_quoted(stage.name, *about(stage))}];")
    lines.append(f"    start -> {pipeline.start};")
    for edge in graph_edges(pipeline):
        style = "solid" if edge.way is EdgeKind.NEXT else "dashed"
        lines.append(f"    {edge.source} -> {edge.target} [style={style}, label={_quoted(*edge.labels)}];")
    return "\n".join((*lines, "}")) + "\n"


def text(pipeline: Pipeline) -> str:
    """Return the pipeline as lines of up to a hundred columns, to be read from the top."""
    lines = [f"{pipeline.name}: {_one_line(pipeline.description)}", ""]
    for stage in pipeline.stages.values():
        lines.append(f"{stage.name}  ({', '.join(about(stage))})")
        for edge in _edges(stage, pipeline):
            sign = {EdgeKind.NEXT: "→", EdgeKind.BACK: "↩", EdgeKind.HALT: "■"}[edge.way]
            line = f"{sign} {edge.target}" + f" if {', '.join(edge.labels)}" * bool(edge.labels)
            lines += textwrap.wrap(
                line, _WIDTH, initial_indent="  ", subsequent_indent="      ", break_on_hyphens=False
            )
    lines += ["", _closing(pipeline)]
    return "\n".join(lines) + "\n"


def about(stage: Stage) -> tuple[str, ...]:
    """Return what is done in a stage, and by which role if it is not the daemon."""
    done = f"{stage.work.name}: {stage.publish}" if stage.publish is not Publish.BRANCH else stage.work.name
    return (done, stage.role) if stage.role else (done,)


def _edges(stage: Stage, pipeline: Pipeline) -> Iterator[Edge]:
    approved = ("a person approves it",) if stage.review else ()
    conditions = (*(guard.describe() for guard in stage.guards), *approved)
    for choice in stage.choices:
        chosen = (*conditions, *(guard.describe() for guard in choice.when))
        yield Edge(source=stage.name, target=choice.next, way=EdgeKind.NEXT, labels=chosen)
    others = ("else",) if stage.choices else conditions
    yield Edge(source=stage.name, target=stage.next or COMPLETED, way=EdgeKind.NEXT, labels=others)
    if stage.on_fail is not None and stage.budget is not None:
        once, often = _FAILS[stage.publish]
        limit = pipeline.budgets[stage.budget]
        halt = often.format(times="once" if limit <= 1 else f"{limit} times") + f" ({stage.budget})"
        yield Edge(source=stage.name, target=stage.on_fail, way=EdgeKind.BACK, labels=(once,))
        decides = ("unless a person accepts it",) if stage.on_exhausted is OnExhausted.REVIEW else ()
        end = FAILED if stage.on_exhausted is OnExhausted.FAIL else BLOCKED
        yield Edge(source=stage.name, target=end, way=EdgeKind.HALT, labels=(halt, *decides))


def _closing(pipeline: Pipeline) -> str:
    retries, lost = pipeline.budgets["gate_retries"], pipeline.budgets["agent_retries"]
    return (
        f"If a gate misses something, the stage's agent is asked again up to {retries} times. A lost agent is\n"
        f"restarted up to {lost} times. After that, and in a stage without an agent, the task is {BLOCKED}."
    )


def _marked_up(*lines: str) -> str:
    """Return a text for Mermaid, with its special characters escaped and its lines one below the other."""
    return "<br/>".join(_one_line(part).translate(_MERMAID) for part in lines)


def _quoted(*lines: str) -> str:
    """Return a string for DOT, with its lines one below the other."""
    return '"' + "\\n".join(_one_line(part).translate(_DOT) for part in lines) + '"'


def _one_line(text: str) -> str:
    return " ".join(text.split())

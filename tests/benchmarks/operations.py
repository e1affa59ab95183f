"""The state operations on a workspace with ten thousand failures, and the size of its state.json."""

import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import cast

import orjson

from orchestrator import clock
from orchestrator.core.events.operations import FailureReport, OperationRefused, StepUpdate, Transition
from orchestrator.core.task.failures import KEPT, Failure
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.progress import StepStatus
from orchestrator.core.task.ticket import TicketType
from orchestrator.daemon.offline_state import OLDER, STATE, StandaloneWorkspace
from orchestrator.formats.codec import Json, JsonObject
from orchestrator.pipelines.bundled import Kind, bundled
from orchestrator.pipelines.definition_files import Folders
from orchestrator.pipelines.definitions import load_definitions
from orchestrator.pipelines.families.tickets.standalone_state import InitialState, task_from, with_changes
from orchestrator.storage.state_document import shown_failure

Row = tuple[str, str, str]
FAILURES = 10_000
TIMES = 50
MOVE = Transition(from_state="TICKET_INTAKE", to_state="ANALYSIS")
STEP = StepUpdate(step_id=1, status=StepStatus.IN_PROGRESS)


def rows() -> list[Row]:
    """Return name, measured value and goal of each measurement, all taken in one run."""
    folders = Folders(pipelines=(bundled(Kind.PIPELINES),), roles=(bundled(Kind.AGENTS),))
    pipelines = load_definitions(folders).pipelines
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as place:
        folder = Path(place, "STABLE-1")
        workspace = StandaloneWorkspace(folder, pipelines, clock.now, "a benchmark")
        beginning = InitialState(ticket_id="STABLE-1", ticket_type=TicketType.FEATURE, variant="full", source="local")
        workspace.init(beginning)
        first = [_seconds(partial(workspace.fail, _report(number))) for number in range(TIMES)]
        _grow(folder, pipelines["full"])
        took = [_seconds(partial(workspace.fail, _report(FAILURES - TIMES + number))) for number in range(TIMES)]
        asked: dict[str, Callable[[], object]] = {
            "get": workspace.get,
            "resume-point": workspace.resume_point,
            "transition, refused": lambda: workspace.transition(MOVE),
            "step, refused": lambda: workspace.step(STEP),
        }
        times = {name: median(_seconds(ask) for _ in range(TIMES)) for name, ask in asked.items()}
        size, older = (folder / "state.json").stat().st_size, len((folder / OLDER).read_bytes().splitlines())
    return [
        (f"`fail`: median of the last {TIMES} of {FAILURES:,}", f"{median(took) * 1e3:.1f} ms", "≤ 50 ms"),
        ("the same beside its first ones", f"{median(took) / median(first):.1f} times", ""),
        *((f"`{name}` with {FAILURES:,} failures", f"{took * 1e3:.1f} ms", "≤ 50 ms") for name, took in times.items()),
        (f"state.json then, {older:,} failures beside it", f"{size / 1024:.0f} KiB", "≤ 512 KiB"),
    ]


def _grow(folder: Path, pipeline: Pipeline) -> None:
    """Write all but the first and the last failures at once, as the operation would leave them."""
    document: JsonObject = orjson.loads((folder / STATE).read_bytes())
    before = task = task_from(document, pipeline, str(folder))
    shown = [*cast(list[Json], document["failure_log"])]
    for number in range(TIMES, FAILURES - TIMES):
        task = replace(task, failures=task.failures.with_failure(_report(number).failure))
        shown.append(shown_failure(task.failures.entries[-1]))
    grown = {**with_changes(document, before, task), "failure_log": shown[-KEPT:]}
    (folder / OLDER).write_bytes(b"".join(orjson.dumps(one, option=orjson.OPT_APPEND_NEWLINE) for one in shown[:-KEPT]))
    (folder / STATE).write_bytes(orjson.dumps(grown, option=orjson.OPT_INDENT_2))


def _report(number: int) -> FailureReport:
    """Return one of a hundred kinds of failure, at another line each time."""
    failure = Failure(
        id="",
        occurred_at=clock.now(),
        state="EVALUATION",
        agent="evaluator",
        step="unit_test",
        attempted="evaluation",
        command="pytest -q",
        expected="unit_test passes",
        type="test_failure",
        summary=f"panic: nil pointer in part{chr(97 + number % 10)}/{chr(97 + number // 10 % 10)}.go:{number}",
        details="E   AssertionError: the parser stops at the third token\n" * 8,
    )
    return FailureReport(failure=failure)


def _seconds(ask: Callable[[], object]) -> float:
    began = perf_counter()
    with suppress(OperationRefused):
        ask()
    return perf_counter() - began

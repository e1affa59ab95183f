"""Traces of a real daemon, as a receiver of OTLP gets them, against what the journals say."""

import sys
from datetime import datetime
from pathlib import Path

import orjson
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from orchestrator.core.task.task import TaskStatus
from tests.acceptance.harness import DaemonHarness, Json
from tests.fakes.trace_receiver import TraceReceiver, attributes

NIGHT: Json = {"PLANNING": [{"limit": {"resets_in": 1}}], "IMPLEMENTATION": [{"exit": 3}, {"think_ms": 3000}]}


def finished(receiver: TraceReceiver, task: str) -> Span | None:
    """Return the span of a task's whole work, once it was sent."""
    return next((one for one in list(receiver.spans) if not one.parent_span_id and of_task(one) == task), None)


def root_of(harness: DaemonHarness, receiver: TraceReceiver, task: str) -> Span:
    found = harness.wait_for("the task's span", lambda: finished(receiver, task))
    assert found is not None
    return found


def of_task(span: Span) -> str:
    return str(attributes(span)["orchestrator.task.id"])


def test_a_task_is_a_trace_and_what_it_did_are_its_spans_once_each_over_kill_9(tmp_path: Path) -> None:
    with TraceReceiver() as receiver:
        harness = DaemonHarness(tmp_path, NIGHT, limits={"margin": 0.2}, telemetry={"traces": receiver.url})
        with harness:
            task = harness.submit(autonomy="auto")
            harness.wait_for("the first spans", lambda: receiver.spans)
            harness.kill()
            harness.start()
            harness.wait_for_end(task)
            harness.kill()
            harness.start()
            root = root_of(harness, receiver, task)
            journal = harness.journal(task)
            noted = harness.data / "tasks" / task / "traces.json"
            end = max(line["seq"] for line in journal if line["to"] == "completed")
            harness.wait_for("what was sent", lambda: noted.exists() and orjson.loads(noted.read_bytes())["seq"] >= end)
    spans = {span.span_id: span for span in receiver.spans}
    assert {span.trace_id for span in receiver.spans} == {root.trace_id}
    assert all(span.parent_span_id in spans for span in receiver.spans if span.parent_span_id), "no span is an orphan"
    _tells_the_whole_work(root, journal)
    _tells_turns(list(spans.values()), journal)
    names = {span.name for span in spans.values()}
    assert {"stage PLANNING", "stage IMPLEMENTATION", "agent planner", "check unit_test", "wait rate_limit"} <= names
    for span in spans.values():
        parent = spans.get(span.parent_span_id, root)
        assert parent.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano


def _tells_the_whole_work(root: Span, journal: list[Json]) -> None:
    def nanoseconds(line: Json) -> int:
        return round(datetime.fromisoformat(line["timestamp"]).timestamp() * 1e6) * 1000

    end = next(line for line in journal if line["to"] == "completed")
    assert (root.start_time_unix_nano, root.end_time_unix_nano) == (nanoseconds(journal[0]), nanoseconds(end))
    assert (root.name, attributes(root)["orchestrator.status"]) == ("task full", "completed")
    assert root.status.code == Status.STATUS_CODE_UNSET


def _tells_turns(spans: list[Span], journal: list[Json]) -> None:
    turns = [attributes(span) for span in spans if span.name.startswith("invoke_agent ")]
    done = [line["event"] for line in journal if line["trigger"] == "TurnFinished"]
    assert len([one for one in turns if one["orchestrator.outcome"] in {"ok", "failed"}]) == len(done)
    assert all(one["gen_ai.operation.name"] == "invoke_agent" for one in turns)
    assert sum(int(str(one["orchestrator.tokens"])) for one in turns) > 0


def test_a_receiver_that_is_away_delays_no_work_and_gets_everything_later(tmp_path: Path) -> None:
    with TraceReceiver() as receiver:
        receiver.status = 503
        with DaemonHarness(tmp_path, telemetry={"traces": receiver.url}) as harness:
            task = harness.submit(autonomy="auto")
            harness.wait_for_end(task, TaskStatus.COMPLETED)
            harness.wait_for("a refused request", lambda: receiver.requests)
            receiver.status = 200
            harness.kill()
            harness.start()
            assert root_of(harness, receiver, task).name == "task full"
            told = [one for one in harness.log if one["event"] == "traces_not_sent"]
            assert len(told) <= 1


def test_without_traces_nothing_of_opentelemetry_is_loaded(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, program=[sys.executable, "-m", "orchestrator"]) as harness:
        assert harness.daemon is not None
        maps = Path(f"/proc/{harness.daemon.pid}/maps").read_text()
        assert "_upb" not in maps, "protobuf's library would be there"

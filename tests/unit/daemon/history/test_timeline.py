"""A timeline is read from journal lines: what lasts, what happens at once, and what is no decision."""

from datetime import UTC, datetime, timedelta

from orchestrator.daemon.history.timeline import Lane, MomentKind, Timeline, timeline_of
from orchestrator.formats.codec import Json, JsonObject, stamp

START = datetime(2026, 11, 21, 22, 0, tzinfo=UTC)
NOW = START + timedelta(hours=1)

WORKING: dict[str, Json] = {
    "/status": "in_progress",
    "/stage": "PLANNING",
    "/agent": {"status": "running", "role": "planner", "attempt": 1, "turn": {"number": 1, "deadline": "later"}},
    "/run": {"folder": "agents/1", "process": "running"},
}
"""The planner works at its first turn."""


def line(seq: int, trigger: str = "AlarmRang", changes: dict[str, Json] | None = None, **event: Json) -> JsonObject:
    """A line of a journal, decided `seq` minutes after the start."""
    return {
        "seq": seq,
        "timestamp": stamp(START + timedelta(minutes=seq)),
        "task_id": "LOCAL-1",
        "trigger": trigger,
        "metadata": {"stage": "INTAKE", "status": "pending"},
        "event": event,
        "change": [{"op": "replace", "path": path, "value": value} for path, value in (changes or {}).items()],
    }


def timeline(*lines: JsonObject | None) -> Timeline:
    """The timeline of these lines, an hour after the start."""
    return timeline_of(lines, NOW)


def spans(found: Timeline, lane: Lane) -> list[tuple[str, int, int | None]]:
    """The labels of a lane's intervals with their first and last decisions."""
    return [(one.label, one.seq, one.end_seq) for one in found.lane(lane)]


def test_a_journal_without_lines_is_an_empty_timeline() -> None:
    assert timeline() == Timeline(begin=NOW, end=NOW, goes_on=True)


def test_a_stage_lasts_until_the_next_and_the_present_one_has_no_end() -> None:
    found = timeline(line(1, changes=WORKING), line(2), line(3, changes={"/stage": "DESIGN"}))
    assert spans(found, Lane.STAGE) == [("PLANNING", 1, 3), ("DESIGN", 3, None)]
    assert (found.begin, found.end) == (START + timedelta(minutes=1), NOW)


def test_a_turn_knows_its_outcome_and_what_was_used_since_the_one_before() -> None:
    found = timeline(
        line(1, changes=WORKING),
        line(2, "CapsChanged", {"/agent/tokens_used": 70}),
        line(3, "TurnFinished", {"/agent/turn/deadline": None, "/agent/tokens_used": 100}, outcome="ok"),
        line(4, changes={"/agent/turn/number": 2, "/agent/turn/deadline": "later"}),
        line(
            5, "TurnFinished", {"/agent/turn/deadline": None, "/agent/tokens_used": 130, "/agent/cost_usd": 0.5},
            outcome="failed",
        ),
    )  # fmt: skip
    first, second = found.lane(Lane.TURN)
    assert (first.number, first.seq, first.end_seq, first.outcome, first.tokens) == (1, 1, 3, "ok", 100)
    assert (second.number, second.outcome, second.tokens, second.usd) == (2, "failed", 30, 0.5)


def test_a_turn_whose_process_ends_is_lost() -> None:
    found = timeline(
        line(1, changes=WORKING), line(2, "AgentExited", {"/agent/turn/deadline": None, "/run": None}, reason="killed")
    )
    assert [one.outcome for one in found.lane(Lane.TURN)] == ["lost"]
    assert spans(found, Lane.AGENT) == [("planner", 1, 2)]


def test_an_agent_after_another_is_an_interval_of_its_own() -> None:
    other: dict[str, Json] = {"/run/folder": "agents/2", "/agent/role": "implementer"}
    found = timeline(line(1, changes=WORKING), line(2, "AgentExited", other))
    assert [(one.label, one.number) for one in found.lane(Lane.AGENT)] == [("planner", 1), ("implementer", 2)]


def test_a_pause_says_why_and_what_follows_it_is_the_wait_for_a_slot() -> None:
    found = timeline(
        line(1, changes=WORKING),
        line(2, "PauseRequested", {"/agent/status": "paused", "/agent/blocked_by": "user"}),
        line(3, "RunFrozen", {"/run/process": "frozen"}),
        line(4, "ResumeRequested", {"/agent/blocked_by": None}),
        line(5, "TaskAdmitted", {"/agent/status": "running"}),
        line(6, "RunThawed", {"/run/process": "running"}),
    )
    assert spans(found, Lane.PAUSE) == [("user", 2, 4), ("slot", 4, 5)]
    assert spans(found, Lane.FREEZE) == [("frozen", 3, 6)]


def test_a_usage_limit_has_a_lane_of_its_own() -> None:
    found = timeline(
        line(1, changes=WORKING),
        line(2, "TurnFinished", {"/agent/status": "paused", "/agent/blocked_by": "rate_limit"}, outcome="failed"),
        line(3, "TaskAdmitted", {"/agent/status": "running", "/agent/blocked_by": None}),
    )
    assert spans(found, Lane.LIMIT) == [("rate_limit", 2, 3)]
    assert spans(found, Lane.PAUSE) == []


def test_a_request_lasts_from_the_question_to_its_answer() -> None:
    asked: Json = {"number": 1, "kind": "question", "text": "Which alphabet?"}
    found = timeline(
        line(1, changes=WORKING),
        line(2, "AgentSaid", {"/waiting": [asked]}),
        line(3, changes={"/waiting/-": {"number": 2, "kind": "review", "text": "The plan"}}),
        line(4, "AskAnswered", {"/waiting": [{"number": 2, "kind": "review", "text": "The plan"}]},
             number=1, status="answered"),
        line(5, "AlarmRang", {"/waiting": [], "/requests": [{"number": 2, "status": "skipped"}]}),
    )  # fmt: skip
    assert [(one.label, one.seq, one.end_seq, one.outcome) for one in found.lane(Lane.REQUEST)] == [
        ("question: Which alphabet?", 2, 4, "answered"),
        ("review: The plan", 3, 5, "skipped"),
    ]


def test_a_check_has_the_verdict_of_its_end_even_if_the_next_begins_at_once() -> None:
    found = timeline(
        line(1, changes={"/run": {"folder": "logs/1-unit_test", "process": "running"}}),
        line(2, "CheckFinished", {"/run/folder": "logs/1-lint"}, result={"verdict": "FAIL"}),
        line(3, "CancelRequested", {"/run": None}),
    )
    checks = [(one.label, one.outcome) for one in found.lane(Lane.CHECK)]
    assert checks == [("unit_test", "FAIL"), ("lint", "stopped")]


def test_restarts_retries_troubles_and_the_end_are_moments() -> None:
    found = timeline(
        line(1, changes=WORKING),
        line(2, "DaemonStarted"),
        line(3, "StallSeen"),
        line(4, "RetryRequested"),
        line(5, "BranchDelivered", {"/status": "completed", "/run": None, "/agent/turn/deadline": None}),
        line(6, "PersonTold"),
    )
    kinds = [(one.kind, one.seq) for one in found.moments]
    wanted = [MomentKind.RESTART, MomentKind.TROUBLE, MomentKind.RETRY, MomentKind.END]
    assert kinds == list(zip(wanted, (2, 3, 4, 5), strict=True))
    assert found.end == START + timedelta(minutes=6), "what is over does not go on"


def test_an_agent_that_a_restart_finds_alive_goes_on_as_the_same_interval() -> None:
    again: dict[str, Json] = {"/agent": WORKING["/agent"]}
    found = timeline(line(1, changes=WORKING), line(2, "DaemonStarted", again), line(3))
    assert spans(found, Lane.AGENT) == [("planner", 1, None)]
    assert spans(found, Lane.TURN) == [("planner", 1, None)]


def test_a_timeline_may_begin_in_the_middle_of_a_journal() -> None:
    middle = line(700) | {"metadata": {"stage": "EVALUATION", "status": "in_progress"}}
    found = timeline(middle, line(701, changes={"/stage": "COMPLETION"}))
    assert spans(found, Lane.STAGE) == [("EVALUATION", 700, 701), ("COMPLETION", 701, None)]


def test_a_recovered_state_counts_as_a_whole() -> None:
    state: Json = {"status": "in_progress", "stage": "DESIGN", "run": {"folder": "agents/4"}, "agent": {"role": "x"}}
    found = timeline(line(1, changes=WORKING), line(9, "Recovered", {"": state}))
    assert spans(found, Lane.STAGE) == [("PLANNING", 1, 9), ("DESIGN", 9, None)]
    assert [one.number for one in found.lane(Lane.AGENT)] == [1, 4]


def test_lines_that_are_no_decisions_are_counted_and_change_nothing() -> None:
    strange: list[JsonObject | None] = [
        None,
        {"seq": "two", "timestamp": "2026-11-21T22:02:00Z"},
        {"seq": 2, "timestamp": "yesterday"},
    ]
    odd = line(3) | {
        "change": [7, {"path": ["/stage"]}, {"path": "/agent", "value": "none"}],
        "event": [],
        "trigger": 4,
    }
    found = timeline(line(1, changes=WORKING), *strange, odd, line(4, changes={"/waiting": {"number": 1}}))
    assert found.unread == 3
    assert spans(found, Lane.STAGE) == [("PLANNING", 1, None)]


def test_control_characters_in_labels_are_escaped_and_long_labels_cut() -> None:
    found = timeline(line(1, changes={**WORKING, "/stage": "A\x1b[31m\n" + "x" * 500}))
    (stage,) = found.lane(Lane.STAGE)
    assert "\x1b" not in stage.label
    assert "\n" not in stage.label
    assert len(stage.label) <= 201


def test_a_stretch_holds_what_touches_it_and_never_more_than_there_is() -> None:
    found = timeline(
        line(1, changes=WORKING),
        line(10, "DaemonStarted", {"/stage": "DESIGN"}),
        line(20, changes={"/stage": "EVALUATION"}),
    )
    part = found.within(START + timedelta(minutes=12), START + timedelta(minutes=15))
    assert spans(part, Lane.STAGE) == [("DESIGN", 10, 20)]
    assert part.moments == ()
    assert found.within(None, None) == found
    later = found.within(NOW + timedelta(days=1), NOW + timedelta(days=2))
    assert (later.begin, later.end) == (NOW, NOW)

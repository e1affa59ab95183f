"""A corpus about limits: every known form of a failure has its class, and no talk about limits is a failure.

The talk is generated from templates, always the same: an agent that edits a rate limiter, reads its logs, runs its
tests, quotes our own markers, and sends subagents that do likewise.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from random import Random

import orjson
import pytest

from orchestrator.agents.claude import Parser
from orchestrator.agents.markers import Markers
from orchestrator.agents.reset_text import reset_in
from orchestrator.core.events.agent_events import (
    ErrorClass,
    Limit,
    LimitStatus,
    Noise,
    Outcome,
    Text,
    ToolFinished,
    TurnResult,
    Unknown,
)
from orchestrator.core.events.agent_messages import AgentMessage
from orchestrator.formats.codec import Json, JsonObject

LINES = 10_000
NOON = datetime(2026, 8, 8, 12, 0, tzinfo=UTC)

_429, _400 = '{"type":"error","error":{"type":"rate_limit_error","message":"', '{"type":"error","error":{"message": "'

LITERALS: dict[str, tuple[ErrorClass, str | None]] = {
    "Claude AI usage limit reached|1786204800": (ErrorClass.USAGE_LIMIT, "08-08 16:00"),
    "Claude usage limit reached. Your limit will reset at 5pm (Europe/Warsaw).": (
        ErrorClass.USAGE_LIMIT,
        "08-08 15:00",
    ),
    "5-hour limit reached ∙ resets 3am": (ErrorClass.USAGE_LIMIT, "08-09 03:00"),
    "Weekly limit reached ∙ resets Aug 11 at 5pm": (ErrorClass.USAGE_LIMIT, "08-11 17:00"),
    "Opus weekly limit reached ∙ resets 5pm": (ErrorClass.USAGE_LIMIT, "08-08 17:00"),
    "Session limit reached ∙ resets 5pm": (ErrorClass.USAGE_LIMIT, "08-08 17:00"),
    "You've hit your limit · resets 2pm (Asia/Shanghai)": (ErrorClass.USAGE_LIMIT, "08-09 06:00"),
    "You\u2019ve hit your limit · resets 2pm (Asia/Shanghai)": (ErrorClass.USAGE_LIMIT, "08-09 06:00"),
    "You're out of extra usage · resets 4pm (America/Chicago)": (ErrorClass.USAGE_LIMIT, "08-08 21:00"),
    "You're out of usage credits · resets 4pm": (ErrorClass.USAGE_LIMIT, "08-08 16:00"),
    "You've hit your session limit · resets 3:45pm": (ErrorClass.USAGE_LIMIT, "08-08 15:45"),
    "You've hit your weekly limit · resets Mon 12:00am": (ErrorClass.USAGE_LIMIT, "08-10 00:00"),
    "You've hit your Opus limit · resets 3:45pm": (ErrorClass.USAGE_LIMIT, "08-08 15:45"),
    "You've hit your session limit · resets Aug 16, 6pm (Europe/Berlin)": (ErrorClass.USAGE_LIMIT, "08-16 16:00"),
    "You've hit your limit · resets Oct 9": (ErrorClass.USAGE_LIMIT, "10-09 00:00"),
    "You've hit your org's monthly usage limit": (ErrorClass.USAGE_LIMIT, None),
    "You've reached your usage limit": (ErrorClass.USAGE_LIMIT, None),
    f'API Error: 429 {_429}Claude usage limit reached for your plan; it resets 3pm (UTC)."}}}}': (
        ErrorClass.USAGE_LIMIT,
        "08-08 15:00",
    ),
    "spend limit reached (daily; resets 2026-08-09 00:00 UTC)": (ErrorClass.USAGE_LIMIT, "08-09 00:00"),
    "API Error: 429 spend limit reached (daily; resets 2026-08-09 00:00 UTC). Ask the desk.": (
        ErrorClass.USAGE_LIMIT,
        "08-09 00:00",
    ),
    "spend limit reached": (ErrorClass.USAGE_LIMIT, None),
    "spend limit unavailable": (ErrorClass.SERVER, None),
    "You're out of usage credits": (ErrorClass.BILLING, None),
    "Your org is out of usage · ask your admin": (ErrorClass.BILLING, None),
    "Your seat type doesn't include usage credits": (ErrorClass.BILLING, None),
    "Your seat type doesn't include extra usage": (ErrorClass.BILLING, None),
    "Your usage allocation has been disabled by your admin": (ErrorClass.BILLING, None),
    "Your group's usage limit is set to $0": (ErrorClass.BILLING, None),
    "Your org's usage limit is set to $0": (ErrorClass.BILLING, None),
    "Fable 5 requires usage credits": (ErrorClass.BILLING, None),
    "API Error: Usage credits required for 1M context · run /usage-credits": (ErrorClass.BILLING, None),
    "Usage credits required for 1M context": (ErrorClass.BILLING, None),
    "Credit balance is too low": (ErrorClass.BILLING, None),
    f'API Error: 400 {_400}Your credit balance is too low to access the API."}}}}': (ErrorClass.BILLING, None),
    "API Error: Server is temporarily limiting requests (not your usage limit)": (ErrorClass.THROTTLED, None),
    "API Error: Request rejected (429) · this may be a temporary capacity issue.": (ErrorClass.THROTTLED, None),
    f'API Error: 429 {_429}Number of request tokens has exceeded your limit"}}}}': (ErrorClass.THROTTLED, None),
    "API Error: Repeated 529 Overloaded errors. The API is at capacity.": (ErrorClass.OVERLOADED, None),
    "API Error: 529 Overloaded. This is a server-side issue, usually temporary.": (ErrorClass.OVERLOADED, None),
    'API Error: 529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}': (
        ErrorClass.OVERLOADED,
        None,
    ),
    "API Error: 500 Internal server error. This is a server-side issue.": (ErrorClass.SERVER, None),
    "API Error: Connection refused — a firewall may be blocking it (ECONNREFUSED)": (ErrorClass.SERVER, None),
    "API Error: Connection lost mid-response. The response above may be incomplete.": (ErrorClass.SERVER, None),
    "API Error: The response stopped arriving. The response above may be incomplete.": (ErrorClass.SERVER, None),
    "API Error: Your computer went to sleep mid-response.": (ErrorClass.SERVER, None),
    "API Error: something that nobody has seen yet": (ErrorClass.SERVER, None),
    "Request timed out": (ErrorClass.SERVER, None),
    "Failed to authenticate: OAuth session expired and could not be refreshed": (ErrorClass.AUTHENTICATION, None),
    "OAuth token revoked · Please run /login": (ErrorClass.AUTHENTICATION, None),
    "OAuth token has expired · Please run /login": (ErrorClass.AUTHENTICATION, None),
    "Not logged in · Please run /login": (ErrorClass.AUTHENTICATION, None),
    "Invalid API key · Fix external API key": (ErrorClass.AUTHENTICATION, None),
    f'API Error: 401 {_400}invalid x-api-key"}}}}': (ErrorClass.AUTHENTICATION, None),
    "API Error: 403 OAuth authentication is currently not allowed": (ErrorClass.AUTHENTICATION, None),
    "This organization has been disabled. Ask your admin.": (ErrorClass.AUTHENTICATION, None),
    f'API Error: 400 {_400}This organization has been disabled."}}}}': (ErrorClass.AUTHENTICATION, None),
    "This service is disabled for your org": (ErrorClass.AUTHENTICATION, None),
    "account_on_hold": (ErrorClass.AUTHENTICATION, None),
    "oauth_org_not_allowed": (ErrorClass.AUTHENTICATION, None),
    "Prompt is too long": (ErrorClass.CONTEXT, None),
    f'API Error: 400 {_400}prompt is too long: 210000 tokens > 200000 maximum"}}}}': (ErrorClass.CONTEXT, None),
    "Context limit reached · /compact or /clear to continue": (ErrorClass.CONTEXT, None),
    "model_not_found": (ErrorClass.MODEL, None),
    "There's an issue with the selected model (claude-x). It may not exist.": (ErrorClass.MODEL, None),
    "No conversation found with session ID: 1b3b": (ErrorClass.SESSION, None),
    "--resume requires a valid session ID or session title when used with --print": (ErrorClass.SESSION, None),
    "You're now using usage credits": (ErrorClass.UNKNOWN, None),
    "You've used 95% of your weekly limit": (ErrorClass.UNKNOWN, None),
    "You're close to your session limit": (ErrorClass.UNKNOWN, None),
}

FAILED: JsonObject = {"type": "result", "subtype": "success", "is_error": True, "session_id": "s"}


def turn_of(message: JsonObject) -> TurnResult:
    (event,) = Parser().parse(orjson.dumps(message))
    assert isinstance(event, TurnResult)
    return event


@pytest.mark.parametrize(("text", "expected"), LITERALS.items())
def test_every_form_of_a_failure_gets_its_class_from_its_message_alone(
    text: str, expected: tuple[ErrorClass, str | None]
) -> None:
    error, resets = expected
    turn = turn_of(FAILED | {"result": text})
    assert (turn.outcome, turn.error) == (Outcome.FAILED, error)
    moment = reset_in(turn.text, NOON, "UTC")
    assert (f"{moment:%m-%d %H:%M}" if moment else None) == resets
    assert turn_of(FAILED | {"subtype": "error_during_execution", "errors": [text]} | {"result": None}).error is error


@pytest.mark.parametrize("text", LITERALS)
def test_the_same_message_in_a_successful_turn_is_only_text(text: str) -> None:
    assert turn_of(FAILED | {"is_error": False, "terminal_reason": "completed", "result": text}).outcome is Outcome.OK


def test_messages_about_the_account_take_precedence_over_the_apis() -> None:
    walled: JsonObject = {"api_error": "usage_limit_reached", "api_error_status": 429, "terminal_reason": "api_error"}
    assert turn_of(FAILED | walled | {"result": "You hit something new"}).error is ErrorClass.USAGE_LIMIT
    assert turn_of(FAILED | walled | {"result": "Your group's usage limit is set to $0"}).error is ErrorClass.BILLING


SUBJECTS = (
    "the rate limiter", "src/limits/window.py", "`TokenBucket.acquire`", "the retry loop", "the 429 handler",
    "test_resets_at_midnight", "the billing page", "docs/limits.md", "the login flow", "the usage dashboard",
)  # fmt: skip
TALK = (
    "I will change {subject} so that `{literal}` is shown to people.",
    "{literal}",
    "> {literal}\n\nThat is what {subject} prints today.",
    "Now {subject} answers 429 with `Retry-After`, then 529, and the window resets at 3pm.",
    "The error was: {literal} - it comes from {subject}, not from us.",
    "API Error: 429 is what {subject} raises; the test expects it.",
    "{subject} fails with exit code 1: rate limit reached, resets 5pm (UTC).",
    "Maven says:\n[ERROR] COMPILATION ERROR\n[ERROR]\n[ERROR] {subject}: cannot find symbol\n[ERROR] \n",
    "[ERROR]\n{subject} timed out\n\nand that was all.",
    "An agent prints [USER_QUESTION] and [/USER_QUESTION] around its question; {subject} reads them.",
    "The marker === PHASE {number} COMPLETE === ends a phase, see {subject}.",
    "- [DEPENDENCY_REQUEST] opens, [/DEPENDENCY_REQUEST] closes\n- {subject} parses it",
    "| marker | read by |\n|---|---|\n| === PHASE {number} COMPLETE === | {subject} |",
    "    === PHASE {number} COMPLETE ===\n\nis how {subject} ends.",
    "For example:\n\n```\n{block}```\n\nThat is for {subject}.",
    "1. In {subject}:\n\n   ~~~~markdown\n   ```\n{block}   ```\n   ~~~~\n2. Done.",
    "````\n{block}```\n{block}````\n{subject}",
    "=== PHASE N COMPLETE === stands for a number; {subject} takes 1 to 999.",
)
BLOCKS = (
    "[USER_QUESTION]\ncategory: choice\nquestion: Which limit?\noptions:\n- 429\n- 529\n[/USER_QUESTION]\n",
    "=== PHASE 2 COMPLETE ===\nDocuments created:\n- limits.md\nReady for review.\n",
    "[ERROR]\ntype: fatal\nmessage: usage limit reached\nrecovery: notify_user\n[/ERROR]\n",
    '[DEPENDENCY_REQUEST_JSON]\n{"type": "api_key", "name": "K", "description": "d"}\n[/DEPENDENCY_REQUEST_JSON]\n',
    '=== VERIFICATION_RESULT ===\n{"criteria": [{"id": "a", "status": "passed"}]}\n',
    "=== CUSTOM TASK COMPLETE ===\nTask: limits\nSummary: done\n",
)
OUTPUT = (
    "{literal}",
    "FAILED tests/test_limits.py::test_wall - AssertionError: assert '{literal}' == ''\n1 failed, 8 passed",
    "HTTP/1.1 429 Too Many Requests\nretry-after: 60\nanthropic-ratelimit-unified-status: rejected\n",
    '{{"type":"rate_limit_event","rate_limit_info":{{"status":"rejected","rateLimitType":"five_hour"}}}}',
    '{{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"{literal}"}}',
    "src/limits.py:{number}: raise UsageLimit('{literal}')",
    "ERROR {subject}: 529 overloaded_error, retrying in {number} s",
    "Exit code 1\nCommand timed out after {number}s\n{literal}",
    "TimeoutError: Command timed out after {number}s",
    "{block}",
)


class Talk:
    """An endless session about limits in the CLI's own format, in which no limit is reached and nothing is reported."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._number = 0

    def lines(self) -> Iterator[JsonObject]:
        shapes = (self._text, self._text, self._thinking, self._tool, self._result, self._result, self._sidelong)
        while True:
            self._number += 1
            yield self._random.choice(shapes)()

    def _words(self, templates: tuple[str, ...]) -> str:
        return self._random.choice(templates).format(
            subject=self._random.choice(SUBJECTS),
            literal=self._random.choice([*LITERALS]),
            block=self._random.choice(BLOCKS),
            number=self._random.randint(1, 999),
        )

    def _assistant(self, block: JsonObject, parent: str | None) -> JsonObject:
        usage: Json = {"input_tokens": 100, "output_tokens": 1}
        message: Json = {
            "id": f"msg_{self._number}", "type": "message", "role": "assistant", "model": "claude-opus-5-5",
            "content": [block], "stop_reason": None, "usage": usage,
        }  # fmt: skip
        return {"type": "assistant", "message": message, "parent_tool_use_id": parent, "session_id": "s"}

    def _text(self) -> JsonObject:
        if self._random.random() < 0.3:
            return self._assistant({"type": "text", "text": self._words((*TALK, *OUTPUT))}, "toolu_parent")
        return self._assistant({"type": "text", "text": self._words(TALK)}, None)

    def _thinking(self) -> JsonObject:
        return self._assistant({"type": "thinking", "thinking": self._words((*TALK, *OUTPUT))}, None)

    def _tool(self) -> JsonObject:
        words = self._words((*TALK, *OUTPUT))
        name, given = self._random.choice([
            ("Write", {"file_path": "src/limits.py", "content": words}),
            ("Edit", {"file_path": "src/limits.py", "old_string": "pass", "new_string": words}),
            ("Bash", {"command": f"grep -rn '{words}' .", "description": words}),
            ("Agent", {"description": "Look at limits", "prompt": words}),
        ])  # fmt: skip
        use: JsonObject = {"type": "tool_use", "id": f"toolu_{self._number}", "name": name, "input": {**given}}
        return self._assistant(use, self._random.choice([None, "toolu_parent"]))

    def _result(self) -> JsonObject:
        words = self._words(OUTPUT)
        block: Json = {
            "type": "tool_result", "tool_use_id": f"toolu_{self._number}", "is_error": self._random.random() < 0.5,
            "content": words if self._random.random() < 0.5 else [{"type": "text", "text": words}],
        }  # fmt: skip
        parent = self._random.choice([None, "toolu_parent"])
        message: Json = {"role": "user", "content": [block]}
        return {"type": "user", "message": message, "parent_tool_use_id": parent, "tool_use_result": words}

    def _sidelong(self) -> JsonObject:
        """Return what happens beside the talk: windows that are not full, retries, echoes, successful turns."""
        words = self._words((*TALK, *OUTPUT))
        echoed: Json = {"role": "user", "content": [{"type": "text", "text": words}]}
        window: Json = {"status": self._random.choice(["allowed", "allowed_warning"]), "utilization": 0.97}
        done: JsonObject = {"is_error": False, "terminal_reason": "completed", "result": words}
        return self._random.choice([
            {"type": "user", "message": echoed, "isReplay": True},
            {"type": "rate_limit_event", "rate_limit_info": window},
            {"type": "system", "subtype": "api_retry", "attempt": 1, "error_status": 429, "error": "rate_limit"},
            {"type": "system", "subtype": "task_notification", "task_id": "t", "summary": words},
            {"type": "tool_progress", "tool_name": "Bash", "subagent_retry": {"error_category": "rate_limit"}},
            FAILED | done,
        ])  # fmt: skip


def test_ten_thousand_lines_of_talk_about_limits_contain_no_limit_error_or_message() -> None:
    parser, markers = Parser(), Markers()
    wrong: list[object] = []
    said: list[AgentMessage] = []
    texts = 0
    for line in islice(Talk(2026).lines(), LINES):
        for event in parser.parse(orjson.dumps(line)):
            match event:
                case Text(subagent=False, synthetic=False):
                    texts += 1
                    said += markers.push(f"{event.text}\n")
                    said += markers.flush()
                case Text(error=None, synthetic=False):
                    pass
                case Text() | Unknown() | Noise():
                    wrong.append(event)
                case Limit(status=LimitStatus.REJECTED) | ToolFinished(timed_out=True):
                    wrong.append(event)
                case TurnResult() if event.outcome is not Outcome.OK:
                    wrong.append(event)
    assert (wrong, said) == ([], [])
    assert texts > LINES // 10

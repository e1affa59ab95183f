"""How requests of agents are parsed, and which of them are answered without a user."""

import pytest

from orchestrator.agents.user_request_parser import asking_of_block, asking_of_request
from orchestrator.core.decide.pausing import answer_by_policy
from orchestrator.core.events.agent_events import Asked
from orchestrator.core.events.agent_messages import Category, DependencyRequest, DependencyType, Question
from orchestrator.core.task.ticket import variables_in
from orchestrator.core.task.user_requests import (
    DECIDE_YOURSELF,
    POLICY,
    Answer,
    RequestDraft,
    RequestStatus,
    Subject,
    must_not_be_set,
)
from orchestrator.formats.codec import JsonObject
from orchestrator.pipelines.role import OnAsk, Role, answer_of
from tests.unit.playbook import a_task, dependency, permission, question

PLAN = RequestDraft(subject=Subject.PLAN, text="1. do it", request_id="r1")


@pytest.mark.parametrize(
    ("given", "text"), [({"plan": "1. do it"}, "1. do it"), ({}, "it has finished its plan and wants to begin")]
)
def test_a_plan_is_shown_to_users_verbatim(given: JsonObject, text: str) -> None:
    asked = Asked(request_id="r1", subtype="can_use_tool", tool="ExitPlanMode", input=given)
    (asking,) = asking_of_request(asked, 5)
    assert (asking.subject, asking.text, asking.request_id, asking.start) == (Subject.PLAN, text, "r1", 5)


def test_a_block_in_an_agents_text_becomes_a_question_or_a_dependency_request() -> None:
    asked = asking_of_block(
        Question(category=Category.CHOICE, question="Which?", options=("a", "b"), default="a", required=False)
    )
    assert (asked.subject, asked.text, asked.options, asked.default) == (Subject.QUESTION, "Which?", ("a", "b"), "a")
    needed = asking_of_block(
        DependencyRequest(type=DependencyType.API_KEY, name="KEY", description="to call", required=True, default=None)
    )
    assert (needed.subject, needed.name, needed.text) == (Subject.DEPENDENCY, "KEY", "to call")
    assert (needed.type, needed.required) == ("api_key", True)


def player(**rules: OnAsk) -> Role:
    return Role(name="worker", description="Works.", prompt="Work.", **rules)  # type: ignore[arg-type]  # any rule


@pytest.mark.parametrize(
    ("role", "asking", "answer"),
    [
        (player(), permission(), None),
        (player(on_permission=OnAsk.ALLOW), permission(), Answer(status=RequestStatus.ANSWERED, text="allow")),
        (player(on_permission=OnAsk.DENY), permission(), Answer(status=RequestStatus.ANSWERED, text="deny")),
        (player(on_question=OnAsk.DENY), question(), Answer(status=RequestStatus.ANSWERED, text=DECIDE_YOURSELF)),
        (player(on_question=OnAsk.DENY), question(default="left"), Answer(status=RequestStatus.ANSWERED, text="left")),
        (player(on_question=OnAsk.ALLOW), question(), None),
        (player(on_plan=OnAsk.ALLOW), PLAN, Answer(status=RequestStatus.APPROVED)),
        (player(on_plan=OnAsk.DENY), PLAN, None),
        (player(on_permission=OnAsk.ALLOW, on_question=OnAsk.DENY, on_plan=OnAsk.ALLOW), dependency(), None),
    ],
)
def test_a_roles_own_rules_answer_the_requests_they_name(
    role: Role, asking: RequestDraft, answer: Answer | None
) -> None:
    assert answer_of(role, asking) == answer


@pytest.mark.parametrize("subject", [Subject.MERGE, Subject.RELEASE])
def test_publishing_is_never_approved_by_policy(subject: Subject) -> None:
    assert answer_by_policy(a_task(), RequestDraft(subject=subject, text="merge?")) is None
    stage = answer_by_policy(a_task(), RequestDraft(subject=Subject.STAGE, text="go on?"))
    assert stage == Answer(status=RequestStatus.APPROVED, by=POLICY)


@pytest.mark.parametrize(
    "variable",
    ["PATH", "LD_PRELOAD", "GIT_SSH", "PYTHONPATH", "CLAUDE_X", "ORCHESTRATOR_X", "ANTHROPIC_BASE_URL", "https_proxy"],
)
def test_variables_that_decide_what_is_executed_must_not_be_set(variable: str) -> None:
    assert must_not_be_set(variable)
    assert not must_not_be_set(f"MY_{variable}")


def test_variables_are_found_anywhere_in_a_text_and_listed_once() -> None:
    assert variables_in(("${A} ${B_1}", "x${A}", "${C:-none} $D ${1} ${}")) == ("A", "B_1")

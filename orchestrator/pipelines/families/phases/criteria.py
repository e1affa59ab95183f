"""What a verifier judges in each phase. The ids of the first three phases are those of Claude Code Server."""

from collections.abc import Mapping

CRITERIA: Mapping[str, Mapping[str, str]] = {
    "PLANNING_VERIFICATION": {
        "P1_CONS_01": "the documents call every persona, feature and figure by one name, and none contradicts another",
        "P1_CONS_02": "each feature serves a persona and a step of its journey; each step that matters has a feature",
        "P1_CONS_03": "the roadmap delivers what product and features promise, in an order that their parts allow",
        "P1_FEAS_01": "the technology fits the features, and what is there already",
        "P1_FEAS_02": "what is to be built first can be built, run and tested in this task, with what is at hand",
    },
    "DESIGN_VERIFICATION": {
        "P2_ALIGN_01": "everything planned has its place in the design: screen or interface, data, flow, errors",
        "P2_ALIGN_02": "the design adds nothing that was not planned",
        "P2_CONS_01": "names, types and states are the same in every document",
        "P2_CONS_02": "each flow has an end for every case: success, refusal, failure, an empty or second input",
        "P2_QUAL_02": "it can be written down as code without a decision left to make",
    },
    "DEVELOPMENT_VERIFICATION": {
        "P3_ALIGN_01": "the code does what the design says, completely, and nothing beside it",
        "P3_TEST_01": "its tests pass, and fail if the behaviour they are about is taken away",
        "P3_RUN_01": "it installs, starts and answers as README.md says, from a fresh checkout",
        "P3_SAFE_01": "no secret is in it, input from outside is checked, and failures are reported, not hidden",
    },
    "ANALYSIS_VERIFICATION": {
        "P1_CONS_01": "each statement about the code is true of the code, with file and symbol",
        "P1_CONS_02": "everything that the change touches is covered: callers, tests, configuration, data",
        "P1_FEAS_01": "how the project is built and tested is described by commands that work",
    },
    "PLAN_VERIFICATION": {
        "P2_ALIGN_01": "the plan does all that is asked, step by step, and nothing else",
        "P2_CONS_01": "it agrees with the analysis and with the code",
        "P2_QUAL_02": "each step names its files and what proves it, and leaves the project working",
    },
    "IMPLEMENTATION_VERIFICATION": {
        "P3_ALIGN_01": "the commits carry out the plan, completely, and nothing beside it",
        "P3_CONS_01": "the code reads as the code around it does",
        "P3_TEST_01": "old and new tests pass; new behaviour has a test, a repair one that failed before",
        "P3_SAFE_01": "no test was loosened, no secret added, and nothing that worked is broken",
    },
    "REQUIREMENTS_VERIFICATION": {
        "P1_CONS_01": "trigger, input, steps, output and failures of the workflow are named, without contradiction",
        "P1_CONS_02": "each requirement can be tested, and says how",
        "P1_FEAS_01": "every service and permission that it needs is named, with what happens without it",
    },
    "TESTING": {
        "P4_ACC_01": "each feature that was planned for now works when it is used as a user would use it",
        "P4_TEST_01": "the whole test suite passes on a fresh checkout of the last commit",
        "P4_RUN_01": "every command in README.md works as it is written",
        "P4_FAIL_01": "wrong, empty, huge and repeated input is refused or survived, with a message that helps",
    },
}
"""By the stage that verifies: the id of each criterion, and when it is passed."""


def criteria_of(stage: str) -> str:
    """Return the criteria of a stage as lines of a turn; empty if the stage has none of its own."""
    found = CRITERIA.get(stage, {})
    lines = [f"- {name}: {text}" for name, text in found.items()]
    return "\n".join(("Judge each of these, under its id:", *lines)) if lines else ""

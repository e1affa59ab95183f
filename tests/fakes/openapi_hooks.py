"""Hooks of schemathesis: made-up requests name only folders of the test, and streams end with what there is."""

import os
from typing import Any

import schemathesis

PLACES = "OPENAPI_TEST_PLACES"
"""The variable with the folders that requests may name, by the names of their fields: `repo=/…:folder=/…`."""


@schemathesis.hook
def before_call(context: schemathesis.HookContext, case: schemathesis.Case[Any], kwargs: dict[str, Any]) -> None:
    """Put a folder of the test in the place of any other absolute path, and follow no stream."""
    if case.operation.path.endswith(("/events", "/stream")) and str(case.query.get("follow", True)) in {"True", "true"}:
        case.query["follow"] = "false"
    places = dict(place.split("=", 1) for place in os.environ[PLACES].split(":"))
    if isinstance(case.body, dict):
        for field, place in places.items():
            if str(case.body.get(field, "")).startswith("/"):
                case.body[field] = place

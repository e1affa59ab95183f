"""What every schema of the API is made of.

JSON is in camelCase; the daemon makes views and the client reads them. Fields that hold an agent's words are `Words`.
They are redacted by the function that is given as context when a view is made, and a view with words cannot be made
without one: `to_view` makes them all.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, TypeVar

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticKnownError

_NUMBER = re.compile(r"[-+]?[0-9_]*\.?[0-9_]*(?:e[-+]?[0-9]+)?", re.ASCII | re.IGNORECASE)


class View(BaseModel):
    """Something that the API accepts or returns."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, from_attributes=True)


class RequestBody(View):
    """What a request brings, and nothing else: in it 1 is no boolean, and neither true nor "1" is a number."""

    model_config = ConfigDict(extra="forbid")

    @field_validator("*", mode="wrap")
    @classmethod
    def _of_its_json_type(cls, value: object, validate: ValidatorFunctionWrapHandler) -> object:
        found: object = validate(value)
        if isinstance(found, bool) and not isinstance(value, bool):
            raise PydanticKnownError("bool_type")
        if isinstance(found, int | float) and isinstance(value, bool | str) and not isinstance(found, bool):
            raise PydanticKnownError("int_type" if isinstance(found, int) else "float_type")
        return found


V = TypeVar("V", bound=View)
Redact = Callable[[str], str]


def to_view(kind: type[V], value: object, redact: Redact) -> V:
    """Return a view of a value or of a camelCase document, with every text of an agent redacted."""
    return kind.model_validate(value, context=redact)


def compose_view(kind: type[V], redact: Redact, *sources: object, **given: object) -> V:
    """Return a view whose fields are `given`, or else attributes of the first source that has one of that name."""
    values = dict(given)
    for name in kind.model_fields.keys() - given.keys():
        source = next((source for source in sources if hasattr(source, name)), None)
        if source is not None:
            values[name] = getattr(source, name)
    return to_view(kind, values, redact)


def _masked(text: str, info: ValidationInfo) -> str:
    redact: Redact | None = info.context
    if redact is None:
        raise TypeError("a view with an agent's words is made by `to_view`")
    return redact(text)


Words = Annotated[str, AfterValidator(_masked)]


def without_surrogates(text: str) -> str:
    """Return the text if it can be encoded as UTF-8; raise ValueError if not."""
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError("is not text; give plain UTF-8")
    return text


Utf8 = Annotated[str, AfterValidator(without_surrogates)]


def _written_out(value: object) -> object:
    if isinstance(value, int | float) or (isinstance(value, str) and _NUMBER.fullmatch(value.strip())):
        raise ValueError("is a number; write the time out, such as 2026-11-22T18:00:00Z")
    return value


def _in_utc(at: datetime) -> datetime:
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise ValueError("is out of range in UTC") from None


Instant = Annotated[AwareDatetime, BeforeValidator(_written_out), AfterValidator(_in_utc)]
"""A time with a time zone, never a number of seconds; it is in UTC."""

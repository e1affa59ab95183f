"""What every schema of the API is made of.

JSON is in camelCase; the daemon makes views and the client reads them. Fields that hold an agent's words are `Words`.
They are redacted by the function that is given as context when a view is made, and a view with words cannot be made
without one: `to_view` makes them all.
"""

from collections.abc import Callable
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationInfo
from pydantic.alias_generators import to_camel


class View(BaseModel):
    """Something that the API accepts or returns."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, from_attributes=True)


V = TypeVar("V", bound=View)


def to_view(kind: type[V], value: object, redact: Callable[[str], str]) -> V:
    """Return a view of a value or of a camelCase document, with every text of an agent redacted."""
    return kind.model_validate(value, context=redact)


def _masked(text: str, info: ValidationInfo) -> str:
    redact: Callable[[str], str] | None = info.context
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

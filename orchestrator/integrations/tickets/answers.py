"""What all trackers' answers are made of: fields of which any may be missing, and texts of any length."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict


def _in_utc(value: object) -> object:
    """A time with its zone; Jira writes +0000 where others write +00:00."""
    if not isinstance(value, str):
        return value
    if not value:
        return None
    at = datetime.fromisoformat(value)
    return at.replace(tzinfo=at.tzinfo or UTC).astimezone(UTC)


Moment = Annotated[datetime | None, BeforeValidator(_in_utc)]


class Answer(BaseModel):
    """A part of an answer; what we did not ask for is not looked at."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Named(Answer):
    """Anything that has a name."""

    name: str = ""

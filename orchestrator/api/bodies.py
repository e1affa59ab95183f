"""The shapes of what may be asked of a task beside being handed in."""

from typing import Annotated, Self

from pydantic import ConfigDict, Field, model_validator

from orchestrator.api.views import View
from orchestrator.core.model import Priority


class CapsBody(View):
    """Caps as they shall be; null takes one away, and those that are not named stay."""

    model_config = ConfigDict(extra="forbid")

    usd: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    tokens: Annotated[int, Field(gt=0)] | None = None
    turns: Annotated[int, Field(gt=0)] | None = None
    hours: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


class ChangeBody(View):
    """What of a task is to be different from now on."""

    model_config = ConfigDict(extra="forbid")

    caps: CapsBody | None = None
    priority: Priority | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.caps is None and self.priority is None:
            raise ValueError("name caps, priority or both")
        return self

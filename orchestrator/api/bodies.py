"""The shapes of what may be asked of a task beside being handed in."""

from typing import Annotated

from pydantic import ConfigDict, Field

from orchestrator.api.views import View


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

    caps: CapsBody

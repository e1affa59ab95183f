"""The types that tables of the settings share."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Seconds = Positive


def _whole_path(path: Path) -> Path:
    try:
        return path.expanduser().absolute()
    except RuntimeError as error:
        raise ValueError(str(error)) from error


WholePath = Annotated[Path, AfterValidator(_whole_path)]


class SettingsSection(BaseModel):
    """A table of the settings."""

    model_config = ConfigDict(frozen=True, extra="forbid")

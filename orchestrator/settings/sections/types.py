"""The types that tables of the settings share."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Seconds = Positive


def _named(path: object) -> object:
    if path == "":
        raise ValueError("is empty; name a path, or leave the setting out")
    return path


def _whole_path(path: Path) -> Path:
    try:
        return path.expanduser().absolute()
    except RuntimeError as error:
        raise ValueError(str(error)) from error


WholePath = Annotated[Path, BeforeValidator(_named), AfterValidator(_whole_path)]


class SettingsSection(BaseModel):
    """A table of the settings."""

    model_config = ConfigDict(frozen=True, extra="forbid")

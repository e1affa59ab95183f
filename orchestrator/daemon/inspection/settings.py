"""The settings in force, and where each value comes from; what may be a secret is masked."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ByteSize

from orchestrator.settings.environment import config_folders
from orchestrator.settings.layers import layer_that_sets
from orchestrator.settings.settings import Settings

MASK = "••••"
DEFAULT = "default"
"""The source of a value that nobody has set."""
MOST_ENTRIES = 200
"""How many entries of a table with free names are shown."""
SECRET_TABLES = frozenset({("agent", "env")})
"""Tables whose values are given to agents: variables that may hold anything."""
CHANNELS = ("notify", "channels")
"""A table of tables whose addresses may be secrets as a whole, such as that of a webhook of Slack."""
_AFTER_SCHEME = re.compile(r"(?<=://)[^\"]+")
_SECRET_NAME = re.compile(r"token|secret|password|passwd|credential|api_?key", re.IGNORECASE)
_IN_ADDRESS = re.compile(r"(?<=://)[^/\s@]+@|\?\S*|#\S*")
"""What of an address may be a secret: a login, and what stands behind the path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingValue:
    """A setting as it is in force: its name with dots, its value as TOML would write it, and where that comes from.

    `line` is 0 where the source is no file. A value that may be a secret `is_masked`.
    """

    name: str
    value: str
    source: str
    line: int
    is_masked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsInForce:
    """Every setting, and the files that are read, with whether they exist; later ones win."""

    values: tuple[SettingValue, ...]
    files: tuple[tuple[Path, bool], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsService:
    """The use case of looking at the settings."""

    settings: Callable[[], Settings]

    def in_force(self) -> SettingsInForce:
        """Return the settings as they are in force now."""
        settings = self.settings()
        usual = [folder / "orchestrator.toml" for folder in config_folders()]
        given = [Path(layer.source) for layer in settings.layers if layer.lines]
        files = dict.fromkeys([*usual, *given])
        return SettingsInForce(
            values=tuple(_values(settings, settings, ())),
            files=tuple((path, any(layer.source == str(path) for layer in settings.layers)) for path in files),
        )


def _values(settings: Settings, table: BaseModel, path: tuple[str, ...]) -> Iterator[SettingValue]:
    for name in type(table).model_fields:
        value: object = getattr(table, name)
        here = (*path, name)
        if isinstance(value, BaseModel):
            yield from _values(settings, value, here)
        elif isinstance(value, Mapping):
            yield from _entries(settings, value, here)
        else:
            yield _setting(settings, here, value)


def _entries(settings: Settings, table: Mapping[str, object], path: tuple[str, ...]) -> Iterator[SettingValue]:
    """Yield the entries of a table with free names, or that it is empty."""
    if not table:
        yield _setting(settings, path, {})
    for name, value in list(table.items())[:MOST_ENTRIES]:
        if isinstance(value, BaseModel):
            yield from _values(settings, value, (*path, name))
        else:
            yield _setting(settings, (*path, name), value)


def _setting(settings: Settings, path: tuple[str, ...], value: object) -> SettingValue:
    layer = layer_that_sets(settings.layers, path)
    text = _IN_ADDRESS.sub(MASK, _text(value))
    if path[:2] == CHANNELS and path[-1] == "url":
        text = _AFTER_SCHEME.sub(MASK, _text(value))
    is_named_so = _is_free(settings, path) and _SECRET_NAME.search(path[-1]) is not None
    is_secret = bool(value) and (path[:-1] in SECRET_TABLES or is_named_so)
    return SettingValue(
        name=".".join(path),
        value=MASK if is_secret else text,
        source=layer.source if layer else DEFAULT,
        line=layer.line_of(path) if layer else 0,
        is_masked=is_secret or text != _text(value),
    )


def _is_free(settings: Settings, path: tuple[str, ...]) -> bool:
    """Return whether the last key is an entry of a table with free names, which somebody may have named a secret."""
    here: object = settings
    for key in path[:-1]:
        here = here.get(key) if isinstance(here, Mapping) else getattr(here, key)
    return isinstance(here, Mapping)


def _text(value: object) -> str:
    """Return a value as TOML would write it, near enough to be read."""
    match value:
        case None:
            return ""
        case ByteSize():
            return f'"{value.human_readable()}"'
        case bool():
            return str(value).lower()
        case int() | float():
            return f"{value:g}" if isinstance(value, float) else str(int(value))
        case tuple() | frozenset() | list():
            return f"[{', '.join(sorted(map(_text, value)) if isinstance(value, frozenset) else map(_text, value))}]"
        case Mapping():
            return "{}"
        case _:
            return f'"{value}"'

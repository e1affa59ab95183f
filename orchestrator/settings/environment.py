"""The environment of this process: its variables, secret files, and the folders of settings."""

import os
from collections.abc import Mapping
from pathlib import Path

from orchestrator.formats.secret_files import read_secrets
from orchestrator.formats.table import Problem


def environment() -> dict[str, str]:
    """Return the environment of this process."""
    return dict(os.environ)


def environment_with_secrets() -> dict[str, str]:
    """Return the environment of this process, and what secret files hold for variables that it lacks. Blocks."""
    secrets, _ = secret_files()
    return {**secrets, **os.environ}


def secret_files() -> tuple[dict[str, str], list[Problem]]:
    """Return the secrets in systemd's credentials and beside the settings, and which files are not used."""
    given = credentials_folder()
    folders = [(folder / "credentials", False) for folder in config_folders()] + ([(given, True)] if given else [])
    found: dict[str, str] = {}
    problems: list[Problem] = []
    for folder, by_systemd in folders:
        secrets, wrong = read_secrets(folder, by_systemd=by_systemd)
        found |= secrets
        problems += [Problem(source="secrets", text=text) for text in wrong]
    return found, problems


def secrets_of_service() -> dict[str, str]:
    """Return the secrets that systemd gave to the service of this machine or user, as far as this user may read them.

    They are for looking whether the service has what it needs. Blocks.
    """
    places = (Path("/run"), *map(Path, filter(None, [os.environ.get("XDG_RUNTIME_DIR")])))
    found = [read_secrets(place / "credentials/orchestrator.service", by_systemd=True)[0] for place in places]
    return {name: value for secrets in found for name, value in secrets.items()}


def secret_file(name: str) -> Path:
    """Return the file beside the user's settings that holds the secret for a variable."""
    return config_folders()[-1] / "credentials" / name


def credentials_folder() -> Path | None:
    """Return where systemd puts what a unit's LoadCredential= names, if anywhere."""
    given = os.environ.get("CREDENTIALS_DIRECTORY")
    return Path(given) if given else None


def config_folders() -> tuple[Path, ...]:
    """Return the folders in which the machine and then the user keep settings, pipelines and roles."""
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path("/etc/orchestrator"), Path(home).expanduser() / "orchestrator"


def default_data_dir() -> Path:
    """Return the state directory given by systemd (the first of several), else the user's."""
    if given := os.environ.get("STATE_DIRECTORY", "").split(":")[0]:
        return Path(given)
    return Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state") / "orchestrator"


def default_socket(known: Mapping[str, Path]) -> Path:
    """Return the socket in the runtime directory given by systemd, else in the data folder."""
    return Path(os.environ.get("RUNTIME_DIRECTORY", "").split(":")[0] or known["data_dir"]) / "orchestrator.sock"

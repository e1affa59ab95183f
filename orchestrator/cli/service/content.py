"""The files of a service: those that ship with the program, and those that name places of this machine."""

import json
from pathlib import Path

from orchestrator.cli.service.scope import UNIT, Places, Scope
from orchestrator.pipelines.bundled import Kind, bundled

USUAL_PATH = "/usr/local/bin:/usr/bin:/bin"


def files_of(places: Places) -> dict[Path, bytes]:
    """Return the content of every file of a service, by its path."""
    shipped = bundled(Kind.SYSTEMD)
    found = {
        places.unit: (shipped / UNIT).read_bytes(),
        places.drop_ins / "install.conf": _drop_in(places).encode(),
        places.settings: _settings(places).encode(),
    }
    if places.scope is Scope.SYSTEM:
        found[places.drop_ins / "hardening.conf"] = (shipped / f"{UNIT}.d/hardening.conf").read_bytes()
        for kind in ("sysusers.d", "tmpfiles.d"):
            found[Path("/etc") / kind / "orchestrator.conf"] = (shipped / kind / "orchestrator.conf").read_bytes()
    return found


def links_of(places: Places) -> dict[Path, Path]:
    """Return the links of a service to their targets: the program, where everybody finds it."""
    return {Path("/usr/local/bin/orchestrator"): places.program} if places.scope is Scope.SYSTEM else {}


def _drop_in(places: Places) -> str:
    """Return what the unit needs to know of this machine. A percent sign would begin a specifier."""
    program, folder = (str(path).replace("%", "%%") for path in (places.program, places.program.parent))
    lines = [
        "# Written by `orchestrator service install`. Put changes into a file of your own beside it.",
        "[Service]",
        f'Environment="PATH={folder}:{USUAL_PATH}"',
        "ExecStart=",
        f'ExecStart="{program}" serve',
    ]
    if places.scope is Scope.SYSTEM:
        lines += [f"User={places.account}", f"BindPaths=-{places.home}"]
    return "\n".join(lines) + "\n"


def _settings(places: Places) -> str:
    """Return the settings that commands need in order to find the daemon; JSON's strings are TOML's."""
    lines = ["# config/orchestrator.toml of the program documents every key; `orchestrator check` finds mistakes."]
    lines += [f"{key} = {json.dumps(str(value))}" for key, value in _found(places).items()]
    return "\n".join(lines) + "\n"


def _found(places: Places) -> dict[str, Path]:
    return {"data_dir": places.data_dir, "socket": places.socket}

"""The service in the machine, as a scenario of a night needs it: set up anew, asked, killed."""

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from tests.nspawn.machine import PROGRAM, PYTHON, ROOT, as_account, out, run, until
from tests.nspawn.scenarios import AGENT, DROP_INS, FIND_AGENT, SETTINGS, UNIT, is_active, main_pid

HOME, DATA = "/home/orchestrator", "/var/lib/orchestrator"
REPO = f"{HOME}/textkit"
DROP_IN = DROP_INS / "zz-test.conf"
BASE = f'data_dir = "{DATA}"\nsocket = "/run/orchestrator/orchestrator.sock"\n'
MAKE_REPOSITORIES = """\
rm -rf textkit closed agent repo restored
mkdir agent
for name in textkit closed; do
  git init -q -b main $name
  mkdir $name/textkit $name/tests
  printf 'def shout(text: str) -> str:\\n    return text.upper()\\n' > $name/textkit/__init__.py
  touch $name/tests/__init__.py
  printf '# textkit\\n' > $name/README.md
  printf '__pycache__/\\n' > $name/.gitignore
  git -C $name add .
  git -C $name -c user.name=t -c user.email=t@example.org commit -qm first
done
"""
ENDED = frozenset({"completed", "failed", "blocked", "cancelled"})
PRESENT = "%Y-%m-%d %H:%M:%S"


def set_up(
    settings: str = "", *, first: str = "", scenario: Mapping[str, object] | None = None, drop_in: str = ""
) -> None:
    """Start the service on an empty data folder; `first` are settings that stand outside of any table."""
    run("systemctl", "stop", UNIT)
    run("systemctl", "kill", "--signal=KILL", UNIT)
    out("find", DATA, "-mindepth", "1", "-delete")
    out(*as_account("sh", "-ec", MAKE_REPOSITORIES))
    set_drop_in(drop_in)
    agent = out(PYTHON, "-c", FIND_AGENT).strip()
    told = AGENT.format(python=PYTHON, agent=agent, scenario=json.dumps(scenario or {}))
    (ROOT / str(SETTINGS)[1:]).write_text(BASE + first + told + settings)
    out("systemctl", "start", UNIT)
    until_it_answers()


def set_drop_in(lines: str) -> None:
    """Give the unit these lines beside its own, and a short pause before it is started again."""
    DROP_IN.write_text(f"[Service]\nRestartSec=1\n{lines}")
    out("systemctl", "daemon-reload")
    run("systemctl", "reset-failed", UNIT)


def ask(*words: str, account: bool = False) -> Any:
    """Return what a command of the program prints with --json; it must not fail."""
    return json.loads(out(*(as_account() if account else ()), PROGRAM, *words, "--json"))


def submit(text: str, *options: str, repo: str = REPO) -> str:
    """Submit a task as the service's account, and return its id."""
    return str(ask("submit", text, *options, "--again", "--repo", repo, account=True)["id"])


def status_of(task: str) -> str:
    """Return a task's status."""
    return str(ask("show", task)["status"])


def end_of(task: str, patience: float = 120.0) -> str:
    """Wait until a task has ended, and return how."""

    def ended() -> str:
        with suppress(RuntimeError):
            status = status_of(task)
            return status if status in ENDED else ""
        return ""

    return until(f"the end of {task}", ended, patience)


def kill() -> None:
    """Kill the daemon alone, and wait for the next one."""
    old = main_pid()
    out("kill", "-KILL", str(old))
    until("another daemon", lambda: main_pid() not in {0, old} and is_active())
    until_it_answers()


def until_it_answers() -> None:
    """Wait until the daemon answers."""
    until("the daemon's answer", lambda: run(PROGRAM, "status").returncode == 0)


def present() -> str:
    """Return the present time, as journalctl reads it."""
    return out("date", f"+{PRESENT}").strip()


def now() -> datetime:
    """Return the time; the machine has the clock of its host."""
    return datetime.now(UTC)


def clock(moment: datetime) -> str:
    """Return a moment as a time of day; the machine's zone is UTC."""
    return moment.strftime("%H:%M")


def logged(event: str, since: str) -> list[dict[str, Any]]:
    """Return the daemon's log lines of an event since a time."""
    lines = out("journalctl", "-u", UNIT, "-o", "cat", "--no-pager", f"--since={since}").splitlines()
    found = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
    return [one for one in found if one.get("event") == event]

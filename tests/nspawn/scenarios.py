"""What is tried in the booted machine; each scenario prints facts, and fails by an exception.

Signals that make the daemon hang are not the program's: a file in the machine's site-packages adds them. USR1 makes the
event loop spin, USR2 lets a regular expression hold the interpreter.
"""

import json
import time
from pathlib import Path

from tests.nspawn.machine import PROGRAM, PYTHON, ROOT, as_account, make_wheel, out, run, until

UNIT = "orchestrator.service"
BITE_SECONDS = 12
DROP_INS = ROOT / f"etc/systemd/system/{UNIT}.d"
SETTINGS = Path("/etc/orchestrator/orchestrator.toml")
HANGING = """\
import re, signal

def spin(*_):
    while True:
        pass

def hold(*_):
    re.match("(a+)+$", "a" * 60 + "b")

signal.signal(signal.SIGUSR1, spin)
signal.signal(signal.SIGUSR2, hold)
"""
AGENT = """
[agent]
driver = "command"
command = ["{python}", "{agent}"]
writable = ["/home/orchestrator/agent"]
[agent.env]
ORCHESTRATOR_SCRIPTED_HOME = "/home/orchestrator/agent"
ORCHESTRATOR_SCENARIO = '{scenario}'
"""
FIND_AGENT = "from orchestrator.pipelines.bundled import *; print(bundled(Kind.SCRIPTED_AGENT))"
MAKE_REPOSITORY = """\
rm -rf repo agent
mkdir agent
git init -q -b main repo
cd repo
echo hello > README.md
git add .
git -c user.name=t -c user.email=t@example.org commit -qm first
"""
HELD = {
    "ANALYSIS": [
        [{"run": "cat /proc/1/comm > who; for i in $(seq 300); do echo $i >> ticks; sleep 1; done"}],
    ]
}


def say(what: str, fact: object = "") -> None:
    """Print a fact."""
    print(f"{what:<44} {fact}".rstrip(), flush=True)  # noqa: T201 - this program prints its results


def install() -> None:
    """Install the program and the service, twice; the second time nothing is written."""
    wheel = make_wheel()
    out("python3", "-m", "venv", "/opt/orchestrator")
    out(PYTHON, "-m", "pip", "install", "-q", "--no-index", "--find-links", "/wheels", "--force-reinstall",
        "--no-deps", str(wheel))  # fmt: skip
    out(PYTHON, "-m", "pip", "install", "-q", "--no-index", "--find-links", "/wheels", str(wheel))
    program = "/opt/orchestrator/bin/orchestrator"
    begun = time.monotonic()
    plan = json.loads(out(program, "service", "install", "--system", "--dry-run", "--json"))
    say("plan", f"{len(plan['steps'])} steps, done: {plan['done']}")
    out(program, "service", "install", "--system", "--yes")
    say("installed and started", f"{time.monotonic() - begun:.1f} s")
    again = json.loads(out(program, "service", "install", "--system", "--yes", "--json"))
    deeds = [step["deed"] for step in again["steps"]]
    assert not {"write", "link"} & set(deeds), deeds
    say("installed again", f"{deeds.count('same')} files are the same, nothing written")


def score() -> None:
    """Let systemd judge the unit."""
    say("systemd-analyze security", out("systemd-analyze", "security", UNIT, "--no-pager").splitlines()[-1].strip())


def prepare() -> None:
    """Give the daemon a scripted agent, a repository and a short watchdog, and a site-packages that can hang it."""
    lines = (ROOT / str(SETTINGS)[1:]).read_text().splitlines()
    before = "\n".join(
        line for line in lines if line.split("=")[0].strip() in {"data_dir", "socket"} or line[:1] == "#"
    )
    agent = out(PYTHON, "-c", FIND_AGENT).strip()
    text = AGENT.format(python=PYTHON, agent=agent, scenario=json.dumps(HELD))
    (ROOT / str(SETTINGS)[1:]).write_text(f"{before}\n{text}")
    (DROP_INS / "zz-test.conf").write_text(f"[Service]\nWatchdogSec={BITE_SECONDS}\nRestartSec=1\n")
    packages = Path(out(PYTHON, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (ROOT / str(packages)[1:] / "hanging.py").write_text(HANGING)
    (ROOT / str(packages)[1:] / "hanging.pth").write_text("import hanging\n")
    out(*as_account("sh", "-ec", MAKE_REPOSITORY))
    out("systemctl", "daemon-reload")
    out("systemctl", "restart", UNIT)
    say("prepared", f"a scripted agent, a repository, WatchdogSec={BITE_SECONDS}")


def sandbox() -> None:
    """Start a task whose agent ticks in a sandbox."""
    status = json.loads(out(PROGRAM, "status", "--json"))
    assert status["isolation"] == "bubblewrap", status["isolation"]
    done = out(*as_account(PROGRAM, "submit", "Add slugify", "--repo", "/home/orchestrator/repo", "--json"))
    task = json.loads(done)["id"]
    until("ticks of the agent", lambda: ticks() > 1)
    who = next((ROOT / "var/lib/orchestrator/worktrees").glob("*/who")).read_text().strip()
    say("the agent works in a sandbox", f"task {task}; its PID 1 is {who}")


def ticks() -> int:
    """Return how often the agents have ticked."""
    return sum(len(file.read_text().splitlines()) for file in (ROOT / "var/lib/orchestrator/worktrees").glob("*/ticks"))


def bites() -> None:
    """Let the daemon hang in three ways; each time the watchdog ends it, and its agent lives on."""
    for name, number in (("stopped", "STOP"), ("spinning", "USR1"), ("holding the interpreter", "USR2")):
        pid, agents = main_pid(), agent_pids()
        assert agents, "no agent runs"
        before, begun, at = ticks(), time.monotonic(), out("date", "+%Y-%m-%d %H:%M:%S").strip()
        out("kill", f"-{number}", str(pid))
        until("another daemon", lambda old=pid: main_pid() not in {0, old} and is_active())  # type: ignore[misc]
        seconds = time.monotonic() - begun
        until("the daemon's answer", lambda: run(PROGRAM, "status").returncode == 0)
        assert agent_pids() == agents, (agent_pids(), agents)
        until("the next tick", lambda least=before: ticks() > least)  # type: ignore[misc]
        words = journal(at)
        assert "Watchdog timeout" in words, words
        assert "aborted it (SIGABRT)" in words, words
        told = "part_hangs" in words or "Timeout (0:00:" in words
        assert told or number == "STOP", words
        say(f"{name}: bitten and active again", f"{seconds:.1f} s; told before: {told}; agents live on: {agents}")


def reload() -> None:
    """Reload good and bad settings."""
    file = ROOT / str(SETTINGS)[1:]
    good = file.read_text()
    out("systemctl", "reload", UNIT)
    say("reload", until("the outcome", lambda: shown("reloaded at")))
    file.write_text(f"max_agents = 'many'\n{good}")
    out("systemctl", "reload", UNIT)
    say("reload of bad settings", until("the outcome", lambda: shown("refused")))
    file.write_text(good)
    out("systemctl", "reload", UNIT)
    until("the outcome", lambda: shown("reloaded at"))


def upgrade() -> None:
    """Upgrade to a wheel of the same version; the agent lives on."""
    agents = agent_pids()
    wheel = make_wheel()
    begun = time.monotonic()
    done = run(PROGRAM, "service", "upgrade", str(wheel), "--yes")
    assert "rolled" not in done.stderr, done.stderr
    assert is_active(), done.stdout + done.stderr
    assert agent_pids() == agents, (agent_pids(), agents)
    say("upgraded", f"{time.monotonic() - begun:.1f} s; doctor's exit code {done.returncode}; agents live on")
    failed = run(PROGRAM, "service", "upgrade", "/wheels/none.whl", "--yes")
    assert failed.returncode == 1
    assert "to go back" in failed.stderr, failed.stderr
    assert is_active()
    say("an upgrade that fails", "says how to go back, the service runs")


def warnings() -> None:
    """Show how many warnings the journal has that are none of the scenarios' own."""
    lines = out("journalctl", "-u", UNIT, "-p", "warning", "-o", "cat", "--no-pager").splitlines()
    events: dict[str, int] = {}
    for line in lines:
        name = json.loads(line)["event"] if line.startswith("{") else line[:60]
        events[name] = events.get(name, 0) + 1
    say("journalctl -p warning", events)


def uninstall() -> None:
    """Remove the service whole; the data stays until it is given up."""
    (DROP_INS / "zz-test.conf").unlink(missing_ok=True)
    plan = json.loads(out(PROGRAM, "service", "uninstall", "--yes", "--json"))
    left = [str(file) for file in TRACES if (ROOT / file).exists()]
    say("uninstalled", f"{len(plan['steps'])} steps; left: {left}")
    assert (ROOT / "var/lib/orchestrator/tasks").is_dir()
    assert left == ["etc/orchestrator/orchestrator.toml"], "the settings were changed by hand, so they are kept"
    out("/opt/orchestrator/bin/orchestrator", "service", "uninstall", "--system", "--delete-data", "--yes")
    assert not (ROOT / "var/lib/orchestrator").exists()
    assert run("id", "orchestrator").returncode
    say("its data deleted", "folder, home and account are gone")


def of_user() -> None:
    """Install the service of an ordinary user, with sandboxes that work, and remove it."""
    if run("id", "ann").returncode:
        out("useradd", "--create-home", "ann")
    uid = out("id", "-u", "ann").strip()
    out("loginctl", "enable-linger", "ann")
    until("the user's service manager", lambda: (ROOT / "var/lib/systemd/linger/ann").exists() and
          run("test", "-S", f"/run/user/{uid}/systemd/private").returncode == 0)  # fmt: skip
    ann = ("runuser", "-u", "ann", "--", "env", "-C", "/home/ann", "HOME=/home/ann", f"XDG_RUNTIME_DIR=/run/user/{uid}")
    program = "/opt/orchestrator/bin/orchestrator"
    out(*ann, program, "service", "install", "--user", "--yes")
    status = json.loads(out(*ann, program, "status", "--json"))
    shown = json.loads(out(*ann, program, "service", "status", "--json"))["properties"]
    assert (shown["ActiveState"], status["isolation"]) == ("active", "bubblewrap"), (shown, status["isolation"])
    say("service of a user", f"{shown['StatusText']}; isolation: {status['isolation']}")
    out(*ann, program, "service", "uninstall", "--user", "--yes")
    left = run("sh", "-c", "find /home/ann/.config -type f -o -type l").stdout.split()
    assert left == [], left
    assert (ROOT / "home/ann/.local/state/orchestrator/tasks").is_dir()
    say("service of a user uninstalled", "nothing of it is left but its data")


TRACES = (
    f"etc/systemd/system/{UNIT}",
    f"etc/systemd/system/{UNIT}.d",
    f"etc/systemd/system/default.target.wants/{UNIT}",
    "etc/sysusers.d/orchestrator.conf",
    "etc/tmpfiles.d/orchestrator.conf",
    "etc/orchestrator/orchestrator.toml",
    "etc/orchestrator/service.json",
    "usr/local/bin/orchestrator",
    "run/orchestrator-proc",
)


def main_pid() -> int:
    """Return the pid of the daemon in the machine, 0 if none runs."""
    return int(out("systemctl", "show", "--value", "--property=MainPID", UNIT))


def is_active() -> bool:
    """Return whether the service is up."""
    return run("systemctl", "is-active", UNIT).stdout.strip() == "active"


def agent_pids() -> list[str]:
    """Return the pids of the agents in the machine."""
    return sorted(run("pgrep", "-f", "scripted_agent.py").stdout.split())


def journal(since: str) -> str:
    """Return what the journal has of the service since a time."""
    return out("journalctl", "-u", UNIT, "-o", "cat", "--no-pager", f"--since={since}")


def shown(words: str) -> str:
    """Return the status that systemd shows, if it has these words."""
    text = out("systemctl", "show", "--value", "--property=StatusText", UNIT).strip()
    return text if words in text else ""

"""Agents and checks in sandboxes: what they can reach, and that everything else is as without."""

import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.core.task.task import TaskStatus
from orchestrator.daemon.isolation import usable_program
from orchestrator.pipelines.bundled import Kind, bundled
from orchestrator.settings.settings import Settings
from tests.acceptance.harness import SOURCES, DaemonHarness, Json, refused, state_of
from tests.fakes.repositories import commit

LOOKS = """
import json, os, pathlib, socket, subprocess, sys
data, home, root = map(pathlib.Path, sys.argv[1:4])
task = os.environ.get("ORCHESTRATOR_TASK", "")

def read(path):
    try:
        return pathlib.Path(path).read_text()
    except OSError as error:
        return type(error).__name__

def write(path):
    try:
        with open(path, "a") as file:
            file.write("x")
        return "written"
    except OSError as error:
        return type(error).__name__

def ask(path, method, target, token=""):
    with socket.socket(socket.AF_UNIX) as peer:
        try:
            peer.connect(str(path))
        except OSError as error:
            return type(error).__name__
        head = f"{method} {target} HTTP/1.1\\r\\nHost: d\\r\\nConnection: close\\r\\nContent-Length: 0\\r\\n"
        peer.sendall((head + f"Authorization: Bearer {token}\\r\\n\\r\\n").encode())
        return int(peer.makefile("rb").readline().split()[1])

agents = os.environ.get("ORCHESTRATOR_SOCKET", "")
token = os.environ.get("ORCHESTRATOR_TOKEN", "")
seen = {
    "tasks": sorted(path.name for path in (data / "tasks").glob("*")),
    "files": sorted(path.name for path in (data / "tasks").rglob("*") if path.is_file()),
    "data": sorted(path.name for path in data.glob("*")),
    "ssh": sorted(path.name for path in (home / ".ssh").glob("*")),
    "netrc": read(home / ".netrc"),
    "login": read(home / ".claude/.credentials.json"),
    "transcripts": sorted(path.name for path in (home / ".claude/projects").glob("*")),
    "settings": read(root / "orchestrator.toml"),
    "pids": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
    "run": sorted(path.name for path in (data / "tasks" / task / "agents").glob("*/*")) if task else [],
    "ticket": write(data / "tasks" / task / "ticket.json"),
    "home": write(home / "planted"),
    "machine": write("/usr/planted"),
    "people": ask(data / "orchestrator.sock", "POST", "/api/pause"),
    "pause": ask(agents, "POST", "/api/pause", token) if agents else None,
    "cancel": ask(agents, "POST", f"/api/tasks/{task}/cancel", token) if agents else None,
    "state": ask(agents, "GET", f"/api/tasks/{task}/state/current", token) if agents else None,
    "variables": sorted(os.environ),
    "tmp": write("/tmp/own"),
}
out = pathlib.Path(sys.argv[4])
out.write_text(json.dumps(seen))
"""


CALLS = """
import socket, sys

def call(port):
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return "refused"
    return "reached"

own = socket.create_server(("127.0.0.1", 0))
with open(sys.argv[2], "w") as file:
    file.write(f"{call(int(sys.argv[1]))}, own {call(own.getsockname()[1])}")
"""


@pytest.fixture(autouse=True)
def _sandboxes(request: pytest.FixtureRequest) -> None:
    """Skip what needs sandboxes where there can be none, and say so."""
    if "without_sandboxes" in request.node.name:
        return
    program, reason = usable_program(Settings(), os.environ)
    if program is None:
        pytest.skip(f"NOT TESTED IN A SANDBOX: {reason}")


def looks_around(tmp_path: Path, name: str) -> str:
    """Return a command that notes in a shared folder what it can see and do."""
    shared = tmp_path / "shared"
    shared.mkdir(exist_ok=True)
    (shared / "look.py").write_text(LOOKS)
    places = (tmp_path / "data", tmp_path / "home", tmp_path, shared / name)
    return " ".join(map(str, (sys.executable, shared / "look.py", *places)))


def harness_with_secrets(tmp_path: Path, scenario: Json, checks: Json) -> DaemonHarness:
    """Return a harness whose user has credentials; runs may write nothing of it but a shared folder."""
    secrets = tmp_path / "home/.ssh"
    secrets.mkdir(parents=True)
    (secrets / "id_ed25519").write_text("secret")
    (tmp_path / "home/.netrc").write_text("secret")
    for name in (".credentials.json", "projects/other.jsonl"):
        (tmp_path / "home/.claude" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "home/.claude" / name).write_text("of the user")
    harness = DaemonHarness(tmp_path, scenario, isolation="bubblewrap", checks={"commands": checks})
    (tmp_path / "agent").mkdir()
    harness.writable = [tmp_path / "shared", tmp_path / "agent"]
    return harness


def seen_by(tmp_path: Path, name: str) -> Json:
    """Return what a command noted."""
    return dict(json.loads((tmp_path / "shared" / name).read_text()))


def test_an_agent_sees_its_own_task_alone_and_commands_nobody(tmp_path: Path) -> None:
    look = looks_around(tmp_path, "agent")
    with harness_with_secrets(tmp_path, {"ANALYSIS": [{"run": look, "work": True}]}, {}) as harness:
        other = harness.submit()
        harness.request("POST", f"/api/tasks/{other}/cancel")
        harness.wait_for_end(other, TaskStatus.CANCELLED)
        task = harness.submit()
        harness.wait_for_end(task)
    seen = seen_by(tmp_path, "agent")
    assert seen["tasks"] == [task]
    assert {"vault.key", "alive", "doorbell", "orchestrator.sock"}.isdisjoint(seen["data"])
    assert (seen["ssh"], seen["netrc"], seen["settings"]) == ([], "", "")
    assert max(seen["pids"]) < 100
    assert seen["run"] == ["out"]
    assert (seen["ticket"], seen["machine"]) == ("OSError", "OSError")
    assert not (tmp_path / "home/planted").exists()
    assert {"journal.jsonl", "ticket.json"} <= set(seen["files"])
    assert {"control", "exit", "lock", "spec.json", "token"}.isdisjoint(seen["files"])
    assert seen["people"] == "FileNotFoundError"
    assert (seen["pause"], seen["cancel"], seen["state"]) == (403, 403, 200)
    assert seen["tmp"] == "written"
    assert not Path("/tmp/own").exists()


def test_a_check_sees_its_checkout_alone(tmp_path: Path) -> None:
    with harness_with_secrets(tmp_path, {}, {"lint": looks_around(tmp_path, "check")}) as harness:
        harness.wait_for_end(harness.submit())
    seen = seen_by(tmp_path, "check")
    assert seen["files"] == []
    assert (seen["login"], seen["transcripts"]) == ("", [])
    assert (seen["ssh"], seen["netrc"], seen["settings"]) == ([], "", "")
    assert seen["machine"] == "OSError"
    assert not (tmp_path / "home/planted").exists()
    assert seen["people"] == "FileNotFoundError"


class Listening:
    """A server on the machine's loopback device, and a command that notes whether it is reached."""

    def __init__(self, tmp_path: Path) -> None:
        self.server = socket.create_server(("127.0.0.1", 0))
        self.notes = tmp_path / "shared"
        self.notes.mkdir()
        (self.notes / "call.py").write_text(CALLS)

    def command(self, name: str) -> str:
        port = self.server.getsockname()[1]
        return f"{sys.executable} {self.notes / 'call.py'} {port} {self.notes / name}"

    def noted(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.notes.iterdir() if path.name != "call.py"}


def test_a_check_without_a_network_has_a_loopback_device_of_its_own(tmp_path: Path) -> None:
    listening = Listening(tmp_path)
    with listening.server, harness_with_secrets(tmp_path, {}, {"format": listening.command("format")}) as harness:
        declared = f"[checks.lint]\ncommand = {json.dumps(listening.command('lint'))}\nnetwork = false\n"
        commit(harness.repo, {".orchestrator.toml": declared})
        harness.wait_for_end(harness.submit())
    assert listening.noted() == {"lint": "refused, own reached", "format": "reached, own reached"}


def test_a_role_without_a_network_has_none(tmp_path: Path) -> None:
    listening = Listening(tmp_path)
    roles = tmp_path / "config/orchestrator/agents"
    roles.mkdir(parents=True)
    planner = (bundled(Kind.AGENTS) / "planner.md").read_text()
    (roles / "planner.md").write_text(planner.replace("tier: deep", "tier: deep\nnetwork: false"))
    scenario: Json = {
        "ANALYSIS": [{"run": listening.command("planner"), "work": True}],
        "IMPLEMENTATION": [{"run": listening.command("implementer"), "work": True}],
    }
    with listening.server, harness_with_secrets(tmp_path, scenario, {}) as harness:
        harness.wait_for_end(harness.submit())
    assert listening.noted() == {"planner": "refused, own reached", "implementer": "reached, own reached"}


def test_without_sandboxes_nothing_is_accepted_that_must_have_no_network(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, isolation="none") as harness:
        commit(harness.repo, {".orchestrator.toml": '[checks.lint]\ncommand = "true"\nnetwork = false\n'})
        with refused("refused", "the check lint must have no network", 'isolation = "none" is set'):
            harness.submit()


def test_a_sandbox_ends_with_its_holder_and_with_its_agent(tmp_path: Path) -> None:
    lives_on = "setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 0.1; done'"
    scenario: Json = {"ANALYSIS": [{"grandchild": lives_on, "wait_for": str(tmp_path / "go")}]}
    with DaemonHarness(tmp_path, scenario, isolation="bubblewrap") as harness:
        task = harness.submit()
        run = harness.wait_until(task, lambda now: now.run and now.agent.pid).run
        assert run is not None
        harness.wait_for("the grandchild", lambda: len(harness.survivors()) > 5)
        inside = harness.survivors()
        os.kill(int(json.loads((harness.folder(task) / run.folder / "pid").read_text())["holder"]), 9)
        harness.wait_for("the end of the sandbox", lambda: all(state_of(pid) in "-Z" for pid in inside))
        (tmp_path / "go").touch()
        harness.wait_for_end(task)
        assert harness.nothing_is_left()


def test_the_daemon_says_how_runs_are_isolated(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, isolation="auto") as harness:
        assert harness.client.status().isolation == "bubblewrap"
        assert "agents and checks run in sandboxes" in harness.cli("doctor").stdout
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700


def test_without_sandboxes_the_daemon_works_and_says_what_is_not_held(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, isolation="none") as harness:
        harness.wait_for_end(harness.submit())
        told = 'none (isolation = "none" is set): agents and checks can reach whatever the daemon\'s user can'
        assert harness.client.status().isolation == told
        assert told in " ".join(harness.cli("status").stdout.split())
        assert [line["isolation"] for line in harness.log if line["event"] == "runs_not_isolated"] == [told]


def test_the_installation_is_known_wherever_it_lies(tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", prefix], check=True)
    looked = subprocess.run(
        [prefix / "bin/python", "-c", "import orchestrator.daemon.isolation as i; print(*i.INSTALLED, sep='\\n')"],
        env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}, cwd=SOURCES, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    assert str(prefix) in looked.stdout.splitlines()
    assert str(SOURCES / "orchestrator") in looked.stdout.splitlines()

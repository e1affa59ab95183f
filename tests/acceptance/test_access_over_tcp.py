"""The port of a real daemon: what outlives a kill, who is on record, and agents that reach for it."""

import json
import shlex
import sys
from pathlib import Path

import httpx
import pytest

from orchestrator.core.task.task import TaskStatus
from tests.acceptance.harness import DaemonHarness
from tests.browser.site import free_port

REACHES = """
import json, os, socket, sys
def ask(line, *headers):
    with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 20) as peer:
        head = "\\r\\n".join([line + " HTTP/1.1", "Host: 127.0.0.1", "Connection: close", *headers])
        peer.sendall((head + "\\r\\n\\r\\n").encode())
        return int(peer.makefile("rb").readline().split()[1])
own = "Authorization: Bearer " + os.environ["ORCHESTRATOR_TOKEN"]
task = os.environ["ORCHESTRATOR_TASK"]
told = [ask("GET /healthz"), *(ask(line, *more) for line in (
    "GET /api/tasks", "POST /api/pause", "GET /api/tasks/" + task + "/state/current", "GET /"
) for more in ((), (own,)))]
print("REACHED", json.dumps(told))
"""
"""What an agent asks over TCP, without anything and with the token of its attempt; it prints the statuses."""


def test_tokens_and_sessions_outlive_a_kill_and_the_journal_names_them(tmp_path: Path) -> None:
    origin = f"http://127.0.0.1:{(port := free_port())}"
    scenario = {"*": {"wait_for": str(tmp_path / "never")}}
    with DaemonHarness(tmp_path, scenario, listen=f"127.0.0.1:{port}") as harness:
        token = harness.cli("token", "create", "phone", "--scope", "operate").stdout.strip()
        link = httpx.URL(harness.cli("open", "--print").stdout.strip())
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=origin) as browser, httpx.Client(base_url=origin, headers=headers) as phone:
            logged_in = browser.post("/login", data={"code": link.params["code"]}, headers={"Origin": origin})
            assert logged_in.status_code == 303
            repo = str(harness.repo)
            task = phone.post("/api/tasks", json={"text": "Paint it", "repo": repo}).json()["id"]
            harness.kill()
            harness.start()
            assert browser.get("/api/status").status_code == 200
            paused = browser.post(f"/tasks/{task}/pause", headers={"Origin": origin})
            assert paused.status_code == 303
            assert phone.post(f"/api/tasks/{task}/cancel").status_code == 200
            again = browser.post("/login", data={"code": link.params["code"]}, headers={"Origin": origin})
            assert again.status_code == 403
        harness.wait_for_end(task, TaskStatus.CANCELLED)
        journal = "\n".join(json.dumps(line) for line in harness.journal(task))
        assert '"token:phone"' in journal
        assert '"browser:' in journal


@pytest.mark.parametrize("isolation", ["auto", "none"])
def test_an_agent_that_reaches_for_the_port_gets_nothing(tmp_path: Path, isolation: str) -> None:
    port = free_port()
    root = tmp_path / "harness"
    root.mkdir()
    script, told = root / "reaches.py", root / "told"
    script.write_text(REACHES)
    command = f"{shlex.join([sys.executable, str(script), str(port)])} >> {told} 2>&1"
    scenario = {"*": [{"run": command, "work": True}]}
    with DaemonHarness(root, scenario, listen=f"127.0.0.1:{port}", isolation=isolation) as harness:
        task = harness.submit()
        harness.wait_for("the agent's report", lambda: told.exists() and told.read_text().endswith("\n"))
        harness.request("POST", f"/api/tasks/{task}/cancel")
        harness.wait_for_end(task, TaskStatus.CANCELLED)
        status, *refused = json.loads(told.read_text().splitlines()[0].removeprefix("REACHED "))
        assert (status, set(refused) <= {401, 403}) == (200, True)
        assert harness.client.status().paused_by is None

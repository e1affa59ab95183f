"""An agent's process that hides where it comes from commands the daemon no more than any other."""

import os
import shlex
import signal
import sys
from pathlib import Path

from tests.acceptance.harness import DaemonHarness

ASKING = """
import socket, sys, time
path, answers = sys.argv[1:]
while True:
    with socket.socket(socket.AF_UNIX) as daemon, open(answers, "a") as file:
        try:
            daemon.connect(path)
            daemon.sendall(b"POST /api/pause HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: 0\\r\\n"
                           b"Connection: close\\r\\n\\r\\n")
            file.write(daemon.recv(4096).split(b"\\r\\n")[0].decode() + "\\n")
        except OSError as error:
            file.write(f"{error}\\n")
    time.sleep(0.005)
"""


def test_one_that_cleared_its_environment_and_lost_its_holder_is_known(tmp_path: Path) -> None:
    answers, script = tmp_path / "answers", tmp_path / "asking.py"
    script.write_text(ASKING)
    with DaemonHarness(tmp_path / "harness", isolation="none") as harness:
        asking = shlex.join([sys.executable, str(script), str(harness.client.socket), str(answers)])
        harness.scenario = {
            "ANALYSIS": [{"grandchild": f"env -i setsid {asking}", "wait_for": str(tmp_path / "never")}]
        }
        harness.stop()
        harness.start()
        task = harness.submit()
        harness.wait_for("an answer to the disguised", lambda: answers.exists() and answers.read_text())
        agent = harness.client.task(task).agent.pid
        assert agent is not None
        os.kill(int(Path(f"/proc/{agent}/stat").read_text().rsplit(")", 1)[1].split()[1]), signal.SIGKILL)
        harness.wait_until(task, lambda now: now.agent.attempt == 2)
        told = set(answers.read_text().splitlines())
        assert told
        assert all(line.startswith("HTTP/1.1 403") for line in told if line.startswith("HTTP")), told

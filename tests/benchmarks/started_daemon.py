"""A daemon as a process of its own for measurements: the seconds to its first answer, and a client of it.

Its folder `root` has `orchestrator.toml`, and gets `data` with the socket `data/s`, and `daemon.log`.
"""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil

from orchestrator.settings.environment import environment

PATIENCE = 600.0  # seconds


@contextmanager
def started_daemon(root: Path) -> Iterator[tuple[float, psutil.Process]]:
    """Start a daemon; yield how long it took to its first answer, and its process. Its agents end with it."""
    options = ["--config", str(root / "orchestrator.toml"), "--data-dir", str(root / "data")]
    argv = [sys.executable, "-m", "orchestrator", *options, "--socket", str(root / "data/s"), "serve"]
    began = time.perf_counter()
    with (root / "daemon.log").open("ab") as log, subprocess.Popen(argv, env=environment(), stderr=log) as daemon:
        process = psutil.Process(daemon.pid)
        try:
            while not _answers(root / "data/s"):
                if time.perf_counter() - began > PATIENCE or daemon.poll() is not None:
                    raise TimeoutError((root / "daemon.log").read_text()[-2000:])
                time.sleep(0.005)
            yield time.perf_counter() - began, process
        finally:
            for child in process.children(recursive=True):
                child.send_signal(signal.SIGKILL)
            daemon.kill()


def client_of(path: Path) -> httpx.Client:
    """Return a client of the daemon behind a socket."""
    return httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://daemon", timeout=PATIENCE)


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        if probe.connect_ex(str(path)):
            return False
    with client_of(path) as client:
        return client.get("/api/status").is_success

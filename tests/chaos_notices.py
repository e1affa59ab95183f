"""Kill the daemon and the receivers of its notices with SIGKILL at random moments, and count what arrived.

    python -m tests.chaos_notices --kills 100 --tasks 60 --seed 7

A daemon walks tasks to their ends and tells each end by mail, by webhook and by a command. Meanwhile it is killed again
and again, and so is the process that receives mails and webhooks. In the end every notice that a journal says was told
must have arrived on every channel. How often one came twice is counted by its key: a receiver that is killed before it
answers, or a daemon before it wrote the answer down, leaves no other way. The key is the same then.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.core.events.notice import MachineNoticeKind
from tests.acceptance.harness import ENDED, SOURCES, DaemonHarness
from tests.fakes.notice_receivers import free_port
from tests.fakes.receiver_process import taken

CHANNELS = ("mail", "hook", "notify_command")
LONGEST_LIFE, LONGEST_ABSENCE = 1.5, 0.8
"""Seconds: a daemon is killed after so long at most, and receivers are away for so long at most."""
RECEIVERS_DIE = 0.4
"""The probability that the receivers are killed with a daemon."""
OF_CHANNELS = (MachineNoticeKind.CHANNEL_FAILED.value, MachineNoticeKind.CHANNEL_RECOVERED.value)


@dataclass(slots=True, kw_only=True)
class Toll:
    """What became of the notices: `missing` and `strange` must be empty, by channel."""

    kills: int = 0
    receiver_kills: int = 0
    told: int = 0
    missing: dict[str, list[str]] = field(default_factory=dict)
    strange: dict[str, list[str]] = field(default_factory=dict)
    twice: dict[str, int] = field(default_factory=dict)
    of_channels: int = 0
    seconds: float = 0.0

    @property
    def damage(self) -> int:
        """Return how many notices were lost, or came although nobody told them."""
        return sum(len(keys) for keys in (*self.missing.values(), *self.strange.values()))


class Receivers:
    """The process that receives mails and webhooks, always on the same ports."""

    def __init__(self, root: Path) -> None:
        self.mail, self.hook, self.file = free_port(), free_port(), root / "received"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Receive from now on."""
        program = [sys.executable, "-m", "tests.fakes.receiver_process", str(self.mail), str(self.hook), str(self.file)]
        self._process = subprocess.Popen(program, cwd=SOURCES)

    def kill(self) -> None:
        """End it with SIGKILL, whatever it is receiving."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def night(root: Path, dice: random.Random, *, kills: int, tasks: int) -> Toll:
    """Run tasks to their ends under a storm of kills, then wait for what must arrive."""
    root.mkdir(parents=True)
    receivers, began = Receivers(root), time.monotonic()
    settings = _settings(root, receivers)
    with DaemonHarness(root / "daemon", {"*": {"think_ms": 20}}, (), max_agents=4, **settings) as harness:
        receivers.start()
        try:
            ids = [harness.submit(f"Part {number}\n\nText.\n", pipeline="review_only") for number in range(tasks)]
            toll = _storm(harness, receivers, dice, kills)
            for task in ids:
                harness.wait_until(task, lambda now: now.status in ENDED, patience=600)
            _count(harness, root, receivers, ids, toll)
        finally:
            receivers.kill()
    toll.seconds = time.monotonic() - began
    return toll


def _settings(root: Path, receivers: Receivers) -> dict[str, object]:
    (root / "daemon" / "config" / "orchestrator" / "credentials").mkdir(parents=True, mode=0o700)
    secret = root / "daemon" / "config" / "orchestrator" / "credentials" / "HOOK_SECRET"
    secret.write_text("a secret of the receivers")
    secret.chmod(0o600)
    mail = {"type": "mail", "host": "127.0.0.1", "port": receivers.mail, "security": "none"}
    hook = {"type": "webhook", "url": f"http://127.0.0.1:{receivers.hook}/", "secret_env": "HOOK_SECRET"}
    people = {"sender": "daemon@example.org", "to": ["ada@example.org"]}
    command = f"import json, sys; open({str(root / 'command')!r}, 'a').write(sys.stdin.read())"
    return {
        "notify": {"channels": {"mail": mail | people, "hook": hook}},
        "people": {"notify_command": [sys.executable, "-S", "-c", command]},
    }


def _storm(harness: DaemonHarness, receivers: Receivers, dice: random.Random, kills: int) -> Toll:
    toll = Toll()
    while toll.kills < kills:
        time.sleep(dice.random() * LONGEST_LIFE)
        if dice.random() < RECEIVERS_DIE:
            receivers.kill()
            toll.receiver_kills += 1
            time.sleep(dice.random() * LONGEST_ABSENCE)
        harness.kill()
        toll.kills += 1
        receivers.kill()
        receivers.start()
        harness.launch()
    harness.wait_for("an answer of the daemon", harness.answers)
    return toll


def _count(harness: DaemonHarness, root: Path, receivers: Receivers, ids: list[str], toll: Toll) -> None:
    def of(task: str) -> list[str]:
        return [f"{task}:{line['event']['key']}" for line in harness.journal(task, "PersonTold")]

    harness.wait_for("the notice of every end", lambda: all(map(of, ids)), patience=600)
    told = {key for task in ids for key in of(task)}
    failed = [line for task in ids for line in harness.journal(task, "PersonTold") if line["event"]["failure"]]
    assert not failed, "storing a notice never fails here"
    toll.told = len(told)

    def arrived() -> dict[str, Counter[str]]:
        lines = (root / "command").read_text(encoding="utf-8").splitlines() if (root / "command").exists() else []
        return {**taken(receivers.file), "notify_command": Counter(_key_of(line) for line in lines)}

    harness.wait_for(
        "every notice on every channel", lambda: all(told <= {*arrived()[name]} for name in CHANNELS), patience=600
    )
    for name, keys in arrived().items():
        toll.missing[name] = sorted(told - {*keys})
        own = {key: count for key, count in keys.items() if not key.startswith(OF_CHANNELS)}
        toll.of_channels += len(keys) - len(own)
        toll.strange[name] = sorted({*own} - told)
        toll.twice[name] = sum(count - 1 for count in own.values())


def _key_of(line: str) -> str:

    document = json.loads(line)
    return f"{document['task_id']}:{document['key']}" if document["task_id"] else str(document["key"])


def main() -> int:
    """Run one night and print what became of its notices."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--tasks", type=int, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        toll = night(Path(folder) / "night", random.Random(given.seed), kills=given.kills, tasks=given.tasks)
    lines = (
        f"seed {given.seed}, {toll.seconds:.0f} s",
        f"{toll.kills} kills of the daemon, {toll.receiver_kills} more of the receivers",
        f"{toll.told} notices on {len(CHANNELS)} channels: missing {toll.missing}, told by nobody {toll.strange}",
        f"sent again with the same key: {toll.twice}; {toll.of_channels} about channels themselves",
    )
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if toll.damage else 0


if __name__ == "__main__":
    sys.exit(main())

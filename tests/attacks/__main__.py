"""Let a hostile agent and a hostile check try every way out, and print what each attempt got.

    python -m tests.attacks [--only sandbox|none]

A real daemon runs them, once with sandboxes and once without. Each line of the table is one attempt: `held`, or what
was got. The exit code is 0 only if sandboxes can be made here and nothing got through them.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import suppress

import psutil
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from orchestrator.core.task.task import TaskStatus
from orchestrator.daemon.isolation import usable_program
from orchestrator.server.client import RequestRefused
from orchestrator.settings.settings import Settings
from tests.acceptance.harness import line_count
from tests.attacks.hostile import ATTEMPTS
from tests.attacks.stage import (
    CONTROLS,
    HOSTILE,
    HUGE,
    MOST_MEMORY,
    SECRET,
    Stage,
    alive,
    halt_of,
    is_growing,
    stage,
)

Results = dict[str, str]
RESULTS = ("forge its own result", "forge its own result with the key of the data folder")
FILES = ("skip the evaluation", "rewrite its own state", "rewrite its own journal")
MOVED, WITHOUT_HOLDER = "outlive its end without its folder", "command the daemon after killing its holder"
ALONE = (*RESULTS, *FILES, MOVED, WITHOUT_HOLDER)
"""Attempts that disturb others: each has a stage of its own."""
OVER_THE_NETWORK = (
    "reach a service of the machine over an abstract socket",
    "reach a service of the machine over loopback",
)
"""Attempts of a check that is to have no network: with a network they are no attack."""
AS_CHECK = (
    "read another task's ticket and journal",
    "read the user's ssh key",
    "read the environment of other processes",
    "change another task's journal",
    "command the daemon as a person",
)
TOGETHER = tuple(name for name in ATTEMPTS if name not in (*ALONE, *OVER_THE_NETWORK))
FIRST = "mkdir SHARED/first 2>/dev/null && until [ -e SHARED/go ]; do sleep 0.1; done || "
"""Makes the first agent of a stage wait: it is the victim."""


def hostile(report: str, names: tuple[str, ...]) -> str:
    """Return the command that tries all of that."""
    quoted = " ".join(f"'{name}'" if "'" not in name else f'"{name}"' for name in names)
    return f"{sys.executable} -B {HOSTILE} SHARED/targets.json SHARED/{report} {quoted}"


def all_at_once(isolation: str) -> Results:
    """Try everything that can be tried side by side, as an agent and as a check."""
    turn = {
        "run": FIRST + hostile("agent", TOGETHER), "say": CONTROLS + "password=" + "password" * 8_000 + "!",
        "huge_line": HUGE, "work": True,
    }  # fmt: skip
    check = hostile("check", (*AS_CHECK, *OVER_THE_NETWORK))
    with stage(isolation, {"ANALYSIS": [turn]}, {}, check) as on:
        on.wait_for_the_victim()
        task = on.harness.submit()
        halt_of(on, task)
        on.require_the_victim()
        on.reported("agent")
        results = {**on.results, **dict(_left_by(on, task))}
        on.results.clear()
        on.reported("check")
        return results | {f"as a check: {name}": got for name, got in on.results.items()}


def _left_by(on: Stage, task: str) -> Iterator[tuple[str, str]]:
    """Yield what the stage sees of attempts whose effect comes later, in the daemon."""
    folder, harness = on.harness.folder(task), on.harness
    ticks = on.shared / "left-behind"
    yield "leave a process behind", "it lives on after the task's end" if is_growing(ticks) else ""
    ran = (on.shared / "ran-outside").exists()
    yield "run code in the daemon's git", "its hook or filter was run" if ran else ""
    imported = [path for path in folder.glob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    yield "have secrets imported through links in its outbox", ", ".join(path.name for path in imported)
    huge = [path.name for path in folder.glob("*") if path.stat().st_size > HUGE]
    yield "block the daemon with pipes, huge and odd files in its outbox", ", ".join(huge)
    shown = [harness.cli(*command).stdout for command in (("logs", task), ("show", task), ("events", "--no-follow"))]
    yield (
        "send control sequences to the user's terminal",
        "they are shown" if any("\x1b]" in text or "\x07" in text for text in shown) else "",
    )
    memory = psutil.Process(on.daemon()).memory_info().rss
    yield "drown the daemon in output", f"it takes {memory >> 20} MiB" if memory > MOST_MEMORY else ""


def forged_result(isolation: str, name: str) -> Results:
    """Let a failing check write its own result."""
    with stage(isolation, {}, {"probe": f"{hostile('check', (name,))}; exit 3"}) as on:
        on.tell_nothing()
        task = on.harness.submit()
        halt_of(on, task)
        ends = [line["event"] for line in on.harness.journal(task, "CheckFinished")]
        passed = any((end["result"] or {}).get("verdict") == "PASS" for end in ends if end["name"] == "probe")
        return {name: "a failing check passed" if passed else ""}


def life_without_a_folder(isolation: str) -> Results:
    """Let an agent move its run's folder, restart the daemon, and cancel the task."""
    turn = {"run": hostile("agent", (MOVED,)), "wait_for": "SHARED/never"}
    with stage(isolation, {"ANALYSIS": [turn]}, {}) as on:
        on.tell_nothing()
        task = on.harness.submit()
        on.harness.wait_for("the attempt", lambda: line_count(on.shared / "agent"))
        tree = on.harness.survivors()
        on.harness.kill()
        on.harness.start()
        with suppress(RequestRefused):
            on.harness.client.request(task, "cancel")
        halt_of(on, task)
        left = alive(tree)
        return {MOVED: f"{len(left)} processes live on after cancel" if left else ""}


def forged_files(isolation: str, name: str) -> Results:
    """Let an agent end the daemon and change a file of its task before it is started again; its check fails."""
    turn = {"run": hostile("agent", (name,)), "work": True}
    with stage(isolation, {"ANALYSIS": [turn]}, {"probe": "exit 1"}) as on:
        on.tell_nothing()
        task = on.harness.submit()
        daemon = on.harness.daemon
        on.harness.wait_for("the attempt", lambda: line_count(on.shared / "agent"))
        if on.was_done("agent", name):
            on.harness.wait_for("the daemon's end", lambda: daemon is None or daemon.poll() is not None)
            on.harness.start()
        done = halt_of(on, task) is TaskStatus.COMPLETED
        return {name: "the task completed although its check fails" if done else ""}


def no_holder(isolation: str) -> Results:
    """Let an agent kill its holder, and an orphan of it command the daemon."""
    turn = {"run": hostile("agent", (WITHOUT_HOLDER,)), "work": True}
    with stage(isolation, {"ANALYSIS": [turn]}, {}) as on:
        on.tell_nothing()
        task = on.harness.submit()
        on.harness.wait_until(task, lambda now: line_count(on.shared / "agent") or now.agent.attempt > 1)
        answer = on.shared / "without-holder"
        with suppress(RequestRefused):
            on.harness.client.request(task, "cancel")
        halt_of(on, task)
        return {WITHOUT_HOLDER: answer.read_text() if answer.exists() else ""}


def tried(isolation: str) -> Results:
    """Return what each attempt got in this mode."""
    results = all_at_once(isolation)
    for name in RESULTS:
        results |= forged_result(isolation, name)
    for name in FILES:
        results |= forged_files(isolation, name)
    return results | life_without_a_folder(isolation) | no_holder(isolation)


def main(arguments: list[str]) -> int:
    """Try everything, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.attacks")
    parser.add_argument("--only", choices=("sandbox", "none"))
    only = parser.parse_args(arguments).only
    program, reason = usable_program(Settings(), os.environ)
    got: dict[str, Results] = {}
    if program is not None and only != "none":
        got["sandbox"] = tried("bubblewrap")
    if only != "sandbox":
        got["none"] = tried("none")
    table = Table("", "attempt", "in a sandbox", "without one")
    names = list(dict.fromkeys(name for results in got.values() for name in results))
    for number, name in enumerate(names, 1):
        cells = [got[mode].get(name, "") or "held" if mode in got else "not tried" for mode in ("sandbox", "none")]
        table.add_row(str(number), *(escape(cell) for cell in (name, *cells)))
    through = {mode: sum(map(bool, results.values())) for mode, results in got.items()}
    where = {"sandbox": "in sandboxes", "none": "without"}
    summary = ", ".join(f"{where[mode]} {count} of {len(names)} got through" for mode, count in through.items())
    table.caption = summary if program else f"{summary}; no sandbox can be made here: {reason}"
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    return 0 if through.get("sandbox") == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

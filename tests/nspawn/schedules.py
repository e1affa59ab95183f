"""Schedules by the real clock: over a restart, a kill and a stop of minutes, refused, queued and paused."""

import time
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from tests.nspawn.machine import out, run, until
from tests.nspawn.scenarios import UNIT, say
from tests.nspawn.service import REPO, ask, now, present, set_up, until_it_answers

SLOW = ("--check", "slow=sleep 100")
EACH_MINUTE = "* * * * *"
AWAY = timedelta(minutes=5, seconds=20)
"""Longer than a time may be late."""
ZONE = "Asia/Seoul"


def schedules() -> None:
    """A task each minute, over `systemctl restart` and a kill of the whole service; none twice, and none is lost."""
    set_up(first="max_agents = 4\n")
    add("steady", EACH_MINUTE, "--overlap", "queue")
    add("refusing", EACH_MINUTE, *SLOW)
    add("queueing", EACH_MINUTE, *SLOW, "--overlap", "queue")
    begun = now()
    until("the first time", lambda: submitted("steady"), 100)
    out("systemctl", "restart", UNIT)
    until("the second time", lambda: len(submitted("steady")) >= 2, 100)
    out("systemctl", "kill", "-s", "KILL", UNIT)
    until_it_answers()
    until("the third time", lambda: len(submitted("steady")) >= 3, 100)
    seconds = (now() - begun).total_seconds()
    times = checked("steady")
    say("each minute, over restart and kill", f"{len(times)} of {len(times)} in {seconds:.0f} s, none twice")
    results = Counter(run["result"] for run in runs("refusing"))
    reason = next(run["reason"] for run in runs("refusing") if run["result"] == "refused")
    assert results["submitted"] >= 1, results
    say("overlap refused", f"{dict(results)}: {reason}")
    waiting = [run["task"] for run in runs("queueing")]
    say("overlap queued", " ".join(out("orchestrator", "why", waiting[0]).split()))


def commands() -> None:
    """Pause, resume, run now and remove do what they say."""
    set_up()
    add("steady", EACH_MINUTE, *SLOW)
    out("orchestrator", "schedule", "pause", "steady")
    time.sleep(65)
    assert runs("steady") == [], runs("steady")
    assert ask("schedule", "show", "steady")["nextAt"] is None
    made = ask("schedule", "run", "steady", account=True)["runs"][0]
    busy = run("orchestrator", "schedule", "run", "steady")
    assert busy.returncode == 5, busy
    out("orchestrator", "schedule", "resume", "steady")
    assert len(runs("steady")) == 1, "what was due while it was paused is not made up for"
    until("the next time", lambda: len(runs("steady")) > 1, 100)
    assert runs("steady")[0]["result"] == "refused", "the one before it runs on"
    out("orchestrator", "schedule", "remove", "steady")
    assert run("orchestrator", "schedule", "show", "steady").returncode == 4
    assert ask("show", made["task"])["id"] == made["task"]
    say("paused a minute, run now, resumed, removed", f"0, 1, 2 runs; run while busy: {busy.stderr.strip()}")


def missed() -> None:
    """What was due in a stop of minutes is told, and made up for once by choice."""
    set_up()
    due = now() + timedelta(minutes=2)
    hourly = f"{due.minute} * * * *"
    add("told", hourly)
    add("once", hourly, "--missed", "once")
    add("steady", EACH_MINUTE, "--overlap", "queue")
    until("the first time", lambda: submitted("steady"), 100)
    out("systemctl", "stop", UNIT)
    back = due.replace(second=0, microsecond=0) + AWAY
    time.sleep((back - now()).total_seconds())
    since = present()
    out("systemctl", "start", UNIT)
    until_it_answers()
    until("the run that makes up", lambda: submitted("once"))
    told, once = runs("told"), runs("once")
    assert [run["result"] for run in told] == ["missed"], told
    assert [run["result"] for run in once] == ["submitted"], once
    assert "made up" in once[0]["reason"], once
    steady = until("the minutes", lambda: [run for run in runs("steady") if run["result"] == "missed"])
    checked("steady")
    notes = out("orchestrator", "report", "--since", "1h")
    assert "schedule told: 1 run was missed" in notes, notes
    out("systemctl", "restart", UNIT)
    until_it_answers()
    assert len(runs("once")) == 1, runs("once")
    say("due while stopped", f"told: {told[0]['reason']}; once: {once[0]['reason']}; since {since}")
    say("each minute, while stopped", f"{sum(run['count'] for run in steady)} missed, the newest submitted")


def zones() -> None:
    """The machine gets another time zone: a schedule keeps its own, and a window without one follows."""
    set_up('[windows.night]\nopens = "22:00"\ncloses = "06:30"\n')
    add("steady", "0 22 * * *", "--zone", "UTC")
    before = ask("schedule", "show", "steady")["nextAt"]
    try:
        out("timedatectl", "set-timezone", ZONE)
        as_it_was = ask("limits")["runWindows"][0]["zone"]
        out("systemctl", "restart", UNIT)
        until_it_answers()
        window = ask("limits")["runWindows"][0]
        assert window["zone"] == ZONE, window
        assert ask("schedule", "show", "steady")["nextAt"] == before
        add("theirs", "0 22 * * *")
        assert ask("schedule", "show", "theirs")["zone"] == ZONE
    finally:
        out("timedatectl", "set-timezone", "Etc/UTC")
        out("systemctl", "restart", UNIT)
        until_it_answers()
    say("another time zone", f"before the restart {as_it_was}, after it {window['zone']}; the schedule keeps UTC")


def add(name: str, line: str, *options: str) -> None:
    """Add a schedule as the service's account."""
    words = ("schedule", "add", line, f"Add slugify {name}", "--name", name, "--repo", REPO)
    ask(*words, *options, account=True)


def runs(name: str) -> list[Mapping[str, Any]]:
    """Return what became of a schedule's last times, newest first."""
    return list(ask("schedule", "show", name)["runs"])


def submitted(name: str) -> list[str]:
    """Return the times of a schedule for which there is a task."""
    return [str(run["due"]) for run in runs(name) if run["result"] == "submitted"]


def checked(name: str) -> list[str]:
    """Return the times of a schedule with a task; fail if one has two, or a minute between them is not on record."""
    times = submitted(name)
    tasks = [run["task"] for run in runs(name) if run["task"]]
    made = [one["id"] for one in ask("tasks", "--all")["tasks"] if one["title"] == f"Add slugify {name}"]
    assert len(times) == len(set(times)), times
    assert sorted(tasks) == sorted(made), (tasks, made)
    counted = sum(run["count"] for run in runs(name))
    minutes = {run["due"][:16] for run in runs(name)}
    span = (_minute(max(minutes)) - _minute(min(minutes))) + 1
    assert counted >= span, (counted, span)
    return times


def _minute(stamp: str) -> int:
    hours, minutes = stamp[11:16].split(":")
    return int(hours) * 60 + int(minutes)

"""Power cuts: the machine's first process is killed while a schedule, notices and a backup are under way."""

import time
from collections import Counter
from datetime import timedelta
from random import SystemRandom

from tests.nspawn.backups import COPIES, DAILY, make_folder
from tests.nspawn.machine import PROGRAM, ROOT, as_account, boot, cut_power, out, until
from tests.nspawn.notices import CHANNELS, everything, set_up_with_receivers, start_receiver, until_settled
from tests.nspawn.scenarios import SETTINGS, say
from tests.nspawn.schedules import EACH_MINUTE, add, checked, runs
from tests.nspawn.service import DATA, ask, clock, end_of, now, submit, until_it_answers

CUTS = 4
BALLAST = 500
"""Megabytes that make a backup take some seconds."""


def power_cuts() -> None:
    """Nothing is lost and nothing is done twice over power cuts, of which the first hits a backup."""
    make_folder()
    set_up_with_receivers(settings=CHANNELS, stopped=("desk",))
    out(*as_account("sh", "-c", f"head -c {BALLAST}M /dev/urandom > {DATA}/ballast"))
    end_of(submit("Add slugify"))
    add("steady", EACH_MINUTE, "--overlap", "queue", "--check", "slow=sleep 40")
    until("a task of the schedule", lambda: runs("steady"), 100)
    with (ROOT / str(SETTINGS)[1:]).open("a") as file:  # the daemon takes that over by itself
        file.write(DAILY.format(folder=COPIES, at=clock(now() - timedelta(minutes=1))))
    waiting = sum(one["waiting"] for one in ask("notify", "list")["channels"])
    assert waiting, "a notice waits for the receiver that is away"
    (partial,) = until("a backup under way", lambda: list((ROOT / COPIES[1:]).glob(".*.partial")), 180)
    cut_power()
    assert partial.exists(), "the backup was made before the cut"
    say("cut with a backup under way", f"{partial.name}; {waiting} notices waiting; up after {boot_again():.1f} s")
    seconds = []
    for _ in range(CUTS - 1):
        into = 60 - now().second - now().microsecond / 1e6
        time.sleep(into + SystemRandom().uniform(0.0, 0.5))
        cut_power()
        seconds.append(round(boot_again(), 1))
    say("cut while a task is submitted", f"{len(seconds)} times; up after {seconds} s")
    out(PROGRAM, "schedule", "pause", "steady")
    tasks = [one["id"] for one in ask("tasks", "--all")["tasks"]]
    ends = Counter(end_of(task, 300) for task in tasks)
    times = checked("steady")
    start_receiver("mail")
    start_receiver("desk")
    until_settled(900)
    told = everything()
    completed = {key for key in told if key.endswith(":completed")}
    say("tasks", f"{dict(ends)}; {len(times)} times of the schedule, none twice, none without a record")
    say("notices", f"{len(told)} keys, {sum(told.values())} taken; {dict(Counter(told.values()))} times each")
    assert ends == {"completed": len(tasks)}, ends
    assert completed == {f"{task}:completed" for task in tasks}, (completed, tasks)
    made = until("the backup", only_backup, 180)
    out(*as_account(PROGRAM, "backup", "verify", f"{COPIES}/{made}"))
    say("the backup", f"{made}, whole; nothing else is left")


def only_backup() -> str:
    """Return the one file in the folder of backups; nothing while it is half made, or others are there."""
    files = [path.name for path in (ROOT / COPIES[1:]).iterdir()]
    return files[0] if len(files) == 1 and not files[0].startswith(".") else ""


def boot_again() -> float:
    """Boot, and return the seconds until the daemon answers."""
    begun = now()
    boot()
    until_it_answers()
    return (now() - begun).total_seconds()

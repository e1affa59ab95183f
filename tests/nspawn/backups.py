"""Backups under the hardened unit: by the clock and by hand, restored elsewhere, and a folder of a later version."""

import json
from datetime import timedelta

from tests.nspawn.machine import PROGRAM, ROOT, as_account, out, run, until
from tests.nspawn.scenarios import UNIT, is_active, say
from tests.nspawn.service import (
    DATA,
    DROP_IN,
    HOME,
    clock,
    end_of,
    kill,
    logged,
    now,
    present,
    set_up,
    submit,
    until_it_answers,
)

COPIES = "/var/backups/orchestrator"
DAILY = """
[backup]
folder = "{folder}"
at = "{at}"
keep = 2
"""
BY_HAND = f"{COPIES}/by-hand.tar.zst"
RESTORED = f"{HOME}/restored"
SLOW = ("--check", "slow=sleep 20")


def daily_backup() -> None:
    """The daily backup is made under the hardened unit, and not again over a kill; why it is refused is told."""
    make_folder()
    since, begun = present(), now()
    set_up(DAILY.format(folder=COPIES, at=clock(begun - timedelta(minutes=1))))
    made = until("the daily backup", lambda: logged("backup_made", since))[0]
    seconds = (now() - begun).total_seconds()
    kill()
    out("systemctl", "restart", UNIT)
    until_it_answers()
    files = sorted(path.name for path in (ROOT / COPIES[1:]).iterdir())
    assert len(files) == 1, files
    assert not logged("backup_failed", since)
    out(*as_account(PROGRAM, "backup", "verify", made["file"]))
    say("the daily backup", f"{files}, {made['bytes']} bytes, {seconds:.0f} s after the start; none again")


def backup_and_restore() -> None:
    """A backup by hand beside an agent at work is verified, restored to another path, and a daemon goes on from it."""
    make_folder()
    set_up()
    tasks = [submit(f"Add slugify {number}", *SLOW) for number in range(3)]
    end_of(tasks[0])
    begun = now()
    words = ("--data-dir", DATA, "backup", BY_HAND)
    out(*as_account(PROGRAM, *words))
    seconds = (now() - begun).total_seconds()
    again = run(*as_account(PROGRAM, *words))
    assert again.returncode == 5, again
    said = out(*as_account(PROGRAM, "backup", "verify", BY_HAND))
    say("by hand, beside an agent at work", f"{seconds:.1f} s; {' '.join(said.split())}")
    out("systemctl", "stop", UNIT)
    out("systemctl", "kill", "--signal=KILL", UNIT)
    out(*as_account(PROGRAM, "restore", BY_HAND, "--data-dir", RESTORED))
    refused = run(*as_account(PROGRAM, "restore", BY_HAND, "--data-dir", RESTORED))
    assert refused.returncode == 5, refused
    serve_restored()
    theirs = as_account(PROGRAM, "--data-dir", RESTORED, "--socket", f"{RESTORED}/orchestrator.sock")

    def ends() -> list[str]:
        found = json.loads(out(*theirs, "tasks", "--all", "--json"))["tasks"]
        statuses = {one["id"]: str(one["status"]) for one in found}
        assert sorted(statuses) == sorted(tasks), statuses
        return list(statuses.values()) if set(statuses.values()) == {"completed"} else []

    say(
        "a daemon went on from it",
        f"{until('the end of all tasks', ends, 180)}; refused twice: {refused.stderr.strip()}",
    )
    out("systemctl", "stop", "restored.service")
    out("systemctl", "start", UNIT)
    until_it_answers()


def later_format() -> None:
    """A folder of a later version is refused once, in words that `systemctl status` shows, and taken again after."""
    set_up()
    out("systemctl", "stop", UNIT)
    stamp = ROOT / f"{DATA[1:]}/format"
    good = stamp.read_text()
    stamp.write_text(json.dumps({**json.loads(good), "format": 99, "program": "9.9.0"}))
    since = present()
    begun = run("systemctl", "start", UNIT)
    state = until("the end of trying", lambda: shown("ActiveState") == "failed" and shown("SubState"))
    status = run("systemctl", "status", "--no-pager", UNIT).stdout
    told = out("journalctl", "-u", UNIT, "-o", "cat", "--no-pager", f"--since={since}").count("which reads up to")
    restarts = shown("NRestarts")
    stamp.write_text(good)
    out("systemctl", "start", UNIT)
    until_it_answers()
    assert is_active()
    say("a later format", f"start: {begun.returncode}; {state}, {restarts} restarts; told {told} time in words")
    assert (begun.returncode, restarts, told) == (1, "0", 1), (begun, restarts, told)
    assert "which reads up to" in status, status
    restoring = ROOT / f"{DATA[1:]}/.restoring"
    out("systemctl", "stop", UNIT)
    restoring.mkdir()
    run("systemctl", "start", UNIT)
    until("another try", lambda: int(shown("NRestarts")) > 1)
    restoring.rmdir()
    until("the start after the end of the restore", is_active)
    say("a restore that ends", f"tried again {shown('NRestarts')} times, then started")


def make_folder() -> None:
    """Make an empty folder for backups that belongs to the account."""
    out("rm", "-rf", COPIES)
    out("install", "-d", "-o", "orchestrator", "-g", "orchestrator", "-m", "700", COPIES)
    DROP_IN.unlink(missing_ok=True)


def serve_restored() -> None:
    """Start a daemon on the restored folder, as a service of the account's."""
    run("systemctl", "reset-failed", "restored.service")
    run("systemctl", "stop", "restored.service")
    out(
        "systemd-run", "-q", "--unit=restored.service", "--uid=orchestrator", "--property=Delegate=yes",
        f"--setenv=HOME={HOME}", f"--working-directory={HOME}",
        PROGRAM, "--data-dir", RESTORED, "--socket", f"{RESTORED}/orchestrator.sock", "serve",
    )  # fmt: skip
    until("its answer", _answers)


def _answers() -> bool:
    words = (PROGRAM, "--data-dir", RESTORED, "--socket", f"{RESTORED}/orchestrator.sock", "status")
    return run(*as_account(*words)).returncode == 0


def shown(name: str) -> str:
    """Return a property that systemd shows of the service."""
    return out("systemctl", "show", "--value", f"--property={name}", UNIT).strip()

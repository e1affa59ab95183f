"""The command line as people type it: as root, the service's account, a member of `socket_group`, and a stranger."""

import json
import subprocess
from collections.abc import Mapping, Sequence

from tests.nspawn.machine import PROGRAM, as_account, out, run
from tests.nspawn.scenarios import say
from tests.nspawn.service import DATA, REPO, ask, end_of, set_up, submit

MAKE_PEOPLE = """\
groupadd -f crew
usermod -aG crew orchestrator
for name in bob eve; do id $name >/dev/null 2>&1 || useradd --create-home $name; done
usermod -aG crew bob
"""
COMPLETE = """\
eval "$({program} completion bash)"
complete=$(complete -p orchestrator | sed 's/.*-F \\([^ ]*\\).*/\\1/')
reply() {{
  COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
  $complete orchestrator "${{COMP_WORDS[COMP_CWORD]}}"
  echo "${{COMPREPLY[*]}}"
}}
reply orchestrator sched
reply orchestrator schedule ""
reply orchestrator show {begin}
reply orchestrator submit --re
"""


def person(name: str) -> tuple[str, ...]:
    """Return the beginning of a command that somebody runs at home, logged in anew."""
    return ("runuser", "-u", name, "--", "env", "-C", f"/home/{name}", f"HOME=/home/{name}", f"USER={name}")


def people() -> None:
    """Everybody who may do something gets an answer, and everybody who may not is told who may."""
    out("sh", "-ec", MAKE_PEOPLE)
    set_up(first='socket_group = "crew"\nmax_agents = 3\n')
    tasks = [submit(f"Add slugify {number}") for number in range(3)]
    for task in tasks:
        end_of(task)
    everybody: Mapping[str, Sequence[str]] = {"root": (), "account": as_account(), "member": person("bob")}
    for name, who in everybody.items():
        codes = {" ".join(words): run(*who, PROGRAM, *words).returncode for words in forms(tasks)}
        wrong = {words: code for words, code in codes.items() if code}
        assert not wrong, (name, wrong)
        say(f"as {name}", f"{len(codes)} forms, each answered")
    for words in (("submit", "Add slugify", "--again", "--repo", REPO), ("pause", "--help"), ("prune", "--dry-run")):
        done = run(*person("bob"), PROGRAM, *words)
        say(f"member: {words[0]}", f"{done.returncode} {first_line(done)}")
    theirs = ("--data-dir", DATA, "backup", "/home/eve/b.zst")
    for tried in (("ps",), ("submit", "Add slugify", "--repo", REPO), theirs):
        done = run(*person("eve"), PROGRAM, *tried)
        assert done.returncode in {1, 3}, done
        assert "sudo -u orchestrator" in done.stderr, done
        say(f"stranger: {tried[-1]:.20}", f"{done.returncode} {first_line(done)}")
    doctor = run(*person("eve"), PROGRAM, "doctor")
    assert "[warning" not in doctor.stdout + doctor.stderr, doctor


def forms(tasks: list[str]) -> list[tuple[str, ...]]:
    """Return what people type to look at tasks; the last task is named by a part of its id."""
    part = tasks[2].rpartition("_")[2]
    return [
        ("ps",), ("list",), ("ls", "-o", "wide"), ("tasks", "-o", "json"), ("tasks", "-q"), ("list", "-o", "name"),
        ("status",), ("status", tasks[0]), ("describe", tasks[0]), ("show", part), ("why", part), ("version",), ("-V",),
        ("logs", tasks[0], "-n", "5"), ("logs", tasks[0], "--tail", "3", "--since", "1h"),
        ("events", "--since", "yesterday"), ("events", "--since", "1h", "--json"), ("report", "--since", "1h"),
        ("-h",), ("schedule", "-h"), ("help", "submit"), ("help", "schedules"), ("help", "schedule", "add"),
        ("completion", "bash"), ("completion", "zsh"), ("completion", "fish"), ("limits",), ("disk",),
        ("show", tasks[0], "--json"), ("--json", "show", tasks[0]), ("notify", "list"), ("schedule", "list"),
        ("service", "status"), ("checkpoints", "list", tasks[0]), ("graph", "full"), ("check",),
    ]  # fmt: skip


def several() -> None:
    """Several tasks in one command, ids by a part, refusals on lines of their own, and completion in bash."""
    set_up(first="max_agents = 1\n")
    tasks = [submit(f"Add slugify {number}", "--at", "+2h") for number in range(3)]
    paused = out(PROGRAM, "pause", *tasks).splitlines()
    assert len(paused) == 3, paused
    some = run(PROGRAM, "cancel", tasks[0], "LOCAL-none", tasks[1])
    assert some.returncode == 4, some
    statuses = {one["id"]: one["status"] for one in ask("tasks", "--all")["tasks"]}
    assert [statuses[task] for task in tasks[:2]] == ["cancelled", "cancelled"], statuses
    say("cancel TASK none TASK", f"4: {' / '.join((some.stdout + some.stderr).splitlines())}")
    both = run(PROGRAM, "show", "LOCAL-")
    assert both.returncode == 2, both
    assert all(task in both.stderr for task in tasks), both.stderr
    removed = json.loads(out(*as_account(PROGRAM, "rm", tasks[0], tasks[1], "--yes", "--json")))
    say("rm TASK TASK --json", {key: value for key, value in removed.items() if key != "results"})
    refused = run(PROGRAM, "show", "LOCAL-none", "--json")
    assert json.loads(refused.stdout)["status"] == 404, refused
    piped = out(*as_account("sh", "-c", f"echo 'Add slugify piped' | {PROGRAM} submit --again --repo {REPO}"))
    say("echo text | submit", piped.strip())
    script = COMPLETE.format(program=PROGRAM, begin=tasks[2][:-2])
    done = run("bash", "--norc", "-c", script)
    lines = done.stdout.splitlines()
    say("completion in bash", lines)
    assert "schedule" in lines[0], done
    assert "pause" in lines[1], done
    assert tasks[2] in lines[2], done
    assert "--repo" in lines[3], done


def first_line(done: "subprocess.CompletedProcess[str]") -> str:
    """Return the first line of what a command said."""
    return next(iter((done.stderr or done.stdout).splitlines()), "")

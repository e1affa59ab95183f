"""Notices to a mail server and to a receiver of webhooks that are programs in the machine, and the morning report."""

import time
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

from tests.fakes.receiver_process import taken
from tests.nspawn.machine import PATIENCE, PROGRAM, ROOT, as_account, out, run, until
from tests.nspawn.scenarios import UNIT, main_pid, say
from tests.nspawn.service import ask, clock, end_of, kill, logged, now, present, set_up, submit, until_it_answers

RECEIVERS = {"mail": (2525, 8801), "desk": (2526, 8802)}
"""Each receiver's ports for mails and for webhooks; only one of the two is used."""
SECRET = "/etc/orchestrator/tokens/DESK_SECRET"
CHANNELS = """
[notify]
retry_pause = 0.5
[notify.channels.mail]
type = "mail"
host = "127.0.0.1"
port = 2525
security = "none"
sender = "night@example.org"
to = ["ada@example.org"]
[notify.channels.desk]
type = "webhook"
url = "http://127.0.0.1:8802/night"
secret_env = "DESK_SECRET"
"""
RULES = """
[[notify.rules]]
channels = ["mail"]
kinds = ["question_asked", "completed", "channel_failed", "channel_recovered", "morning_report"]
[[notify.rules]]
channels = ["desk"]
kinds = ["completed"]
[[notify.escalations]]
channels = ["desk"]
kinds = ["question_asked"]
after = 20.0
[notify.report]
at = "{at}"
channels = ["mail"]
format = "html"
"""
QUESTION = {
    "category": "choice",
    "question": "Which alphabet?",
    "options": ["Latin", "All"],
    "default": "All",
    "required": True,
}
ASKING = {"PLANNING": [[{"question": QUESTION}, {"no_work": True}]]}
MAKE_RECEIVERS = """\
test -x /opt/receivers/bin/python || python3 -m venv /opt/receivers
/opt/receivers/bin/python -m pip install -q --no-index --find-links /wheels aiosmtpd
"""


def notices() -> None:
    """A test, the end of a task and a question are told; an old question is told elsewhere."""
    set_up_with_receivers()
    done = run(*as_account(PROGRAM, "notify", "test"))
    assert done.returncode == 0, done
    say("notify test", " ".join(done.stdout.split()))
    task = submit("Add slugify")
    end_of(task)
    until("its notices", lambda: keys("mail", f"{task}:completed") and keys("desk", f"{task}:completed"))
    asking = submit("Add slugify", "--interactive")
    until("the question", lambda: keys("mail", f"{asking}:"))
    begun = now()
    until("its escalation", lambda: keys("desk", f"escalation:20:{asking}"))
    say("an open question", f"told by mail, and elsewhere {(now() - begun).total_seconds():.0f} s later")
    asked = ask("show", asking)["requests"][0]["number"]
    out(*as_account(PROGRAM, "answer", asking, "Latin"))
    say("answered", f"question {asked}: {end_of(asking)}")
    kill()
    until_settled()
    say("over a kill", f"{sum(everything().values())} notices, at most {max(everything().values())} times each")
    assert max(everything().values()) == 1, everything()


def dead_channel() -> None:
    """A channel whose receiver is away is told by another; nothing is lost, and no task waits."""
    set_up_with_receivers()
    out("systemctl", "stop", "desk.service")
    begun = now()
    tasks = [submit("Add slugify") for _ in range(2)]
    ends = [end_of(task) for task in tasks]
    said = until("the news of it", lambda: keys("mail", "channel"), 120)
    seconds = (now() - begun).total_seconds()
    shown = out(PROGRAM, "status")
    assert "desk" in shown, shown
    kill()
    start_receiver("desk")
    until("what waited", lambda: all(keys("desk", f"{task}:completed") for task in tasks), 180)
    until("the good news", lambda: keys("mail", "channel") > said, 180)
    until_settled()
    say("a dead channel", f"told by mail after {seconds:.0f} s; tasks {ends}; all came later, {dict(everything())}")
    assert max(everything().values()) == 1, everything()


def morning_report() -> None:
    """The report comes by mail at its time, once, though the daemon is killed around that again and again."""
    at = now() + timedelta(minutes=2)
    set_up_with_receivers(report=clock(at))
    end_of(submit("Add slugify"))
    due = at.replace(second=0, microsecond=0)
    time.sleep(max(0.0, (due - now()).total_seconds()))
    kills, first = 0, None
    while now() < due + timedelta(seconds=45):
        out("kill", "-KILL", str(main_pid()))
        kills += 1
        until("another daemon", lambda: run(PROGRAM, "status").returncode == 0)
        first = first or (now() if keys("mail", "report:") else None)
        time.sleep(kills % 5)
    until("the report", lambda: keys("mail", "report:"), 60)
    out("systemctl", "restart", UNIT)
    until_it_answers()
    until_settled()
    counted = {key: count for key, count in everything().items() if key.startswith("report:")}
    seconds = ((first or now()) - due).total_seconds()
    say("the morning report", f"over {kills} kills: {counted}, at most {seconds:.0f} s after its time")
    assert len(counted) == 1, counted
    since_last = logged("notice_sent", present())
    assert not since_last, since_last


def set_up_with_receivers(settings: str = "", *, report: str = "", stopped: Sequence[str] = ()) -> None:
    """Start the receivers with nothing taken but those to stay `stopped`, and the service with both as channels."""
    out("sh", "-ec", MAKE_RECEIVERS)
    for name in RECEIVERS:
        run("systemctl", "stop", f"{name}.service")
        (ROOT / f"var/tmp/{name}.taken").unlink(missing_ok=True)
        if name not in stopped:
            start_receiver(name)
    secret = ROOT / SECRET[1:]
    secret.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    secret.write_text("a secret of the desk, long enough\n")
    secret.chmod(0o600)
    told = settings or CHANNELS + RULES.format(at=report or clock(now() - timedelta(hours=2)))
    set_up(told, scenario=ASKING, drop_in=f"LoadCredential=DESK_SECRET:{SECRET}\n")


def start_receiver(name: str) -> None:
    """Start a receiver, as a service of its own."""
    mail, hook = RECEIVERS[name]
    run("systemctl", "reset-failed", f"{name}.service")
    out(
        "systemd-run", "-q", f"--unit={name}.service", "--setenv=PYTHONPATH=/src", "--setenv=PYTHONDONTWRITEBYTECODE=1",
        "/opt/receivers/bin/python", "-m", "tests.fakes.receiver_process", str(mail), str(hook),
        f"/var/tmp/{name}.taken",
    )  # fmt: skip


def keys(receiver: str, begin: str) -> set[str]:
    """Return the keys that a receiver has taken and that begin so."""
    return {key for key in everything(receiver) if key.startswith(begin)}


def everything(*receivers: str) -> Counter[str]:
    """Return how often each key came, on one receiver or at most on any."""
    found: Counter[str] = Counter()
    for name in receivers or RECEIVERS:
        for counted in taken(ROOT / f"var/tmp/{name}.taken").values():
            found |= counted
    return found


def until_settled(patience: float = PATIENCE) -> None:
    """Wait until no notice waits for a channel; one that was away for long is tried again after as long at the most."""
    until("no waiting notice", lambda: all(not one["waiting"] for one in ask("notify", "list")["channels"]), patience)

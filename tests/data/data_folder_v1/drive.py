"""Bring one task into each state, kill the daemon and pack its data folder: `drive.py ROOT WHERE`, run by record.py.

This script runs with the code of the commit that record.py names. Its imports are of that code, so mypy leaves it out.

expected.json holds what the store of that code loads from the unpacked archive, without a daemon: a daemon makes
decisions as soon as it starts, and the views would show those. Texts that depend on the time are made for the time
`at`, which stands in expected.json too.
"""

import json
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from shutil import rmtree
from typing import Any

from orchestrator.api.checkpoint_views import CheckpointView
from orchestrator.api.task_views import task_view
from orchestrator.api.views import FailuresView, WhyView, seen
from orchestrator.bundled import Kind, bundled
from orchestrator.core.admission import Room, Scene
from orchestrator.core.codec import stamp, to_json
from orchestrator.core.document import to_document
from orchestrator.core.model import BlockedBy, Process, Task, TaskStatus
from orchestrator.core.why import explain
from orchestrator.store import FolderStore, Loaded, Summary
from orchestrator.vault import Vault
from tests.acceptance.forge_house import ForgeHouse, Upstream
from tests.acceptance.house import FILES, Json, line_count

from orchestrator import checkpoint_files, clock
from orchestrator.pipelines.bundled import bundled_redactor
from tests.fakes.repositories import commit, git

PACKED = ("data", "agent", "repo", "proposed")
"""The data folder, the sessions of the scripted agent, and the user's repositories."""
CHECK = "python3 -B -m unittest"
"""Without a path: what stands in a commit cannot be replaced when the folder is unpacked elsewhere."""
RESET = 300.0
"""Seconds until the usage limit is over: not before the end of the recording, and long before any test."""
FOR_EVER = 600_000
"""Milliseconds: longer than the recording takes."""
INTERACTIVE: Json = {"autonomy": "interactive"}
CHOICE: Json = {
    "category": "choice",
    "question": "Which alphabet?",
    "options": ["Latin", "All"],
    "default": "All",
    "required": False,
}
REQUIRED: Json = {"category": "business", "question": "How long may a slug be?", "required": True}
OPTIONAL: Json = {"category": "clarification", "question": "Are umlauts letters?", "required": False}
STRIPE: Json = {"type": "api_key", "name": "STRIPE_KEY", "description": "For the tests.", "required": True}
LICENCE: Json = {"type": "file", "name": "LICENCE_FILE", "description": "The licence text.", "required": True}
VALUES = {"STRIPE_KEY": "made-up-key-of-the-recording-0042", "LICENCE_FILE": "A made-up licence,\nof two lines.\n"}
QUESTIONS: Json = {
    "questions": [
        {
            "question": f"{what}?",
            "header": what,
            "options": [{"label": "Short", "description": "few"}, {"label": "Long", "description": "many"}],
            "multiSelect": False,
        }
        for what in ("Names", "Lines")
    ]
}
HALF_DONE: Json = {"write": {"file": "half-done.txt", "text": "not committed\n"}}
WAITS: Json = {"think_ms": FOR_EVER, "no_work": True}
CAREFUL = ('name = "full"', 'name = "careful"'), ("[stages.PLANNING]\n", "[stages.PLANNING]\nreview = true\n")
"""What makes the pipeline `full` one in which a person reviews the plan."""
RELEASE = "Release 1.4.0\n\n## Version\n\n1.4.0\n\n## Included Changes\n\n- slugify\n"
FAILING = "echo 'AssertionError: the slug of an empty title at textkit/__init__.py:3' >&2; exit 1"


class RecordedHouse(ForgeHouse):
    """A house whose repositories hold no path of this machine."""

    def make_repository(self, name: str, check: str = CHECK) -> Path:
        """A user's repository with the package `textkit`."""
        folder = self.root / name
        folder.mkdir()
        git(folder, "init", "--quiet", "--initial-branch=main", "--template=")
        commit(folder, {**FILES, ".orchestrator.toml": f"[checks.unit_test]\ncommand = {json.dumps(check)}\n"})
        return folder


@dataclass
class Recording:
    """The house whose daemon is driven, the forge of one of its repositories, and the tasks by the parts they play."""

    house: RecordedHouse
    upstream: Upstream
    tasks: dict[str, str]

    def begin(self, name: str, scenario: Json, text: str = "", **more: Any) -> str:
        """Kill the daemon, start it with another scenario, and submit the task that plays the part `name`."""
        self.house.kill()
        self.house.scenario = scenario
        self.house.start()
        title = f"Add slugify(text), as the {name} one\n\nIt turns a title into a part of a URL.\n"
        self.tasks[name] = task = self.house.submit(text or title, **more)
        return task

    def answer(self, task: str, given: str) -> None:
        """Answer the first question that the task waits for."""
        ask = self.house.wait_until_it_asks(task)
        self.house.say("POST", f"/api/questions/{ask.id}/answer", {"answer": given})

    def provide(self, task: str) -> None:
        """Provide the first dependency that the task waits for."""
        ask = self.house.wait_until_it_asks(task)
        self.house.say("POST", f"/api/dependencies/{ask.id}/provide", {"value": VALUES[ask.name]})

    def wait_for_checkpoint(self, task: str, reason: str) -> int:
        """Wait for a checkpoint that was taken for this reason; the number of the newest one."""

        def look() -> list[int]:
            kept = self.house.client.checkpoints(task).checkpoints
            return [one.number for one in kept if one.reason.value == reason]

        return self.house.wait_for(f"a checkpoint for {reason}", look)[0]


def ticking(root: Path, name: str) -> Json:
    """A command that works for longer than the recording takes."""
    return {"tick": {"file": str(root / f"ticks-{name}"), "seconds": 6000}, "no_work": True}


def ended(recording: Recording) -> None:
    """Tasks that have ended, one of which was archived."""
    house = recording.house
    troubled: Json = {
        "ANALYSIS": [[{"question": CHOICE}]],
        "PLANNING": [{"die_mid_line": True}],
        "DESIGN": [{"no_work": True}],
    }
    task = recording.begin("completed", troubled, ticket="TEXT-1", priority="high")
    done = house.wait_for_end(task)
    assert house.subjects(task), "its branch was delivered"
    assert (done.failures.total, len(done.steps), len(done.asks)) == (1, 3, 1)

    task = recording.begin("archived", {}, pipeline="review_only")
    house.wait_for_end(task)
    house.say("POST", f"/api/tasks/{task}/archive")

    task = recording.begin("cancelled", {"PLANNING": [ticking(house.root, "cancelled")]})
    house.wait_for("its command", lambda: line_count(house.root / "ticks-cancelled"))
    house.client.request(task, "cancel")
    house.wait_for_end(task, TaskStatus.CANCELLED)


def halted(recording: Recording) -> None:
    """Tasks that were blocked or failed, with the notices of that still to be sent."""
    house = recording.house
    task = recording.begin("blocked", {}, checks={"unit_test": FAILING}, type="bugfix", ticket="TEXT-2")
    halt = house.wait_for_end(task, TaskStatus.BLOCKED)
    assert (halt.budgets["eval_cycles"].used, halt.budgets["escalations"].used) == (3, 1)

    trouble = {"type": "fatal", "message": "The sources are encrypted.", "recovery": "checkpoint_and_fail"}
    task = recording.begin("failed", {"PLANNING": [[{"trouble": trouble}, WAITS]]})
    house.wait_for_end(task, TaskStatus.FAILED)


def under_review(recording: Recording) -> None:
    """Tasks that wait for a review: of a stage, of a release, and of a pull request after one round of comments."""
    house = recording.house
    task = recording.begin("reviewed", {}, pipeline="careful", **INTERACTIVE)
    ask = house.wait_until(task, lambda now: now.status is TaskStatus.REVIEW).waiting[0]
    house.say("POST", f"/api/reviews/{ask.id}/request-changes", {"text": "Name the edges."})
    house.wait_until(task, lambda now: now.status is TaskStatus.REVIEW and len(now.asks) == 2)

    task = recording.begin("release", {}, RELEASE, pipeline="release")
    house.wait_until(task, lambda now: now.status is TaskStatus.REVIEW and now.waiting)

    proposed = house.make_repository("proposed")
    recording.upstream.adopt(proposed)
    task = recording.begin("proposed", {}, repo=proposed, ticket="TEXT-3")
    house.wait_until(task, lambda now: now.status is TaskStatus.REVIEW and now.publication.number is not None)
    recording.upstream.forge.says("alice", "say this in the docs", place=("README.md", 1))
    house.client.request(task, "review")
    house.wait_until(task, lambda now: now.publication.round == 1)
    house.wait_until(task, lambda now: now.status is TaskStatus.REVIEW and bool(now.publication.hindrances))


def at_work(recording: Recording) -> None:
    """Tasks whose agent or check is running or frozen when the daemon is killed."""
    house = recording.house
    running = ticking(house.root, "running")
    scenario: Json = {
        "ANALYSIS": [[{"question": CHOICE}, {"question": OPTIONAL}, {"dependency": STRIPE}, WAITS]],
        "PLANNING": [[{"dependency": LICENCE}, WAITS]],
        "IMPLEMENTATION": [{"plant_bug": True}, None, None, None, [{"say": "I begin."}, HALF_DONE, running]],
    }
    task = recording.begin("running", scenario, type="bugfix", ticket="TEXT-4", usd=50.0, **INTERACTIVE)
    recording.answer(task, "latin")
    ask = house.wait_until(task, lambda now: now.waiting and now.waiting[0].text == OPTIONAL["question"]).waiting[0]
    house.say("POST", f"/api/questions/{ask.id}/skip")
    recording.provide(task)
    house.wait_until(task, lambda now: now.stage == "PLANNING" and now.waiting)
    recording.provide(task)
    house.wait_for("its command", lambda: line_count(house.root / "ticks-running"))

    scenario = {"IMPLEMENTATION": [None, [HALF_DONE, ticking(house.root, "frozen")]]}
    task = recording.begin("frozen", scenario)
    house.wait_for("its command", lambda: line_count(house.root / "ticks-frozen"))
    house.client.request(task, "pause")
    house.wait_until_frozen(task)
    house.client.pin(task, recording.wait_for_checkpoint(task, "user"), pinned=True)

    scenario = {"ANALYSIS": [[{"question": CHOICE}]], "PLANNING": [[{"question": REQUIRED}, {"dependency": STRIPE}]]}
    task = recording.begin("waiting", scenario, **INTERACTIVE)
    recording.answer(task, "All")
    house.wait_until(task, lambda now: now.stage == "PLANNING" and len(now.waiting) == 2)
    house.wait_until_frozen(task)

    bash: Json = {"tool": "Bash", "input": {"command": "apt-get install cowsay"}}
    scenario = {"ANALYSIS": [{"ask": bash}], "PLANNING": [{"ask": {"tool": "AskUserQuestion", "input": QUESTIONS}}]}
    task = recording.begin("asking", scenario, **INTERACTIVE)
    recording.answer(task, "allow")
    house.wait_until(task, lambda now: now.stage == "PLANNING" and len(now.waiting) == 2)
    recording.answer(task, "Short")
    house.wait_until(task, lambda now: len(now.waiting) == 1)
    house.wait_until_frozen(task)

    ticks = house.root / "ticks-checking"
    loop = f"i=0; while [ $i -lt 60000 ]; do i=$((i+1)); echo $i >> '{ticks}'; sleep 0.1; done"
    recording.begin("checking", {}, checks={"lint": "true", "unit_test": loop})
    house.wait_for("its check", lambda: line_count(ticks))


def held_back(recording: Recording) -> None:
    """Tasks that are held or were not started. The usage limit comes last: until it is over no agent begins a turn."""
    house = recording.house
    task = recording.begin("capped", {}, usd=0.001)
    house.wait_until(task, lambda now: now.paused and now.agent.blocked_by is BlockedBy.BUDGET)
    house.wait_until_frozen(task)

    after = (recording.tasks["running"], recording.tasks["completed"])
    recording.begin("queued", {}, after=after, at=datetime(2100, 1, 1, tzinfo=UTC), priority="low")

    task = recording.begin("draft", {}, draft=True)
    house.overwrite(house.folder(task) / "state.json", '{"title": "by another hand"}\n')
    house.wait_for("the state to be restored", lambda: house.journal(task, "ForeignEditFound"))

    limit = {"window": "five_hour", "resets_in": RESET}
    task = recording.begin("limited", {"PLANNING": [{"limit": limit}]})
    house.wait_until(task, lambda now: now.agent.blocked_by is BlockedBy.RATE_LIMIT)
    house.wait_until_frozen(task)
    recording.wait_for_checkpoint(task, "limit")


def drive(root: Path) -> dict[str, str]:
    """Play every part and kill the daemon. Return the ids of the tasks by their parts."""
    upstream = Upstream(root / "upstream")
    quick: Json = {
        "max_agents": 20,
        "free_space_floor": "64MiB",
        "free_memory_floor": 0,
        "forge": upstream.settings(look_every=0),
    }
    pipelines = root / "config/orchestrator/pipelines"
    pipelines.mkdir(parents=True)
    text = (bundled(Kind.PIPELINES) / "full.toml").read_text()
    for old, new in CAREFUL:
        assert text.count(old) == 1
        text = text.replace(old, new)
    (pipelines / "careful.toml").write_text(text)
    house = RecordedHouse(root, **quick)
    recording = Recording(house, upstream, {})
    with upstream.forge, house:
        ended(recording)
        # From here on no notice can be sent, so notices stay in the state. A lost agent is started again only after
        # five minutes, so that a test sees such a task before it goes on.
        house.settings |= {"people": {"notify_command": ["/bin/sh", "-c", "exit 1"]}, "retry_delay": 300}
        halted(recording)
        under_review(recording)
        at_work(recording)
        held_back(recording)
        running = recording.tasks["running"]
        house.wait_for("telemetry on disk", lambda: house.state(running)["agent"]["turn_tokens"])
        runs = {name: house.client.task(task).run for name, task in recording.tasks.items()}
        house.kill()
    left = [house.folder(recording.tasks[name]) / run.folder for name, run in runs.items() if run is not None]
    assert [run.process for run in runs.values() if run is not None].count(Process.RUNNING) == 2
    assert not [folder for folder in left if (folder / "exit").exists()], "the runs were cut off, not ended"
    return recording.tasks


def pack(root: Path, archive: Path) -> None:
    """Put plain files, folders and links into the archive; sockets and pipes are made anew by every daemon."""

    def without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        return entry if entry.isfile() or entry.isdir() or entry.issym() else None

    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for name in PACKED:
            tar.add(root / name, arcname=name, filter=without_owner)


def expected(root: Path, tasks: Mapping[str, str]) -> Json:
    """What this code reads in the unpacked data folder, for expected.json."""
    store, at = FolderStore(root / "data"), clock.now()
    summaries = {found.id: found for found in store.summaries() if isinstance(found, Summary)}
    loaded = {name: store.load(task) for name, task in tasks.items()}
    assert len(summaries) == len(tasks)
    assert all(one.foreign is None and one.changed == () for one in loaded.values())
    scene = Scene(
        tasks=tuple(one.task for one in loaded.values() if not summaries[one.task.id].ended),
        ended={summary.id: summary.status for summary in summaries.values() if summary.ended},
        room=Room(),
        now=at,
        windows=store.account().windows,
    )
    views = {name: views_of(store, one, scene) for name, one in loaded.items()}
    events = (root / "data/events.idx").read_bytes().count(b"\n")
    found = {"at": stamp(at), "account": to_json(store.account()), "events": events, "tasks": views}
    store.close()
    return found


def views_of(store: FolderStore, loaded: Loaded, scene: Scene) -> Json:
    """What the API answers about a task, its state.json, and the values that people provided for it."""
    task, redact = loaded.task, bundled_redactor().masked
    why = explain(task, scene)
    where = {"task": task.id, "status": task.status, "stage": task.stage}
    still = {"paused": task.paused, "blocked_by": task.agent.blocked_by}
    views = {
        "task": task_view(task, redact),
        "why": seen(WhyView, {**where, **still, "facts": why.facts, "next": why.next}, redact),
        "failures": seen(FailuresView, task.failures, redact),
    }
    kept = checkpoint_files.kept(store.folder(task.id))
    return {
        "id": task.id,
        "seq": task.seq,
        **{name: view.model_dump(mode="json", by_alias=True) for name, view in views.items()},
        "checkpoints": [seen(CheckpointView, one, redact).model_dump(mode="json", by_alias=True) for one in kept],
        "state": to_document(task),
        "provided": provided(store, task),
    }


def provided(store: FolderStore, task: Task) -> dict[str, str]:
    """The values that people provided for a task that has not ended."""
    return dict(Vault(store.data_dir).values(store.folder(task.id), task.id))


def main() -> None:
    """Record: the first argument is the folder to work in, the second the folder for the two files."""
    root, where = Path(sys.argv[1]), Path(sys.argv[2])
    tasks = drive(root)
    pack(root, where / "data_folder.tar.xz")
    for name in PACKED:
        rmtree(root / name)
    with tarfile.open(where / "data_folder.tar.xz") as tar:
        tar.extractall(root, filter="tar")
    text = json.dumps(expected(root, tasks), indent=1, sort_keys=True, ensure_ascii=False)
    (where / "expected.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()

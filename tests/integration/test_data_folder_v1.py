"""A data folder that was recorded when an earlier version was killed is loaded and taken over without loss."""

import json
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree
from typing import Any

import httpx
import pytest

from orchestrator.core.schedule.admission import Capacity, SchedulerSnapshot
from orchestrator.core.schedule.live_tasks import LiveTasks
from orchestrator.core.schedule.trouble import CLOSED
from orchestrator.core.schedule.why import explain
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.formats.codec import time_of, to_json
from orchestrator.pipelines.bundled import bundled_redactor
from orchestrator.server.rendering import task_view
from orchestrator.server.schemas.base import View, to_view
from orchestrator.server.schemas.checkpoints import CheckpointView
from orchestrator.server.schemas.task_input import TaskFilter
from orchestrator.server.schemas.tasks import FailuresView, TaskView, WhyView
from orchestrator.storage import checkpoint_files
from orchestrator.storage.journal import lines
from orchestrator.storage.migration import migrated
from orchestrator.storage.records import TaskSummary
from orchestrator.storage.state_document import to_document
from orchestrator.storage.store import FolderStore
from orchestrator.storage.vault import Vault
from tests.acceptance.harness import DaemonHarness, Json
from tests.fakes.recorded import Recorded, parts, recorded
from tests.fakes.repositories import git

redact = bundled_redactor().masked
NO_PHASES = {"currentPhase": None, "totalPhases": None}
RETRY = "orchestrator retry ID, which makes a new task of it"


@pytest.fixture(scope="module")
def there() -> Iterator[Recorded]:
    """The recorded folder, for tests that only read it."""
    with recorded() as unpacked:
        yield unpacked


@pytest.fixture(scope="module")
def store(there: Recorded) -> Iterator[FolderStore]:
    opened = FolderStore(there.data)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def bare() -> Iterator[Recorded]:
    """The recorded folder without state.json and checkpoints, so that journals are replayed from their first line."""
    with recorded() as unpacked:
        for folder in (unpacked.data / "tasks").iterdir():
            (folder / "state.json").unlink()
            rmtree(folder / "checkpoints", ignore_errors=True)
        yield unpacked


@pytest.fixture(scope="module")
def store_of_journals(bare: Recorded) -> Iterator[FolderStore]:
    opened = FolderStore(bare.data)
    yield opened
    opened.close()


@pytest.mark.parametrize("part", parts())
def test_a_task_is_loaded_as_the_version_that_wrote_it_loads_it(there: Recorded, store: FolderStore, part: str) -> None:
    expected = there.expected["tasks"][part]
    loaded = store.load(expected["id"])
    assert (loaded.foreign, loaded.changed) == (None, ())
    now = {"state": with_new_fields(migrated(expected["state"])), "task": in_present_words(expected["task"])}
    now["why"] = explained_now(expected["why"], loaded.task)
    assert views_of(store, loaded.task, snapshot(there, store)) == {**expected, **now}


@pytest.mark.parametrize("part", parts())
def test_a_journal_replayed_from_its_first_line_gives_the_same_task(
    bare: Recorded, store_of_journals: FolderStore, part: str
) -> None:
    expected = bare.expected["tasks"][part]
    document = to_document(store_of_journals.load(expected["id"]).task)
    assert without_telemetry(document) == without_telemetry(with_new_fields(migrated(expected["state"])))


def test_the_account_and_the_order_of_all_events_are_kept(there: Recorded, store: FolderStore) -> None:
    account = {name: value for name, value in there.expected["account"].items() if name != "refused"}
    assert to_json(store.account()) == {**account, "breaker": to_json(CLOSED)}
    rows = [line.split(" ") for line in (there.data / "events.idx").read_text().splitlines()]
    assert len(rows) == there.expected["events"]
    ordered = {task: [int(seq) for _, _, name, seq, _ in rows if name == task] for task in ids(there)}
    assert ordered == {task: [line["seq"] for line in lines(store.files.path_of(task))] for task in ids(there)}


def test_a_daemon_becomes_ready_and_lists_every_task_with_its_status() -> None:
    with recorded() as there, TakenOver(there.root) as harness:
        assert ready(harness.client.socket)
        assert statuses(harness) == {one["id"]: one["task"]["status"] for one in there.expected["tasks"].values()}
        for part, before in there.expected["tasks"].items():
            after = harness.wait_until(before["id"], lambda now: now.run is None)
            assert kept(after) == kept(TaskView.model_validate(in_present_words(before["task"]), context=str)), part
        assert statuses(harness) == {one["id"]: one["task"]["status"] for one in there.expected["tasks"].values()}
        assert [line for line in harness.log if line["level"] in {"error", "critical"}] == []


def test_tasks_that_were_held_or_waiting_are_completed_with_the_work_already_done() -> None:
    with recorded() as there, TakenOver(there.root, max_agents=10) as harness:
        before = {part: there.expected["tasks"][part] for part in ("frozen", "waiting", "reviewed", "limited")}
        harness.client.request(before["frozen"]["id"], "resume")
        question, dependency = before["waiting"]["task"]["waiting"]
        harness.request("POST", f"/api/questions/{question['id']}/answer", {"answer": "80"})
        harness.request("POST", f"/api/dependencies/{dependency['id']}/provide", {"value": "made-up-key"})
        (review,) = before["reviewed"]["task"]["waiting"]
        harness.request("POST", f"/api/reviews/{review['id']}/approve")
        for one in before.values():
            done = harness.wait_for_end(one["id"])
            commits = [commit for step in one["task"]["steps"] for commit in step["commits"]]
            delivered = git(harness.repo, "rev-list", done.branch).split()
            assert [commit for commit in commits if commit not in delivered] == []
            assert done.failures.total == 0
        half_done = git(harness.repo, "show", f"{harness.client.task(before['frozen']['id']).branch}:half-done.txt")
        assert half_done == "not committed"


class TakenOver(DaemonHarness):
    """A harness with the recorded data folder and its repositories."""

    def make_repository(self, name: str, check: str = "") -> Path:  # noqa: ARG002 - it was made with one
        """The recorded repository of that name."""
        return self.root / name


def in_present_words(view: Json) -> Json:
    """What the API answered about a task, under the names that it uses now."""
    names = {"owed": "nextAction", "wanted": "requestedChanges", "asks": "requests"}
    now = {names.get(name, name): value for name, value in view.items()}
    now["closing"] = now["closing"] and reworded(now["closing"]).replace("ID", view["id"])
    first = {"failed": ["retry"], "draft": ["change"]}.get(view["status"], [])
    new = {"parent": None, "children": [], "retryOf": None, "madeBy": None, "spentByAll": view["spent"], **NO_PHASES}
    return {**now, **new, "allowed": [*first, *view["allowed"]]}


def with_new_fields(document: Json) -> Json:
    """The document that was recorded, with the fields that were added since."""
    agent, run, options = document["agent"], document["run"], document["check_options"]
    setbacks, turn = {**agent["setbacks"], "losses": 0}, {**agent["turn"], "usd": 0.0, "tool": "", "tool_since": None}
    states = {name: {**record} for name, record in document["states"].items()}
    for record in states.values():
        record["phase"] = None
        if "result_details" in record:
            new = {"details": "", "modified_files": []}
            record["result_details"] = {name: {**one, **new} for name, one in record["result_details"].items()}
    return {
        **document,
        "states": states,
        "publication": {**document["publication"], "look_due": None},
        "check_options": {name: {**option, "network": True} for name, option in options.items()},
        "pipeline_digest": "",
        "parent": None,
        "children": [],
        "sessions": {},
        "plain_folder": "",
        "after_any_end": False,
        "retry_of": None,
        "let_run_at": None,
        "made_by": None,
        "run": run and {**run, "holder": ""},
        "agent": {**agent, "setbacks": setbacks, "turn": turn},
        "spending": {**document["spending"], "by_children": {"usd": 0.0, "tokens": 0, "turns": 0, "seconds": 0.0}},
    }


def explained_now(recorded: Json, task: Task) -> Json:
    """An explanation that was recorded, in present words; that of a failed task had neither its reason nor a way on."""
    if task.status is not TaskStatus.FAILED:
        return dict(reworded(recorded))
    reason = (task.block_reason or "").removeprefix(f"{task.stage}: ")
    then = f"look at {task.folder}, then {RETRY.replace('ID', task.id)}"
    return {**recorded, "facts": [f"it failed in {task.stage}: {reason}"], "next": then}


def reworded(recorded: Any) -> Any:
    """A text or an explanation that was recorded, with the phrases that this program uses now."""
    phrases = {
        "its processes stand still": "its processes are frozen",
        "nothing of it runs": "none of its processes runs",
        "it goes on by itself": "it continues by itself",
        "it comes after": "it waits for",
        "not to be merged yet": "not ready to merge",
        "again and again: ": "recurring: ",
        "mend what the reason names; then submit it anew": f"fix what the reason says; then {RETRY}",
    }
    text = json.dumps(recorded)
    for old, new in phrases.items():
        text = text.replace(old, new)
    return json.loads(text)


def ids(there: Recorded) -> list[str]:
    return [one["id"] for one in there.expected["tasks"].values()]


def views_of(store: FolderStore, task: Task, snapshot: SchedulerSnapshot) -> Json:
    """What the API answers about a task, its state.json, and the values that people provided for it."""
    why = explain(task, snapshot)
    where = {"task": task.id, "status": task.status, "stage": task.stage}
    still = {"paused": task.is_paused, "blocked_by": task.agent.blocked_by}
    reason = to_view(WhyView, {**where, **still, "facts": why.facts, "next": why.next}, redact)
    folder = store.files.path_of(task.id)
    return {
        "id": task.id,
        "seq": task.seq,
        "task": shown(task_view(task, redact)),
        "why": shown(reason),
        "failures": shown(to_view(FailuresView, task.failures, redact)),
        "checkpoints": [shown(to_view(CheckpointView, one, redact)) for one in checkpoint_files.kept(folder)],
        "state": to_document(task),
        "provided": dict(Vault(store.data_dir).values(folder, task.id)),
    }


def shown(view: View) -> Json:
    return view.model_dump(mode="json", by_alias=True)


def snapshot(there: Recorded, store: FolderStore) -> SchedulerSnapshot:
    """What texts about a task depend on, as of the time of the recording."""
    found = [one for one in store.summaries() if isinstance(one, TaskSummary)]
    return SchedulerSnapshot(
        tasks=LiveTasks(store.load(one.id).task for one in found if not one.ended),
        ended={one.id: one.status for one in found if one.ended},
        capacity=Capacity(),
        now=time_of(there.expected["at"]),
        windows=store.account().windows,
    )


def without_telemetry(document: Json) -> Json:
    """A state without `agent`, whose usage is written to state.json between decisions and not to the journal."""
    return {name: value for name, value in document.items() if name != "agent"}


def ready(socket: Path) -> bool:
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(socket)), base_url="http://daemon") as http:
        return http.get("/readyz").is_success


def statuses(harness: DaemonHarness) -> dict[str, str]:
    page = harness.client.tasks(TaskFilter(all=True), every=True)
    assert page.unreadable == ()
    return {line.id: line.status.value for line in page.tasks}


def kept(task: TaskView) -> tuple[object, ...]:
    """What a start of the daemon does not change. A run that is gone adds a failure and uses an agent retry."""
    tried = {name: budget for name, budget in task.budgets.items() if name != "agent_retries"}
    work = (task.requests, task.steps, task.results, tried, task.spent.usd)
    return task.title, task.status, task.stage, task.after, *work

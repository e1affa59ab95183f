"""Values that users provided for a task, and how agents and the daemon find them."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.core.events.agent_messages import DependencyType
from orchestrator.core.task.task import Task
from orchestrator.core.task.user_requests import RequestDraft, RequestStatus, Subject, UserRequest
from orchestrator.storage.provided_secrets import ProvidedSecrets
from orchestrator.storage.task_files import FolderTaskFiles
from orchestrator.storage.vault import FILE, Vault, VaultError
from tests.fakes.tasks import submitted
from tests.fakes.world import START


@pytest.fixture
def provisions(tmp_path: Path) -> ProvidedSecrets:
    files = FolderTaskFiles(tmp_path)
    files.create("task")
    return ProvidedSecrets(Vault(tmp_path), files)


def wanting(
    tmp_path: Path, *dependencies: tuple[str, DependencyType], status: RequestStatus = RequestStatus.PROVIDED
) -> Task:
    """Return a task whose agent requested dependencies, all of them answered alike."""
    asks = tuple(
        UserRequest(
            number=number,
            draft=RequestDraft(subject=Subject.DEPENDENCY, text="", name=name, type=kind.value),
            digest="",
            stage="IMPLEMENTATION",
            visit=1,
            attempt=1,
            turn=1,
            asked_at=START,
            status=status,
        )
        for number, (name, kind) in enumerate(dependencies, 1)
    )
    return submitted("task", folder=str(tmp_path / "task"), requests=asks)


def test_an_agent_finds_values_in_its_variables_and_files_by_their_path(
    provisions: ProvidedSecrets, tmp_path: Path
) -> None:
    task = wanting(tmp_path, ("stripe key", DependencyType.API_KEY), ("CERT", DependencyType.FILE))
    provisions.keep(task, "stripe key", "sk-1234567")
    provisions.keep(task, "CERT", "one\ntwo\n")
    found = provisions.environment(task)
    assert found["STRIPE_KEY"] == "sk-1234567"
    assert Path(found["CERT"]).read_text() == "one\ntwo\n"
    assert provisions.values(task) == {"STRIPE_KEY": "sk-1234567", "CERT": "one\ntwo\n"}


def test_only_provided_values_are_available(provisions: ProvidedSecrets, tmp_path: Path) -> None:
    rejected = wanting(tmp_path, ("TOKEN", DependencyType.API_KEY), status=RequestStatus.REJECTED)
    provisions.keep(rejected, "TOKEN", "sk-1234567")
    for had in (provisions.environment, provisions.values, provisions.secrets):
        assert had(rejected) == {}
        assert had(wanting(tmp_path, ("NET", DependencyType.PERMISSION))) == {}


def test_a_url_may_appear_in_the_work_and_a_password_may_not(provisions: ProvidedSecrets, tmp_path: Path) -> None:
    given = {
        "APP_ENV": (DependencyType.ENV_VARIABLE, "production"),
        "DB_PASSWORD": (DependencyType.ENV_VARIABLE, "hunter2hunter2"),
        "API": (DependencyType.SERVICE, "http://localhost:8080"),
        "DB": (DependencyType.SERVICE, "postgres://me:hunter3@localhost/x"),
        "STRIPE": (DependencyType.API_KEY, "sk-1234567"),
    }
    task = wanting(tmp_path, *((name, kind) for name, (kind, _) in given.items()))
    for name, (_, value) in given.items():
        provisions.keep(task, name, value)
    assert set(provisions.secrets(task)) == {"DB_PASSWORD", "DB", "STRIPE"}
    assert set(provisions.values(task)) == set(given)


def test_forgotten_values_are_removed_from_the_disk_and_can_be_forgotten_again(
    provisions: ProvidedSecrets, tmp_path: Path
) -> None:
    task = wanting(tmp_path, ("CERT", DependencyType.FILE))
    provisions.keep(task, "CERT", "one\ntwo\n")
    file = Path(provisions.environment(task)["CERT"])
    for _ in range(2):
        provisions.forget("task")
        assert not file.exists()
        assert not (tmp_path / "task" / FILE).exists()
    provisions.forget("nowhere")


@pytest.mark.parametrize("lost", [FILE, "../vault.key"])
def test_lost_values_are_named_with_the_command_that_restores_them(
    provisions: ProvidedSecrets, tmp_path: Path, lost: str
) -> None:
    task = wanting(tmp_path, ("STRIPE KEY", DependencyType.API_KEY))
    provisions.keep(task, "STRIPE KEY", "sk-1234567")
    (tmp_path / "task" / lost).unlink()
    for had in (provisions.environment, provisions.values, provisions.secrets):
        with pytest.raises(VaultError, match=f"orchestrator provide {task.id} 'STRIPE KEY'") as told:
            had(task)
        assert told.value.names == ("STRIPE KEY",)
    provisions.keep(task, "STRIPE KEY", "sk-7654321")
    assert provisions.environment(task) == {"STRIPE_KEY": "sk-7654321"}


def test_values_provided_concurrently_are_all_kept(provisions: ProvidedSecrets, tmp_path: Path) -> None:
    names = [f"TOKEN_{number}" for number in range(40)]
    task = wanting(tmp_path, *((name, DependencyType.API_KEY) for name in names))
    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(provisions.keep, task, name, f"value of {name}") for name in names]:
            done.result()
    assert provisions.environment(replace(task)) == {name: f"value of {name}" for name in names}

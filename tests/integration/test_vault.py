"""Provided values: stored, read back, and useless to anyone who has only the disk."""

import json
import os
import shutil
import stat
from base64 import b64encode
from pathlib import Path

import pytest

from orchestrator.storage.vault import LARGEST_VALUE, LONGEST_NAME, MOST_VALUES, Vault, VaultError

TASK, NAME, VALUE = "LOCAL-20261121_220000", "STRIPE_KEY", "sk_live_ünspeakable\nwith a second line"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.fixture
def folder(data: Path) -> Path:
    (data / "tasks" / TASK).mkdir(parents=True)
    return data / "tasks" / TASK


def key_text() -> str:
    return b64encode(os.urandom(32)).decode()


def credentials(tmp_path: Path, text: str, mode: int = 0o440) -> Path:
    place = tmp_path / "credentials"
    place.mkdir(exist_ok=True)
    (place / "orchestrator-key").unlink(missing_ok=True)
    (place / "orchestrator-key").write_text(text)
    (place / "orchestrator-key").chmod(mode)
    return place


def entries(folder: Path) -> dict[str, str]:
    values: dict[str, str] = json.loads((folder / "secrets").read_text())["values"]
    return values


def edit(folder: Path, values: object) -> None:
    (folder / "secrets").write_text(json.dumps({"version": 1, "values": values}))


def refusal(vault: Vault, folder: Path, task: str = TASK) -> VaultError:
    """Return the error of a task whose values cannot be read, which contains none of them."""
    with pytest.raises(VaultError) as caught:
        vault.values(folder, task)
    assert VALUE not in f"{caught.value}{caught.value!r}"
    return caught.value


def test_provided_values_are_available_after_a_restart_also_in_their_latest_version(data: Path, folder: Path) -> None:
    vault = Vault(data)
    assert (vault.names(folder, TASK), vault.values(folder, TASK)) == ((), {})
    vault.put(folder, TASK, NAME, "an earlier one")
    vault.put(folder, TASK, NAME, VALUE)
    vault.put(folder, TASK, "config/host name", "x")
    again = Vault(data)
    assert again.names(folder, TASK) == (NAME, "config/host name")
    assert again.values(folder, TASK) == {NAME: VALUE, "config/host name": "x"}


def test_no_value_is_in_any_file_and_all_files_are_private(data: Path, folder: Path) -> None:
    Vault(data).put(folder, TASK, NAME, VALUE)
    files = [path for path in data.rglob("*") if path.is_file()]
    assert {path.name for path in files} == {"secrets", "vault.key"}
    for path in files:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert b"sk_live" not in path.read_bytes()


def test_the_same_value_is_encrypted_differently_each_time(data: Path, folder: Path) -> None:
    vault = Vault(data)
    for name in ("a", "b"):
        vault.put(folder, TASK, name, VALUE)
    assert entries(folder)["a"] != entries(folder)["b"]


def test_the_key_is_created_once_and_only_when_there_is_something_to_store(data: Path, folder: Path) -> None:
    vault = Vault(data)
    vault.values(folder, TASK)
    assert not (data / "vault.key").exists()
    vault.put(folder, TASK, NAME, VALUE)
    key = (data / "vault.key").read_bytes()
    Vault(data).put(folder, TASK, "other", VALUE)
    assert (data / "vault.key").read_bytes() == key


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_key_that_others_can_read_is_refused_with_the_command_that_fixes_it(
    data: Path, folder: Path, mode: int
) -> None:
    vault = Vault(data)
    vault.put(folder, TASK, NAME, VALUE)
    (data / "vault.key").chmod(mode)
    said = str(refusal(vault, folder))
    assert said.endswith(f"chmod 600 {data / 'vault.key'}")
    with pytest.raises(VaultError, match="chmod 600"):
        vault.put(folder, TASK, NAME, VALUE)
    (data / "vault.key").chmod(0o600)
    assert vault.values(folder, TASK) == {NAME: VALUE}


def test_the_service_managers_credential_takes_precedence_over_the_file(
    tmp_path: Path, data: Path, folder: Path
) -> None:
    place = credentials(tmp_path, key_text() + "\n")
    Vault(data, place).put(folder, TASK, NAME, VALUE)
    assert not (data / "vault.key").exists()
    assert Vault(data, place).values(folder, TASK) == {NAME: VALUE}
    assert refusal(Vault(data), folder).names == (NAME,)


def test_a_credential_readable_by_others_is_refused_and_a_missing_one_is_ignored(
    tmp_path: Path, data: Path, folder: Path
) -> None:
    with pytest.raises(VaultError, match="chmod 600"):
        Vault(data, credentials(tmp_path, key_text(), 0o444)).put(folder, TASK, NAME, VALUE)
    Vault(data, tmp_path / "nothing here").put(folder, TASK, NAME, VALUE)
    assert Vault(data).values(folder, TASK) == {NAME: VALUE}


def test_an_unreadable_folder_of_credentials_is_an_error_and_no_new_key_is_created(data: Path, folder: Path) -> None:
    with pytest.raises(VaultError, match="cannot be read"):
        Vault(data, data / ("n" * 300)).put(folder, TASK, NAME, VALUE)
    assert not (data / "vault.key").exists()


@pytest.mark.parametrize("text", ["", "short", "!" * 44, b64encode(b"x" * 31).decode(), b64encode(b"x" * 33).decode()])
def test_an_invalid_key_is_refused_with_the_command_that_creates_one(
    tmp_path: Path, data: Path, folder: Path, text: str
) -> None:
    with pytest.raises(VaultError, match="openssl rand -base64 32"):
        Vault(data, credentials(tmp_path, text)).put(folder, TASK, NAME, VALUE)


def test_a_key_that_is_a_link_or_a_pipe_does_not_block(data: Path, folder: Path) -> None:
    (data / "vault.key").symlink_to("/dev/zero")
    with pytest.raises(VaultError, match="cannot be read"):
        Vault(data).put(folder, TASK, NAME, VALUE)
    (data / "vault.key").unlink()
    os.mkfifo(data / "vault.key", 0o600)
    with pytest.raises(VaultError, match="not 32 bytes"):
        Vault(data).put(folder, TASK, NAME, VALUE)


def test_with_another_key_no_value_can_be_read_and_every_value_is_requested_again(data: Path, folder: Path) -> None:
    vault = Vault(data)
    for name in (NAME, "a b"):
        vault.put(folder, TASK, name, VALUE)
    (data / "vault.key").write_text(key_text())
    found = refusal(vault, folder)
    assert found.names == (NAME, "a b")
    assert f"orchestrator provide {TASK} {NAME}; orchestrator provide {TASK} 'a b'" in str(found)
    vault.put(folder, TASK, NAME, VALUE)
    assert refusal(vault, folder).names == ("a b",)


def test_a_missing_key_is_not_replaced_before_something_new_is_stored(data: Path, folder: Path) -> None:
    vault = Vault(data)
    vault.put(folder, TASK, NAME, VALUE)
    (data / "vault.key").unlink()
    found = refusal(vault, folder)
    assert (found.names, "is missing" in str(found)) == ((NAME,), True)
    assert not (data / "vault.key").exists()


def test_a_credential_that_the_service_no_longer_passes_is_named_in_the_error(
    tmp_path: Path, data: Path, folder: Path
) -> None:
    given = credentials(tmp_path, key_text())
    Vault(data, given).put(folder, TASK, NAME, VALUE)
    said = str(refusal(Vault(data), folder))
    assert "credential orchestrator-key" in said
    assert str(data / "vault.key") in said
    assert "restore the original key, or provide the lost values again" in said
    assert Vault(data, given).values(folder, TASK) == {NAME: VALUE}


def test_an_entry_moved_to_another_name_or_task_cannot_be_read(data: Path, folder: Path) -> None:
    vault = Vault(data)
    vault.put(folder, TASK, NAME, VALUE)
    vault.put(folder, TASK, "HARMLESS", "x")
    other = data / "tasks/OTHER-1"
    other.mkdir()
    shutil.copy(folder / "secrets", other)
    assert refusal(vault, other, "OTHER-1").names == ("HARMLESS", NAME)
    edit(folder, {**entries(folder), "HARMLESS": entries(folder)[NAME]})
    assert refusal(vault, folder).names == ("HARMLESS",)


@pytest.mark.parametrize("place", [0, 20, -5])
def test_one_changed_letter_is_detected(data: Path, folder: Path, place: int) -> None:
    vault = Vault(data)
    vault.put(folder, TASK, NAME, VALUE)
    letters = list(entries(folder)[NAME])
    letters[place] = "A" if letters[place] != "A" else "B"
    edit(folder, {NAME: "".join(letters)})
    assert refusal(vault, folder).names == (NAME,)


@pytest.mark.parametrize("sealed", ["", "AAAA", "no base64 ü", "QUFB" * 4])
def test_an_invalid_entry_has_to_be_provided_again(data: Path, folder: Path, sealed: str) -> None:
    vault = Vault(data)
    vault.put(folder, TASK, "good", VALUE)
    edit(folder, {**entries(folder), NAME: sealed})
    assert refusal(vault, folder).names == (NAME,)


@pytest.mark.parametrize(
    "content", [b"", b"\xff\x00", b"[]", b"{}", b'{"values": 3}', b'{"values": {"a": 1}}', b'{"values": {"\\n": "x"}}']
)
def test_a_damaged_file_is_reported_and_a_new_value_repairs_it(data: Path, folder: Path, content: bytes) -> None:
    vault = Vault(data)
    (folder / "secrets").write_bytes(content)
    assert f"provide every value of {TASK} again" in str(refusal(vault, folder))
    with pytest.raises(VaultError, match="damaged"):
        vault.names(folder, TASK)
    vault.put(folder, TASK, NAME, VALUE)
    assert vault.values(folder, TASK) == {NAME: VALUE}


def test_a_link_is_neither_read_nor_written_through(tmp_path: Path, data: Path, folder: Path) -> None:
    vault = Vault(data)
    (tmp_path / "elsewhere").write_text('{"values": {}}')
    (folder / "secrets").symlink_to(tmp_path / "elsewhere")
    assert "damaged" in str(refusal(vault, folder))
    vault.put(folder, TASK, NAME, VALUE)
    assert (tmp_path / "elsewhere").read_text() == '{"values": {}}'
    assert vault.values(folder, TASK) == {NAME: VALUE}


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("", "empty"),
        ("hush\0", "NUL"),
        ("hush\udcff", "UTF-8"),
        ("hush" * (LARGEST_VALUE // 4) + "h", "larger than 64 KiB"),
        ("ü" * (LARGEST_VALUE // 2) + "h", "larger than 64 KiB"),
    ],
)
def test_a_value_that_cannot_be_passed_on_is_refused_without_being_shown(
    data: Path, folder: Path, value: str, why: str
) -> None:
    with pytest.raises(VaultError, match=why) as caught:
        Vault(data).put(folder, TASK, NAME, value)
    assert "hush" not in str(caught.value)
    assert list(data.glob("**/secrets")) == []


@pytest.mark.parametrize("name", ["", "a\nb", "\udcff", "\x1b[2J", "n" * (LONGEST_NAME + 1)])
def test_an_unprintable_name_is_refused(data: Path, folder: Path, name: str) -> None:
    with pytest.raises(VaultError, match="one line") as caught:
        Vault(data).put(folder, TASK, name, VALUE)
    assert str(caught.value).isprintable()


def test_a_task_stores_at_most_a_hundred_of_the_largest_values(data: Path, folder: Path) -> None:
    vault = Vault(data)
    for number in range(MOST_VALUES):
        vault.put(folder, TASK, f"name {number}", "x" * LARGEST_VALUE)
    with pytest.raises(VaultError, match="cannot have more"):
        vault.put(folder, TASK, "one more", VALUE)
    vault.put(folder, TASK, "name 0", VALUE)
    assert len(vault.values(folder, TASK)) == MOST_VALUES


def test_forgotten_values_are_removed_from_the_disk_and_can_be_forgotten_again(data: Path, folder: Path) -> None:
    vault = Vault(data)
    vault.put(folder, TASK, NAME, VALUE)
    for _ in range(2):
        vault.forget(folder)
        assert list(folder.iterdir()) == []
    vault.forget(data / "tasks/NONE-1")
    assert vault.values(folder, TASK) == {}


def test_a_disk_error_is_one_of_our_errors_and_leaves_no_plain_text(data: Path, folder: Path) -> None:
    vault = Vault(data)
    with pytest.raises(VaultError, match="cannot be written"):
        vault.put(data / "tasks/NONE-1", TASK, NAME, VALUE)
    (folder / "secrets").mkdir()
    with pytest.raises(VaultError, match="cannot be written"):
        vault.put(folder, TASK, NAME, VALUE)
    with pytest.raises(VaultError, match="cannot be removed"):
        vault.forget(folder)
    assert [path.name for path in folder.iterdir()] == ["secrets"]

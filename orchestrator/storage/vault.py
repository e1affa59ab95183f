"""Values that people provide for a task's dependencies (passwords, keys, addresses …), encrypted on disk.

Each value is encrypted with AES-256-GCM. The ids of task and value are authenticated with it, so that an entry copied
to another name or task cannot be decrypted; Fernet has no place for such data. Nonces are random: one key is good for
2³² values.

The key is the service manager's credential `orchestrator-key` (systemd.exec(5), LoadCredential=), or else a file that
is created in the data folder with the first value. Only the credential protects against a copy of the data
folder; neither protects against a program with the daemon's uid. The key is read whenever it is needed and not kept in
memory.

A vault that cannot be opened never stops the daemon: the error names the values to provide again, and a new value
replaces a damaged file. No error, log line or representation contains a value.
"""

import os
import shlex
import stat
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from orchestrator.errors import OrchestratorError
from orchestrator.formats.files import parsed, read_file, sync_folder, write_atomically
from orchestrator.redaction.display import escape_text

LARGEST_VALUE = 64 * 1024
"""Bytes of UTF-8; Linux limits an environment variable to 128 KiB."""
MOST_VALUES = 100
LONGEST_NAME = 200

FILE = "secrets"
CREDENTIAL = "orchestrator-key"
_KEY_FILE = "vault.key"
_KEY_BYTES, _NONCE_BYTES = 32, 12
_NEW_KEY = f"openssl rand -base64 {_KEY_BYTES}"


class VaultError(OrchestratorError):
    """A value cannot be kept or read; `names` are those that have to be provided again."""

    def __init__(self, message: str, names: Sequence[str] = ()) -> None:
        self.names = tuple(names)
        super().__init__(message)


class Vault:
    """The values of all tasks, for one thread at a time; `credentials` is the folder in CREDENTIALS_DIRECTORY."""

    def __init__(self, data_dir: Path, credentials: Path | None = None) -> None:
        self._data_dir, self._credentials = data_dir, credentials

    def put(self, task_folder: Path, task_id: str, name: str, value: str) -> None:
        """Store a value, replacing an earlier one of that name; it is on disk when this returns.

        Raises VaultError if the name or value cannot be stored, the key cannot be used, or the disk refuses.
        """
        wrong = _wrong_with(name, value)
        if wrong:
            raise VaultError(f"{escape_text(name)!r} cannot be provided for {task_id}: {wrong}")
        key = self._key() or self._make_key()
        kept = {**(_kept(task_folder) or {}), name: _seal(key, task_id, name, value)}
        if len(kept) > MOST_VALUES:
            raise VaultError(f"{task_id} has {MOST_VALUES} provided values; it cannot have more")
        _write(task_folder / FILE, orjson.dumps({"version": 1, "values": kept}, option=orjson.OPT_INDENT_2))

    def names(self, task_folder: Path, task_id: str) -> tuple[str, ...]:
        """Return the names of a task's values, sorted. Raises VaultError if the file is damaged."""
        kept = _kept(task_folder)
        if kept is None:
            raise VaultError(
                f"{task_folder / FILE} is damaged; provide every value of {task_id} again: "
                f"orchestrator provide {shlex.quote(task_id)} NAME"
            )
        return tuple(sorted(kept))

    def values(self, task_folder: Path, task_id: str) -> Mapping[str, str]:
        """Return all values of a task by name. Raises VaultError, which names what to provide again."""
        names = self.names(task_folder, task_id)
        if not names:
            return {}
        key, kept = self._key(), _kept(task_folder) or {}
        if key is None:
            why = f"the key is missing: there is neither the service's credential {CREDENTIAL} nor {self._key_file()}"
            raise VaultError(_again(why, task_id, names), names)
        opened = {name: _open(key, task_id, name, kept.get(name, "")) for name in names}
        lost = [name for name, value in opened.items() if value is None]
        if lost:
            why = f"the key {self._key_file()} does not decrypt {task_folder / FILE}"
            raise VaultError(_again(why, task_id, lost), lost)
        return {name: value for name, value in opened.items() if value is not None}

    def forget(self, task_folder: Path) -> None:
        """Delete all values of a task. Raises VaultError if the disk refuses."""
        file = task_folder / FILE
        try:
            file.unlink(missing_ok=True)
            if task_folder.is_dir():
                sync_folder(task_folder)
        except OSError as error:
            raise VaultError(f"{file} cannot be removed: {error.strerror}; remove it by hand") from error

    def _key_file(self) -> Path:
        given = self._credentials and self._credentials / CREDENTIAL
        try:
            return given if given and given.exists() else self._data_dir / _KEY_FILE
        except OSError as error:
            raise VaultError(f"the key {given} cannot be read: {error.strerror}") from error

    def _key(self) -> bytes | None:
        """Return the key, None if there is none yet. Raises VaultError if it cannot be used."""
        file = self._key_file()
        try:
            descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise VaultError(f"the key {file} cannot be read: {error.strerror}") from error
        try:
            found = os.fstat(descriptor)
            text = os.read(descriptor, 1024) if stat.S_ISREG(found.st_mode) else b""
        finally:
            os.close(descriptor)
        # systemd grants the service's user access to a credential by an ACL, which shows as group permission (0440)
        others = stat.S_IRWXO if file.name == CREDENTIAL else stat.S_IRWXG | stat.S_IRWXO
        if found.st_mode & others:
            raise VaultError(
                f"the key {file} is readable by others and therefore not used: chmod 600 {shlex.quote(str(file))}"
            )
        return _decoded_key(text, file)

    def _make_key(self) -> bytes:
        key = AESGCM.generate_key(bit_length=8 * _KEY_BYTES)
        _write(self._data_dir / _KEY_FILE, b64encode(key) + b"\n")
        return key


def _decoded_key(text: bytes, file: Path) -> bytes:
    try:
        key = b64decode(text.strip(), validate=True)
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        raise VaultError(
            f"the key {file} is not {_KEY_BYTES} bytes in base64; restore the right one, or create a new one "
            f"({_NEW_KEY}) and provide all values again"
        )
    return key


def _wrong_with(name: str, value: str) -> str:
    """Return why a value cannot be stored, without repeating it; empty if it can."""
    if not name or not name.isprintable() or len(name) > LONGEST_NAME:
        return f"a name must be one line of at most {LONGEST_NAME} printable characters"
    if not value:
        return "the value is empty"
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        return "the value is not text; give UTF-8 without NUL bytes, or encode it, for example with base64"
    if len(value.encode()) > LARGEST_VALUE:
        return f"the value is larger than {LARGEST_VALUE // 1024} KiB; put it into a file and provide its path"
    return ""


def _again(why: str, task_id: str, names: Sequence[str]) -> str:
    commands = "; ".join(f"orchestrator provide {shlex.quote(task_id)} {shlex.quote(name)}" for name in names)
    return f"{why}; restore the original key, or provide the lost values again: {commands}"


def _belongs_to(task_id: str, name: str) -> bytes:
    return f"orchestrator value\0{task_id}\0{name}".encode()


def _seal(key: bytes, task_id: str, name: str, value: str) -> str:
    nonce = os.urandom(_NONCE_BYTES)
    return b64encode(nonce + AESGCM(key).encrypt(nonce, value.encode(), _belongs_to(task_id, name))).decode()


def _open(key: bytes, task_id: str, name: str, sealed: str) -> str | None:
    """Return the value, None if it is damaged or was not encrypted with this key for this task and name."""
    try:
        body = b64decode(sealed, validate=True)
        return AESGCM(key).decrypt(body[:_NONCE_BYTES], body[_NONCE_BYTES:], _belongs_to(task_id, name)).decode()
    except (ValueError, InvalidTag):
        return None


def _kept(task_folder: Path) -> dict[str, str] | None:
    """Return a task's encrypted values by name; None if the file is damaged."""
    file = task_folder / FILE
    try:
        content = read_file(file)
    except OSError as error:
        raise VaultError(f"{file} cannot be read: {error.strerror}") from error
    if content == b"":
        return {} if not os.path.lexists(file) else None
    values = (parsed(content or b"") or {}).get("values")
    if not isinstance(values, dict):
        return None
    kept = {name: value for name, value in values.items() if isinstance(value, str) and not _wrong_with(name, "?")}
    return kept if len(kept) == len(values) else None


def _write(file: Path, content: bytes) -> None:
    try:
        write_atomically(file, content)
    except OSError as error:
        raise VaultError(f"{file} cannot be written; nothing was stored: {error.strerror}") from error

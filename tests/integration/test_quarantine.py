"""A blocked text is stored once, readable only by its owner."""

import stat
from pathlib import Path

import orjson

from orchestrator.redaction.rules import LARGEST_TEXT, Redactor, parse_rules
from orchestrator.storage.quarantine import quarantine

BUNDLED = Redactor(parse_rules(Path("config/redaction.toml").read_text(encoding="utf-8"), "redaction.toml"))
KEY = "one\n-----BEGIN " + "PRIVATE KEY-----\n\ud800"


def test_a_blocked_text_is_stored_completely_with_the_reason_beside_it(tmp_path: Path) -> None:
    kept = quarantine(tmp_path / "data" / "quarantine", KEY, BUNDLED.scan(KEY))
    assert kept.read_bytes().decode("utf-8", "surrogatepass") == KEY
    assert orjson.loads(kept.with_suffix(".json").read_bytes()) == {
        "result": "BLOCKED",
        "bytes": len(KEY.encode("utf-8", "surrogatepass")),
        "findings": [{"rule": "private_key_pem", "line": 2}],
    }


def test_no_other_user_can_read_it(tmp_path: Path) -> None:
    kept = quarantine(tmp_path / "quarantine", KEY, BUNDLED.scan(KEY))
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept.parent.iterdir()} == {0o600}


def test_the_same_text_is_stored_once_and_another_beside_it(tmp_path: Path) -> None:
    large = "a" * (LARGEST_TEXT + 1)
    first, second = (quarantine(tmp_path, KEY, BUNDLED.scan(KEY)) for _ in range(2))
    other = quarantine(tmp_path, large, BUNDLED.scan(large))
    assert first == second
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".json", ".txt", ".txt"]
    assert other.stat().st_size == LARGEST_TEXT + 1


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    kept = quarantine(tmp_path / "quarantine", KEY, BUNDLED.scan(KEY))
    kept.unlink()
    kept.symlink_to(tmp_path / "elsewhere")
    assert quarantine(kept.parent, KEY, BUNDLED.scan(KEY)) == kept
    assert not kept.is_symlink()
    assert not (tmp_path / "elsewhere").exists()

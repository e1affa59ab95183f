"""Who asked for something, in people's words."""

import pytest

from orchestrator.formats.person import person_name


@pytest.mark.parametrize(
    ("record", "name"),
    [
        ("root uid:0 pid:4711", "root"),
        ("ada lovelace uid:1000 pid:4711", "ada lovelace"),
        ("4242 uid:4242 pid:1", "4242"),
        ("ada uid:1000 pid:4711 agent:2", "agent 2 of ada"),
        ("ann uid:1000", "ann"),
        ("browser:ada", "browser:ada"),
        ("schedule nightly", "schedule nightly"),
        ("uid:0 pid:1", "uid:0 pid:1"),
        ("x" * 300 + " uid:0 pid:1", "x" * 300 + " uid:0 pid:1"),
        ("", ""),
    ],
)
def test_a_record_of_who_asked_becomes_a_name(record: str, name: str) -> None:
    assert person_name(record) == name

"""A command and a daemon of different versions: which is older is said, and what to do."""

import pytest

from orchestrator.server.versions import difference


@pytest.mark.parametrize(
    ("ours", "daemons", "said"),
    [
        ("0.2.0", "0.2.0", ""),
        ("0.2.0", "0.1.9", "the daemon is older; restart it"),
        ("0.10.0", "0.9.0", "the daemon is older; restart it"),
        ("0.1.0", "", "the daemon is older; restart it"),
        ("0.2.0", "1.0", "the command is older"),
    ],
)
def test_the_older_one_is_named(ours: str, daemons: str, said: str) -> None:
    assert said in difference(ours, daemons)
    assert bool(difference(ours, daemons)) == bool(said)

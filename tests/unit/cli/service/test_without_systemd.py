"""On a machine without systemd, as in a container, plans can be seen and nothing can be done."""

from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from orchestrator.cli.app import build_app
from orchestrator.cli.service import scope


@pytest.fixture(autouse=True)
def container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scope, "BOOTED", tmp_path / "none")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


@pytest.mark.parametrize(("whose", "folder"), [("--user", "systemd/user"), ("--system", "/etc/systemd/system")])
def test_a_plan_is_shown_and_says_that_systemd_does_not_run(whose: str, folder: str) -> None:
    words = ["service", "install", "--dry-run", whose]
    done = CliRunner().invoke(build_app(words), words)
    assert done.exit_code == 0
    assert f"{folder}/orchestrator.service" in done.stdout
    assert "systemd does not run here" in done.stderr


def test_where_nothing_is_installed_there_is_nothing_to_undo() -> None:
    words = ["service", "uninstall", "--dry-run", "--user"]
    done = CliRunner().invoke(build_app(words), words)
    assert (done.exit_code, done.stdout) == (0, "")
    assert "nothing of `orchestrator service install --user` is here, so there is nothing to undo" in done.stderr
    plan = CliRunner().invoke(build_app(words), [*words, "--json"])
    assert (plan.exit_code, orjson.loads(plan.stdout)["done"]) == (0, False)


def test_an_installation_is_refused(tmp_path: Path) -> None:
    words = ["service", "install", "--user", "--yes"]
    done = CliRunner().invoke(build_app(words), words)
    assert isinstance(done.exception, scope.ServiceRefused)
    assert list(tmp_path.iterdir()) == []

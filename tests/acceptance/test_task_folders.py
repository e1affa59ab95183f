"""What one task's agent leaves in the CLI's folder reaches no other task, and the login stays everybody's."""

import json
import os
from pathlib import Path

import pytest

from orchestrator.agents.claude_folder import LOGIN
from orchestrator.daemon.isolation import usable_program
from orchestrator.pipelines.bundled import Kind, bundled
from orchestrator.processes.sandbox.bubblewrap import probe_offline
from orchestrator.settings.settings import Settings
from tests.acceptance.claude_harness import ClaudeHarness
from tests.acceptance.claude_roles import Roles, bash, running_first
from tests.acceptance.harness import ISOLATION, refused, toml
from tests.fakes.account_server import AccountServer
from tests.fakes.scripted_model import ScriptedModel

pytestmark = pytest.mark.claude


def settings_with(mark: str) -> str:
    """The CLI's settings that give its commands a variable."""
    return json.dumps({"env": {"MARK": mark}})


def test_what_an_agent_leaves_for_later_agents_stays_in_its_task(claude: Path, tmp_path: Path) -> None:
    users, marks = tmp_path / "claude", tmp_path / "marks"
    users.mkdir()
    (users / "settings.json").write_text(settings_with("the user's"))
    plants = f"echo $MARK >> '{marks}'; echo '{settings_with('planted')}' > $CLAUDE_CONFIG_DIR/settings.json"
    with ClaudeHarness(claude, tmp_path, running_first(plants, "ANALYSIS")) as harness:
        tasks = [harness.end_of(harness.submit(again=True)) for _ in range(2)]
        assert marks.read_text().splitlines() == ["the user's"] * 2
        for task in tasks:
            assert list(Path(task.folder).glob("claude/projects/*/*.jsonl")), "its transcripts lie in its folder"
        assert (users / "settings.json").read_text() == settings_with("the user's")
        assert not (users / "projects").exists()
        harness.client.delete(tasks[0].id)
        assert not Path(tasks[0].folder).exists()


def test_the_commands_of_a_role_without_a_network_have_none_and_the_cli_has(
    claude: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, _ = usable_program(Settings(), os.environ)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    roles, seen = tmp_path / "config/orchestrator/agents", tmp_path / "seen"
    roles.mkdir(parents=True)
    planner = (bundled(Kind.AGENTS) / "planner.md").read_text()
    (roles / "planner.md").write_text(planner.replace("tier: deep", "tier: deep\nnetwork: false"))
    look = bash(f"readlink /proc/self/ns/net >> '{seen}'")
    with ClaudeHarness(claude, tmp_path, Roles(before={"ANALYSIS": look, "IMPLEMENTATION 1": look})) as harness:
        if program is None or ISOLATION == "none" or probe_offline(program):
            with refused("refused", "the role planner must have no network"):
                harness.submit()
            return
        harness.end_of(harness.submit())
    without, with_network = seen.read_text().splitlines()
    assert without != with_network == str(Path("/proc/self/ns/net").readlink())


class LoggedIn(ClaudeHarness):
    """The user is logged in with a subscription, and the login must be renewed."""

    def __init__(self, claude: Path, root: Path, model: ScriptedModel) -> None:
        super().__init__(claude, root, model)
        self.certificates = root / "certificates"
        self.certificates.mkdir()
        self.account = AccountServer(self.certificates, self.api.url)

    def _write_settings(self) -> None:
        (self.root / "claude").mkdir()
        (self.root / "claude" / LOGIN).write_text(json.dumps(self.account.expired_login))
        env = {**self.account.env, "CLAUDE_CONFIG_DIR": str(self.root / "claude")}
        agent = {"executable": str(self._claude), "env": env, "writable": [str(self.certificates)]}
        settings = {"isolation": ISOLATION, "data_dir": str(self.data), **self._settings, "agent": agent}
        (self.root / "orchestrator.toml").write_text(toml(settings), encoding="utf-8")

    @property
    def login(self) -> dict[str, object]:
        """What the user's own CLI knows of the login."""
        return dict(json.loads((self.root / "claude" / LOGIN).read_text())["claudeAiOauth"])


def test_a_login_that_an_agent_renewed_serves_every_agent_and_the_user(claude: Path, tmp_path: Path) -> None:
    harness = LoggedIn(claude, tmp_path, Roles())
    with harness.account as account, harness:
        harness.end_of(harness.submit())
        harness.until(lambda: harness.login["refreshToken"] == account.valid, "the user has the renewed login")
        assert account.renewals == 1
        assert set(account.tokens) == {"access-1"}

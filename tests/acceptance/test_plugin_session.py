"""A session of the real claude CLI with the installed plugin hands work to a daemon, and asks how it is doing."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.cli.plugin.installer import install
from orchestrator.cli.plugin.plugin import OF_PROJECT, OF_USER
from tests.acceptance.harness import DaemonHarness, Json
from tests.fakes.messages_api import MessagesApi
from tests.fakes.scripted_model import Reply, Say, Scene, ScriptedModel, Use

pytestmark = pytest.mark.claude
PATIENCE = 120.0  # seconds
GIVEN = "ARGUMENTS: "
"""What the CLI puts before the arguments of a command."""


class Session:
    """Sessions of a user who has the plugin; `orchestrator` on their PATH speaks to the harness's daemon."""

    def __init__(self, claude: Path, harness: DaemonHarness, below: str = OF_USER) -> None:
        self._claude, self._repo, self._home = claude, harness.repo, harness.root / "home"
        (self._home / "bin").mkdir(parents=True)
        program = self._home / "bin/orchestrator"
        options = ["--config", str(harness.root / "orchestrator.toml"), "--data-dir", str(harness.data)]
        program.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, "-m", "orchestrator", *options])} "$@"\n')
        program.chmod(0o755)
        trusted = {"projects": {str(self._repo): {"hasTrustDialogAccepted": True}}}
        (self._home / ".claude.json").write_text(json.dumps(trusted))
        install(self._home if below == OF_USER else self._repo, below)

    def __call__(self, prompt: str, model: ScriptedModel) -> list[Scene]:
        """Say one thing in a new session; return every call to the model."""
        with MessagesApi(model) as api:
            env = {**os.environ, **api.env, "HOME": str(self._home), "CLAUDE_CONFIG_DIR": str(self._home)}
            env["PATH"] = f"{self._home / 'bin'}:{env['PATH']}"
            done = subprocess.run(
                [self._claude, "-p", prompt], cwd=self._repo, env=env, stdin=subprocess.DEVNULL,
                capture_output=True, text=True, timeout=PATIENCE, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stdout + done.stderr
            return api.scenes


def submitting(repo: Path) -> ScriptedModel:
    """A model that does what `/orchestrator:submit` says with a text."""

    def model(scene: Scene) -> Reply:
        text = scene.prompt.partition(GIVEN)[2]
        folder = scene.results[0].text.strip() if scene.results else ""
        submit = f"orchestrator submit --file {folder}/ticket.md --repo {shlex.quote(str(repo))}"
        replies: list[Callable[[], Reply]] = [
            lambda: Use("Bash", {"command": "mktemp -d -t orchestrator.XXXXXX"}),
            lambda: Use("Write", {"file_path": f"{folder}/ticket.md", "content": text}),
            lambda: Use("Bash", {"command": submit}),
            lambda: Say(f"Submitted: {scene.results[-1].text}"),
        ]
        return replies[min(scene.step, len(replies) - 1)]()

    return model


def only_task(harness: DaemonHarness) -> Json:
    (task,) = harness.request("GET", "/api/tasks")["tasks"]
    return harness.request("GET", f"/api/tasks/{task['id']}")


@pytest.mark.parametrize("below", [OF_USER, OF_PROJECT])
def test_a_hostile_text_is_submitted_as_it_is_and_runs_nothing(claude: Path, tmp_path: Path, below: str) -> None:
    planted = tmp_path / "planted"
    hostile = (
        f"Fix 'it'; touch {planted} \"$(touch {planted})\" `touch {planted}` $1 && !`touch {planted}`\nARGUMENTS: x"
    )
    with DaemonHarness(tmp_path, scenario={"ANALYSIS": [{"wait_for": str(tmp_path / "never")}]}) as harness:
        session = Session(claude, harness, below)
        scenes = session(f"/orchestrator:submit {hostile}", submitting(harness.repo))
        assert [result.ok for scene in scenes for result in scene.results[scene.step - 1 :]] == [True] * 3
        said = scenes[0].prompt.partition(GIVEN)[2]
        assert said.replace("\\! `", "!`") == hostile
        assert only_task(harness)["title"].startswith("Fix 'it'; touch")
        assert (harness.folder(only_task(harness)["id"]) / "ticket.json").read_text().count(str(planted)) >= 4
        assert not planted.exists()


def test_the_status_is_in_the_prompt_and_names_the_task(claude: Path, tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, scenario={"ANALYSIS": [{"wait_for": str(tmp_path / "never")}]}) as harness:
        task = harness.submit()
        harness.wait_until_it_works(task, "ANALYSIS")
        session = Session(claude, harness)
        (scene, *_) = session("/orchestrator:status", lambda _: Say("It runs."))
        assert "1 of 1 taken" in scene.prompt
        assert task in scene.prompt
        harness.kill()
        (scene, *_) = session("/orchestrator:status", lambda _: Say("It does not answer."))
        assert "error: " in scene.prompt

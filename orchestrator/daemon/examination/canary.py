"""A canary turn: the CLI makes one small turn with the login, the model and the stream that agents use tonight."""

import subprocess
import tempfile
from collections.abc import Iterator
from shlex import quote

from orchestrator.agents.claude import Parser
from orchestrator.agents.drivers import CLAUDE_ENV, inherited
from orchestrator.agents.installation import ClaudeBroken, ClaudeMissing, dotted, find_claude
from orchestrator.core.events.agent_events import Outcome, SessionOpened, TurnResult
from orchestrator.daemon.inspection.doctor_checks import DoctorFinding, Environment, Level
from orchestrator.redaction.display import escape_text
from orchestrator.settings.settings import Settings

NAME = "canary"
PROMPT = "Answer with the one word: ready"
PATIENCE = 120.0
"""Seconds that the turn may take."""
MOST_BYTES = 1024 * 1024
UNFIT = "install the version that was tested: pip install 'claude-agent-sdk==0.2.186'"


def make_canary_turn(settings: Settings, variables: Environment) -> Iterator[DoctorFinding]:
    """Let the CLI make a turn, and say what came of it and what it cost. Blocks, and spends some cents."""
    if settings.agent.driver != "claude":
        return
    try:
        executable = find_claude(settings.agent.executable, variables.get("PATH"))
    except ClaudeMissing as error:
        yield DoctorFinding(name=NAME, level=Level.BAD, text=str(error), mend=UNFIT)
        return
    model = settings.agent.tiers.fast or settings.agent.model
    argv = [
        str(executable),
        "-p",
        "--output-format=stream-json",
        "--verbose",
        "--max-turns=1",
        "--tools=",
        "--strict-mcp-config",
        "--no-session-persistence",
        f"--setting-sources={settings.agent.setting_sources}",
        *([f"--model={model}"] if model else []),
        PROMPT,
    ]
    env = {**inherited(variables, settings.agent.pass_env), **CLAUDE_ENV, **settings.agent.env}
    try:
        output = _run(argv, env)
    except ClaudeBroken as error:
        mend = f"{quote(str(executable))} -p {quote(PROMPT)}"
        yield DoctorFinding(name=NAME, level=Level.BAD, text=str(error), mend=mend)
        return
    yield _judged(output, f"{quote(str(executable))} auth login")


def _run(argv: list[str], env: Environment) -> bytes:
    with tempfile.TemporaryDirectory(prefix="orchestrator-canary-") as folder:
        try:
            done = subprocess.run(
                argv,
                env=dict(env),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ClaudeBroken(f"the canary turn did not end within {PATIENCE:.0f} s") from None
        except OSError as error:
            raise ClaudeBroken(f"{argv[0]} cannot be started: {error.strerror}") from error
    if not done.stdout.strip():
        said = escape_text(done.stderr.decode("utf-8", "replace").strip(), 300)
        raise ClaudeBroken(f"the canary turn ended with exit code {done.returncode} and said: {said or 'nothing'}")
    return done.stdout[:MOST_BYTES]


def _judged(output: bytes, login: str) -> DoctorFinding:
    """Judge what the CLI wrote, read as an agent's output is."""
    parser = Parser()
    events = [event for line in output.splitlines() for event in parser.parse(line)]
    opened = next((one for one in events if isinstance(one, SessionOpened)), None)
    turn = next((one for one in events if isinstance(one, TurnResult)), None)
    if opened is None or turn is None:
        text = "the CLI wrote no beginning or no end of a turn that this program knows: its stream has changed"
        return DoctorFinding(name=NAME, level=Level.BAD, text=text, mend=UNFIT)
    cost = f"it cost ${turn.cost_usd:.4f}"
    if turn.outcome is not Outcome.OK:
        text = f"the turn failed: {escape_text(turn.text or turn.reason, 300)}; {cost}"
        return DoctorFinding(name=NAME, level=Level.BAD, text=text, mend=login)
    version = opened.version or dotted((0, 0, 0))
    return DoctorFinding(name=NAME, level=Level.OK, text=f"claude {version} made a turn with {opened.model}; {cost}")

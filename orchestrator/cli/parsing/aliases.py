"""What people type who know git, docker, kubectl, systemctl or gh: the command that is meant, or what to type instead.

A word becomes another command only if it means the same and does no more than was asked; every other word is
answered with the commands to choose from.
"""

from collections.abc import Container, Sequence

from orchestrator.cli.parsing.errors import UsageError
from orchestrator.cli.parsing.hints import expand_within

ALIASES: dict[str, tuple[str, ...]] = {
    "schedules": ("schedule", "list"),
    "cron": ("schedule", "list"),
    "channels": ("notify", "list"),
    "notices": ("notify", "log"),
    "timers": ("schedule", "list"),
    "list-timers": ("schedule", "list"),
    "inbox": ("intake",),
    "df": ("disk",),
    "du": ("disk",),
    "health": ("status",),
    "ping": ("status",),
    "unblock": ("retry",),
    "windows": ("limits",),
    "list": ("tasks",),
    "ls": ("tasks",),
    "ps": ("tasks",),
    "search": ("tasks", "--search"),
    "find": ("tasks", "--search"),
    "describe": ("show",),
    "inspect": ("show",),
    "view": ("show",),
    "log": ("logs",),
    "tail": ("logs", "--follow"),
    "attach": ("logs", "--follow"),
    "rm": ("delete",),
    "remove": ("delete",),
    "abort": ("cancel",),
    "unpause": ("resume",),
    "continue": ("resume",),
    "freeze": ("pause",),
    "thaw": ("resume",),
    "reply": ("answer",),
    "accept": ("approve",),
    "top": ("watch",),
    "stats": ("watch",),
    "monitor": ("watch",),
    "browse": ("open",),
    "ui": ("open",),
    "web": ("open",),
    "queue": ("status",),
    "usage": ("limits",),
    "cost": ("limits",),
    "checkpoint": ("checkpoints",),
    "validate": ("check",),
    "settings": ("check", "--settings"),
    "daemon": ("serve",),
    "man": ("help",),
    "docs": ("help",),
}
"""Commands under other names; they are not listed."""

ANSWERS = {
    "run": "`orchestrator submit TEXT` gives it work, `orchestrator serve` runs the daemon",
    "new": "`orchestrator submit TEXT` makes a task, with --draft one that does not start yet",
    "create": "`orchestrator submit TEXT` makes a task, with --draft one that does not start yet",
    "add": "`orchestrator submit TEXT` adds a task",
    "do": "`orchestrator submit TEXT` gives it work",
    "init": "nothing has to be initialised: `orchestrator doctor` says what is missing, `orchestrator submit TEXT` in "
    "a git repository gives it work, `orchestrator state init` makes a state.json without a daemon",
    "clone": "`orchestrator submit TEXT --repo URL` clones a repository and works there",
    "diff": "`orchestrator show TASK` names the branch, and the command for the changes while they are under review; "
    "`orchestrator open` shows them in a browser",
    "exec": "nobody works beside an agent: `orchestrator logs TASK -f` shows what it does, "
    "`orchestrator show TASK` names its worktree",
    "ssh": "nobody works beside an agent: `orchestrator logs TASK -f` shows what it does",
    "restart": "`orchestrator retry TASK` tries a blocked or failed task again; the daemon is restarted by whoever "
    "started it, as with `systemctl --user restart orchestrator`, and its agents outlive that",
    "reload": "nothing has to be reloaded: the daemon takes over changed settings by itself, "
    "and `orchestrator check` shows what is wrong in them",
    "up": "`orchestrator serve` runs the daemon; `orchestrator service install` makes it a service",
    "down": "`orchestrator drain` ends all agents and keeps their sessions; then stop the daemon as it was started",
    "enable": "`orchestrator service install` makes the daemon a service",
    "disable": "`orchestrator service uninstall` removes the service of the daemon; tasks stay",
    "install": "`orchestrator service install` makes the daemon a service, "
    "`orchestrator plugin install` is for Claude Code",
    "config": "the settings are in orchestrator.toml: `orchestrator check` validates them, "
    "`orchestrator check --settings` shows each with where it comes from, `orchestrator help settings` explains them",
    "login": "`orchestrator doctor` says whether the account is logged in, and prints the command that does it",
    "logout": "`orchestrator doctor` says which account is used",
    "auth": "`orchestrator doctor` says whether the account is logged in; "
    "`orchestrator token` is for programs over TCP",
    "reject": "`orchestrator request-changes TASK -m TEXT` sends work back, "
    "`orchestrator provide TASK NAME --reject REASON` refuses what an agent asks for",
    "pr": "`orchestrator review TASK` handles new comments on a pull request, `orchestrator merge TASK` merges it",
    "push": "`orchestrator merge TASK` merges a pull request; `publish` in [forge] says whether branches are pushed "
    "(`orchestrator help delivery`)",
    "undo": "`orchestrator checkpoints list TASK` lists saved work, `orchestrator checkpoints restore` restores it",
    "wait": "`orchestrator submit TEXT --wait` waits for its end, `orchestrator logs TASK -f` follows it until then",
    "edit": "`orchestrator submit --task TASK` changes a draft, `orchestrator budget TASK` the caps of any task",
    "journalctl": "`orchestrator service logs` shows the daemon's log, `orchestrator logs TASK` what an agent says, "
    "`orchestrator events` what happens to tasks",
    "journal": "`orchestrator events TASK --since 0` lists every decision about a task, `orchestrator service logs` "
    "shows the daemon's log",
    "systemctl": "`orchestrator service` is for the service of the daemon",
    "issue": "`orchestrator submit OWNER/REPO#12` takes an issue, `orchestrator tasks` lists tasks",
    "issues": "`orchestrator submit --issues SOURCE` takes several issues, `orchestrator tasks` lists tasks",
    "branch": "`orchestrator show TASK` names the branch of a task; git does the rest",
    "checkout": "`orchestrator show TASK` names the branch and the worktree of a task; git does the rest",
    "commit": "agents commit; `orchestrator show TASK` lists the commits of each step",
    "stash": "`orchestrator checkpoints list TASK` lists the work that is saved by itself",
    "rollback": "`orchestrator checkpoints list TASK` lists saved work, `orchestrator checkpoints restore` restores it",
    "save": "`orchestrator backup FILE` saves everything, `orchestrator checkpoints list TASK` lists the saved work of "
    "one task",
    "whoami": "`orchestrator doctor` says whether the account is logged in, `orchestrator token list` who may ask over "
    "TCP",
    "apply": "`orchestrator submit --file FILE` gives it work, `orchestrator check` validates settings",
    "scale": "`max_agents` in orchestrator.toml says how many agents may run: `orchestrator help settings`",
    "api": "`orchestrator help api` describes the API; every command that shows something takes --json",
    "update": "`orchestrator service upgrade` installs a new version and restarts the service",
    "uninstall": "`orchestrator service uninstall` removes the service, `orchestrator plugin uninstall` the plugin",
    "shutdown": "`orchestrator drain` ends all agents and keeps their sessions; then stop the daemon as it was started",
    "history": "`orchestrator events TASK --since 0` lists what happened, `orchestrator show TASK` where it stands",
}
"""Words that may mean several things, or something that is not needed, and what to type instead."""

KINDS = frozenset({"task", "tasks", "pod", "pods", "job", "jobs"})
"""What kubectl wants named after `get` and `describe`."""

_WITH_VALUE = frozenset({"--data-dir", "--config", "--socket", "--output", "-o"})


def expand(arguments: Sequence[str], commands: Container[str], pages: Container[str] = ()) -> list[str]:
    """Return the arguments with the command that is meant, without one those that show the help.

    Raises UsageError for a word that needs a choice.
    """
    at = _command_at(arguments)
    if at is None:
        return [*arguments, "--help"]
    before, word, after = arguments[:at], arguments[at], arguments[at + 1 :]
    if word == "status" and _command_at(after) is not None:
        return [*before, "show", *after]
    if word == "help" and after and after[0] not in pages:
        topic = expand(after, commands)
        return [*before, *topic, "--help"] if topic[0] in commands else [*arguments]
    if word in commands:
        return [*before, word, *expand_within(word, after)]
    if word in ANSWERS:
        raise UsageError(f"there is no command {word!r}: {ANSWERS[word]}")
    if word in {"get", "describe", "info"}:
        return [*before, *_looked_up(word, after)]
    return [*before, *ALIASES.get(word, (word,)), *after]


def _looked_up(word: str, after: Sequence[str]) -> list[str]:
    """Return the command that shows one task if one is named, else all of them."""
    rest = [*after[1:]] if after and after[0] in KINDS else [*after]
    named = _command_at(rest) is not None
    return ["show" if named else "status" if word == "info" else "tasks", *rest]


def _command_at(arguments: Sequence[str]) -> int | None:
    """Return where the first word is that is no option and no value of one."""
    skips = False
    for at, word in enumerate(arguments):
        if skips:
            skips = False
        elif word.startswith("-"):
            skips = word in _WITH_VALUE
        else:
            return at
    return None

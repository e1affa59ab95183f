"""The table of commands: where each one is, and what the list of commands shows of it."""

from typing import NamedTuple


class Entry(NamedTuple):
    """A command: the module with the function or group of its name, and what the list of commands shows.

    Commands without a panel are not listed.
    """

    module: str
    summary: str
    example: str
    panel: str


COMMANDS = {
    "demo": Entry(
        "demo.demo", "Watch one ticket go through everything, without an account.", "orchestrator demo", "Begin here"
    ),
    "doctor": Entry(
        "commands.doctor", "Check what would stop an unattended night.", "orchestrator doctor", "Begin here"
    ),
    "check": Entry(
        "commands.definitions",
        "Validate settings, pipelines and roles.",
        "orchestrator check ~/.config/orchestrator",
        "Begin here",
    ),
    "graph": Entry(
        "commands.definitions", "Draw a pipeline.", "orchestrator graph full --format mermaid", "Begin here"
    ),
    "simulate": Entry(
        "commands.simulate",
        "Simulate a week of work, in seconds.",
        "orchestrator simulate --tasks 60",
        "Begin here",
    ),
    "help": Entry("commands.help", "Read a page of the documentation.", "orchestrator help checks", "Begin here"),
    "submit": Entry(
        "commands.submit",
        "Submit a ticket.",
        "orchestrator submit 'Add a --json flag to list' --check test='pytest -q'",
        "Tasks",
    ),
    "import": Entry(
        "commands.submit",
        "Take over a workspace that was begun without a daemon.",
        "orchestrator import .coding-agent/tickets/STABLE-1234_20260528_120000",
        "Tasks",
    ),
    "tasks": Entry("commands.show", "List tasks, newest first.", "orchestrator tasks --status in_progress", "Tasks"),
    "show": Entry("commands.show", "Show one task in full.", "orchestrator show ABC-123", "Tasks"),
    "why": Entry("commands.show", "Explain why a task waits.", "orchestrator why ABC-123", "Tasks"),
    "logs": Entry("commands.streams", "Read an agent's transcript.", "orchestrator logs ABC-123 -f", "Tasks"),
    "checkpoints": Entry(
        "commands.checkpoints",
        "List and restore saved work.",
        "orchestrator checkpoints list ABC-123",
        "Tasks",
    ),
    "pause": Entry("commands.control", "Pause a task.", "orchestrator pause ABC-123", "Tasks"),
    "resume": Entry("commands.control", "Resume a paused task.", "orchestrator resume ABC-123", "Tasks"),
    "transition": Entry(
        "commands.control",
        "Force a task into a stage.",
        "orchestrator transition ABC-123 PLANNING --force --reason 'the plan was lost'",
        "Tasks",
    ),
    "cancel": Entry("commands.control", "Cancel a task.", "orchestrator cancel ABC-123", "Tasks"),
    "retry": Entry("commands.control", "Retry the stage of a blocked task.", "orchestrator retry ABC-123", "Tasks"),
    "budget": Entry("commands.control", "Set a task's budget.", "orchestrator budget ABC-123 --usd 20", "Tasks"),
    "download": Entry(
        "commands.publish", "Download what a task made as a ZIP archive.", "orchestrator download ABC-123", "Tasks"
    ),
    "archive": Entry("commands.publish", "Archive an ended task.", "orchestrator archive ABC-123", "Tasks"),
    "delete": Entry("commands.publish", "Delete a draft or an ended task.", "orchestrator delete ABC-123", "Tasks"),
    "answer": Entry(
        "commands.respond", "Answer an agent's question.", "orchestrator answer ABC-123 SQLite", "Your part"
    ),
    "provide": Entry(
        "commands.respond", "Provide what an agent needs.", "orchestrator provide ABC-123 API_KEY", "Your part"
    ),
    "approve": Entry("commands.respond", "Approve work under review.", "orchestrator approve ABC-123", "Your part"),
    "request-changes": Entry(
        "commands.respond",
        "Send work under review back.",
        "orchestrator request-changes ABC-123 -m 'Shorter, please'",
        "Your part",
    ),
    "review": Entry(
        "commands.publish", "Handle new review comments on a pull request.", "orchestrator review ABC-123", "Your part"
    ),
    "merge": Entry("commands.publish", "Merge a task's pull request.", "orchestrator merge ABC-123", "Your part"),
    "serve": Entry("commands.serve", "Run the daemon in the foreground.", "orchestrator serve", "The daemon"),
    "service": Entry(
        "service.service",
        "Install, upgrade and remove the service of systemd.",
        "sudo orchestrator service install",
        "The daemon",
    ),
    "status": Entry(
        "commands.status", "Show the daemon, its queue and running agents.", "orchestrator status", "The daemon"
    ),
    "watch": Entry("commands.watch", "Watch everything on one live screen.", "orchestrator watch", "The daemon"),
    "events": Entry("commands.streams", "List what happens to tasks.", "orchestrator events -f", "The daemon"),
    "open": Entry("access.browser", "Open the pages in a browser.", "orchestrator open", "The daemon"),
    "report": Entry(
        "reports.report",
        "Read what happened since a time, as in the morning.",
        "orchestrator report --since 22:00",
        "The daemon",
    ),
    "limits": Entry("commands.status", "Show usage windows and the day's budget.", "orchestrator limits", "The daemon"),
    "schedule": Entry(
        "schedules.schedule",
        "Submit tasks again and again.",
        "orchestrator schedule add '0 22 * * 1-5' 'Remove dead code'",
        "The daemon",
    ),
    "intake": Entry("intake.listing", "Show what came in by itself.", "orchestrator intake --refused", "The daemon"),
    "notify": Entry(
        "notify.notify",
        "Test how you are told, and see what was.",
        "orchestrator notify test",
        "The daemon",
    ),
    "disk": Entry(
        "disk.disk", "Show what takes disk space, and what will be removed.", "orchestrator disk", "The daemon"
    ),
    "prune": Entry(
        "disk.prune", "Remove files of ended tasks.", "orchestrator prune --dry-run --older-than 30d", "The daemon"
    ),
    "backup": Entry(
        "backup.backup",
        "Back up the data folder while the daemon works.",
        "orchestrator backup /mnt/other-disk/orchestrator.tar.zst",
        "The daemon",
    ),
    "restore": Entry(
        "backup.backup",
        "Restore a backup into an empty folder.",
        "orchestrator restore orchestrator.tar.zst --data-dir ~/restored",
        "The daemon",
    ),
    "drain": Entry(
        "commands.control",
        "End all agents before a restart; their sessions are kept.",
        "orchestrator drain",
        "The daemon",
    ),
    "metrics": Entry(
        "monitoring.metrics",
        "Show metrics, and print rules and a dashboard for them.",
        "orchestrator metrics rules | sudo tee /etc/prometheus/orchestrator.rules.yaml",
        "For programs",
    ),
    "state": Entry(
        "commands.state",
        "Read and change a state.json.",
        "orchestrator state get work/ABC-12",
        "For programs",
    ),
    "token": Entry(
        "access.token",
        "Say which programs may ask over TCP.",
        "orchestrator token create phone --scope view",
        "For programs",
    ),
    "plugin": Entry(
        "plugin.plugin",
        "Install commands for Claude Code sessions.",
        "orchestrator plugin install",
        "For programs",
    ),
    "mcp": Entry(
        "assistants.mcp",
        "Give an assistant the tools of this daemon.",
        "claude mcp add orchestrator -- orchestrator mcp",
        "For programs",
    ),
    "schema": Entry(
        "commands.definitions", "Print a JSON Schema for editors.", "orchestrator schema state", "For programs"
    ),
    "completion": Entry(
        "parsing.completion",
        "Complete commands and ids in your shell.",
        'eval "$(orchestrator completion bash)"',
        "For programs",
    ),
    "version": Entry("parsing.completion", "Print the version.", "orchestrator version", "For programs"),
    "start": Entry("tasks.choice", "Have a task go on.", "orchestrator start ABC-123", ""),
    "stop": Entry("tasks.choice", "Pause or cancel a task.", "orchestrator stop ABC-123", ""),
    "kill": Entry("tasks.choice", "Pause or cancel a task.", "orchestrator kill ABC-123", ""),
}

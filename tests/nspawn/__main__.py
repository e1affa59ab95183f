"""Try the service under a booted systemd.

    python -m tests.nspawn boot             build the machine if there is none (a minute), and boot it
    python -m tests.nspawn try [NAME …]     run all scenarios in their order (half an hour), or some
    python -m tests.nspawn enter [COMMAND]  a shell in the machine, or a command
    python -m tests.nspawn stop             power it off; its files stay

Without root or systemd-nspawn it says so and ends with exit code 77, which means skipped. The files are in
/var/tmp/orchestrator-nspawn, or in $ORCHESTRATOR_NSPAWN.
"""

import os
import sys
from collections.abc import Callable, Mapping

from tests.nspawn import backups, notices, people, power, scenarios, schedules
from tests.nspawn.machine import boot, build, entering, obstacle, stop
from tests.nspawn.scenarios import say

SKIPPED = 77
SCENARIOS: Mapping[str, Callable[[], None]] = {
    one.__name__: one
    for one in (
        *(scenarios.install, scenarios.score, scenarios.prepare, scenarios.sandbox, scenarios.reload),
        *(scenarios.bites, scenarios.upgrade, scenarios.warnings, scenarios.of_user),
        *(schedules.schedules, schedules.commands, schedules.missed, schedules.zones),
        *(notices.notices, notices.dead_channel, notices.morning_report),
        *(backups.daily_backup, backups.backup_and_restore, backups.later_format),
        *(people.people, people.several, power.power_cuts),
        scenarios.uninstall,
    )
}
"""In their order: the service is installed first and removed last."""


def main(arguments: list[str]) -> int:
    """Do what the arguments say, and return the exit code."""
    if why := obstacle():
        say("SKIPPED: nothing was tried", why)
        return SKIPPED
    match arguments:
        case ["boot"]:
            build()
            boot()
        case ["stop"]:
            stop()
        case ["enter", *command]:
            words = entering(*(command or ["bash", "-l"]))
            os.execvp(words[0], words)  # noqa: S606 - a command of who asks
        case ["try", *names] if set(names) <= set(SCENARIOS):
            build()
            boot()
            for name in names or SCENARIOS:
                SCENARIOS[name]()
        case _:
            say(str(__doc__))
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""How a holder starts its agent: in a process group of its own, with three pipes and its own environment."""
# pathlib takes 6 ms to import, and every run starts a holder:
# ruff: noqa: PTH118, PTH123

from __future__ import annotations

import errno
import os

from orchestrator.processes import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal  # the C half: `signal` itself imports enum, half as long as the interpreter takes to start

IGNORED = (_signal.SIGHUP, _signal.SIGINT, _signal.SIGTERM, _signal.SIGTSTP)
BACK_TO_DEFAULT = (*IGNORED, _signal.SIGPIPE, _signal.SIGXFSZ)  # the last two are ignored by the interpreter itself


class Ends:
    """The holder's ends of the agent's pipes."""

    __slots__ = ("errors", "input", "output")

    def __init__(self, input_: int | None, output: int, errors: int) -> None:
        self.input, self.output, self.errors = input_, output, errors


def launch(spec: files.Spec) -> tuple[int, Ends]:
    """The agent's pid and our ends of its pipes; raises OSError or ValueError when it cannot be started."""
    wanted = spec["stdin"] == "pump"
    their_input, our_input = os.pipe() if wanted else (os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), None)
    our_output, their_output = os.pipe()
    our_errors, their_errors = os.pipe()
    folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    theirs = (their_input, their_output, their_errors)
    try:
        os.chdir(spec["cwd"])
        agent = _execute(spec["argv"], spec["env"], theirs)
    finally:
        os.fchdir(folder)
        for descriptor in (folder, *theirs):
            os.close(descriptor)
    _raise_oom_score(agent, spec["oom_score_adj"])
    return agent, Ends(our_input, our_output, our_errors)


def wake_on_children() -> int:
    """A descriptor that becomes readable whenever a child ended."""
    wakeup, waker = os.pipe()
    os.set_blocking(wakeup, False)
    os.set_blocking(waker, False)
    _signal.signal(_signal.SIGCHLD, lambda _number, _frame: None)
    _signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    return wakeup


def _execute(argv: list[str], env: dict[str, str], theirs: tuple[int, ...]) -> int:
    """A command without a slash is looked up in the PATH of its own environment, as a shell would."""
    folders = [""] if "/" in argv[0] else env.get("PATH", os.defpath).split(":")
    actions = [(os.POSIX_SPAWN_DUP2, old, new) for new, old in enumerate(theirs)]
    denied: OSError | None = None
    for folder in folders:
        try:
            return os.posix_spawn(
                os.path.join(folder, argv[0]),
                argv,
                env,
                file_actions=actions,
                setpgroup=0,
                setsigmask=(),
                setsigdef=BACK_TO_DEFAULT,
            )
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as error:
            denied = denied or error
    raise denied or FileNotFoundError(errno.ENOENT, "no such command", argv[0])


def _raise_oom_score(agent: int, score: int) -> None:
    """Let a machine short of memory take the agent before its holder."""
    try:
        with open(f"/proc/{agent}/oom_score_adj", "w", encoding="ascii") as file:
            file.write(str(score))
    except OSError:
        return  # it ended already, or an administrator forbids it: the run is none the worse for it

"""Start a holder's agent in a process group of its own, with three pipes and its own environment."""
# pathlib takes 6 ms to import, and every run starts a holder:
# ruff: noqa: PTH118, PTH123

from __future__ import annotations

import errno
import os

from orchestrator.processes import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable

    from orchestrator.processes.cgroup import Cgroup
else:
    import _signal  # the C half: `signal` itself imports enum, half as long as the interpreter takes to start

IGNORED = (_signal.SIGHUP, _signal.SIGINT, _signal.SIGTERM, _signal.SIGTSTP)
BACK_TO_DEFAULT = (*IGNORED, _signal.SIGPIPE, _signal.SIGXFSZ)  # the last two are ignored by the interpreter itself


class Ends:
    """The holder's ends of the agent's pipes."""

    __slots__ = ("errors", "input", "output")

    def __init__(self, input_: int | None, output: int, errors: int) -> None:
        self.input, self.output, self.errors = input_, output, errors


def launch(spec: files.Spec, cgroup: Cgroup) -> tuple[int, Ends]:
    """Start the agent; return its pid and our ends of its pipes. Raises OSError or ValueError if it cannot be started.

    It starts in the control group; if the machine forbids that, it starts without one, and `cgroup` has no path.
    """
    wanted = spec["stdin"] == "pump"
    their_input, our_input = os.pipe() if wanted else (os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), None)
    our_output, their_output = os.pipe()
    our_errors, their_errors = os.pipe()
    folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    theirs = (their_input, their_output, their_errors)
    try:
        os.chdir(spec["cwd"])
        agent = _born_in(cgroup, spec, theirs)
        if agent is None:
            agent = _spawn(spec["argv"], spec["env"], theirs)
    finally:
        os.fchdir(folder)
        for descriptor in (folder, *theirs):
            os.close(descriptor)
    _raise_oom_score(agent, spec["oom_score_adj"])
    return agent, Ends(our_input, our_output, our_errors)


def wake_on_children() -> int:
    """Return a descriptor that becomes readable whenever a child ends."""
    wakeup, waker = os.pipe()
    os.set_blocking(wakeup, False)
    os.set_blocking(waker, False)
    _signal.signal(_signal.SIGCHLD, lambda _number, _frame: None)
    _signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    return wakeup


def _born_in(cgroup: Cgroup, spec: files.Spec, theirs: tuple[int, ...]) -> int | None:
    """Return the agent's pid once its command runs in the group; None if there cannot be a group."""
    heard, told = os.pipe()
    mask = _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())  # our handlers must not run in the child
    agent = cgroup.fork()
    if agent == 0:
        _become(spec["argv"], spec["env"], theirs, told)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)
    os.close(told)
    with open(heard, encoding="utf-8", errors="surrogateescape") as ear:
        number, _, why = ear.read().partition("\n")  # empty once the command has replaced the child
    if number and agent is not None:
        os.waitpid(agent, 0)
        raise OSError(int(number), *why.split("\n", 1)) if int(number) else ValueError(why)
    return agent


def _become(argv: list[str], env: dict[str, str], theirs: tuple[int, ...], told: int) -> None:
    """Replace this child by the command; on failure report an errno or 0, the reason, and the file, one per line."""
    try:
        os.setpgid(0, 0)
        for new, old in enumerate(theirs):
            os.dup2(old, new)
        for signum in BACK_TO_DEFAULT:
            _signal.signal(signum, _signal.SIG_DFL)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
        _first_found(argv[0], env, lambda path: os.execve(path, argv, env))  # noqa: S606  (no shell is wanted)
    except OSError as error:
        file = error.filename or argv[0]
        os.write(told, f"{error.errno}\n{error.strerror}\n{file}".encode("utf-8", "surrogateescape"))
    except (ValueError, IndexError) as error:
        os.write(told, f"0\n{error}".encode("utf-8", "backslashreplace"))
    finally:
        os._exit(127)


def _spawn(argv: list[str], env: dict[str, str], theirs: tuple[int, ...]) -> int:
    """Return the agent's pid, started without a control group."""
    actions = [(os.POSIX_SPAWN_DUP2, old, new) for new, old in enumerate(theirs)]
    return _first_found(
        argv[0],
        env,
        lambda path: os.posix_spawn(
            path,
            argv,
            env,
            file_actions=actions,
            setpgroup=0,
            setsigmask=(),
            setsigdef=BACK_TO_DEFAULT,
        ),
    )


def _first_found(command: str, env: dict[str, str], execute: Callable[[str], int]) -> int:
    """Return the path of a command without a slash, searched in the PATH of its own environment, as a shell does."""
    folders = [""] if "/" in command else env.get("PATH", os.defpath).split(":")
    denied: OSError | None = None
    for folder in folders:
        try:
            return execute(os.path.join(folder, command))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as error:
            denied = denied or error
    raise denied or FileNotFoundError(errno.ENOENT, "no such command", command)


def _raise_oom_score(agent: int, score: int) -> None:
    """Make the kernel kill the agent before its holder when memory runs out."""
    try:
        with open(f"/proc/{agent}/oom_score_adj", "w", encoding="ascii") as file:
            file.write(str(score))
    except OSError:
        return  # it ended already, or an administrator forbids it; the run works without it

"""Start a holder's agent in a process group of its own, with three pipes and its own environment.

A spec may have `wrap`, the words of a sandbox that precede the command. The sandbox ignores the signals of SHIELDED,
which are for the command alone: it lets the command have them.
"""
# pathlib takes 6 ms to import, and every run starts a holder:
# ruff: noqa: PTH110, PTH112, PTH118, PTH123

from __future__ import annotations

import errno
import os
import resource
from _ctypes import call_function, dlopen, dlsym  # the C half: `ctypes` takes another 3 ms

from orchestrator.processes import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable

    from orchestrator.processes.cgroup import Cgroup
else:
    import _signal  # the C half: `signal` itself imports enum, half as long as the interpreter takes to start

KEYCTL, JOIN_SESSION_KEYRING = {"x86_64": 250, "aarch64": 219}, 1  # keyctl(2), by its number on each machine
IGNORED = (_signal.SIGHUP, _signal.SIGINT, _signal.SIGTERM, _signal.SIGTSTP)
SHIELDED = (_signal.SIGHUP, _signal.SIGINT, _signal.SIGTERM)
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
    score = _set_oom_score(str(spec["oom_score_adj"]))
    try:
        os.chdir(spec["cwd"])
        whole: files.Spec = {**spec, "argv": _whole_command(spec)}
        agent = _born_in(cgroup, whole, theirs)
        if agent is None:
            agent = _spawn(whole, theirs)
    finally:
        _set_oom_score(score)
        os.fchdir(folder)
        for descriptor in (folder, *theirs):
            os.close(descriptor)
    return agent, Ends(our_input, our_output, our_errors)


def _whole_command(spec: files.Spec) -> list[str]:
    """Return the command with its sandbox. Raises OSError if there is no such program, as starting it would do."""
    command, *arguments = spec["argv"]
    if not spec["wrap"]:
        return [command, *arguments]
    found: list[str] = []

    def look_at(path: str) -> int:
        if not os.path.exists(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if os.path.isdir(path) or not os.access(path, os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        found.append(path)
        return 0

    _first_found(command, spec["env"], look_at)
    return [*spec["wrap"], *found, *arguments]


def set_apart(folder: str, *, is_wrapped: bool) -> None:
    """Mark every process of the run of this folder by a limit; below a marked process any lower one does.

    A run in a sandbox gets an empty session keyring: that of a login leads to the keys that the user keeps there.
    """
    own, mark = resource.getrlimit(files.RLIMIT_LOCKS)[1], files.mark_of(folder)
    limit = mark if own == resource.RLIM_INFINITY else min(mark, own - 1)
    resource.setrlimit(files.RLIMIT_LOCKS, (limit, limit))
    number = KEYCTL.get(os.uname().machine)
    if is_wrapped and number is not None:
        libc = dlopen(None, 0)  # type: ignore[arg-type]  # the stub does not know that None means this very process
        call_function(dlsym(libc, "syscall"), (number, JOIN_SESSION_KEYRING, None))


def code_and_signal(status: int | None, *, is_wrapped: bool) -> tuple[int | None, int | None]:
    """Return the exit code of an agent or the signal that ended it, by its wait status; neither if there is none.

    A sandbox ends with code 128 + N after signal N, which is taken for the signal. 129 stays a code: git ends with it
    when it is given a wrong option.
    """
    if status is None:
        return None, None
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return None, -code
    is_signal = is_wrapped and 128 + _signal.SIGHUP < code <= 128 + _signal.SIGSYS
    return (None, code - 128) if is_signal else (code, None)


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
        _become(spec, theirs, told)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)
    os.close(told)
    with open(heard, encoding="utf-8", errors="surrogateescape") as ear:
        number, _, why = ear.read().partition("\n")  # empty once the command has replaced the child
    if number and agent is not None:
        os.waitpid(agent, 0)
        raise OSError(int(number), *why.split("\n", 1)) if int(number) else ValueError(why)
    return agent


def _become(spec: files.Spec, theirs: tuple[int, ...], told: int) -> None:
    """Replace this child by the command; on failure report an errno or 0, the reason, and the file, one per line."""
    argv, env = spec["argv"], spec["env"]
    try:
        os.setpgid(0, 0)
        for new, old in enumerate(theirs):
            os.dup2(old, new)
        for signum in BACK_TO_DEFAULT:
            is_shielded = spec["wrap"] and signum in SHIELDED
            _signal.signal(signum, _signal.SIG_IGN if is_shielded else _signal.SIG_DFL)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
        _first_found(argv[0], env, lambda path: os.execve(path, argv, env))  # noqa: S606  (no shell is wanted)
    except OSError as error:
        file = error.filename or argv[0]
        os.write(told, f"{error.errno}\n{error.strerror}\n{file}".encode("utf-8", "surrogateescape"))
    except (ValueError, IndexError) as error:
        os.write(told, f"0\n{error}".encode("utf-8", "backslashreplace"))
    finally:
        os._exit(127)


def _spawn(spec: files.Spec, theirs: tuple[int, ...]) -> int:
    """Return the agent's pid, started without a control group."""
    argv, env, shielded = spec["argv"], spec["env"], SHIELDED if spec["wrap"] else ()
    actions = [(os.POSIX_SPAWN_DUP2, old, new) for new, old in enumerate(theirs)]
    mask = _signal.pthread_sigmask(_signal.SIG_BLOCK, shielded)  # one that arrives now is not lost
    handlers = [_signal.signal(signum, _signal.SIG_IGN) for signum in shielded]
    try:
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
                setsigdef=[signum for signum in BACK_TO_DEFAULT if signum not in shielded],
            ),
        )
    finally:
        for signum, handler in zip(shielded, handlers, strict=True):
            _signal.signal(signum, handler)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)


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


def _set_oom_score(score: str) -> str:
    """Set which process the kernel kills first when memory runs out, and return what it was before.

    The holder takes its agent's score for as long as it starts it, so that no process of the agent is without it.
    """
    try:
        descriptor = os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
        try:
            before = os.read(descriptor, 16).decode()
            os.write(descriptor, score.encode())
        finally:
            os.close(descriptor)
    except OSError:
        return score  # an administrator forbids it; the run works without it
    return before

"""One small process per run: the parent of the agent (or check), so that it outlives the daemon.

Started as `python -I -S` with a run's folder; standard library only. The daemon never signals a pid itself: it writes a
line into `control`, and the holder, which is the subreaper of the whole tree below it, acts and answers in
`status.json`.

Theory of operation
  * The holder leads a session of its own; the agent leads a process group in that session. A group whose parent lives
    in the same session obeys SIGTSTP. One with a session of its own does not: its group is orphaned, and POSIX then
    discards the default stop (measured with the real CLI).
  * Descriptor 3 is the flock on `lock`: held exactly as long as the holder lives. No child inherits it.
  * Other processes of this user can neither trace the holder nor read its memory, which holds what was provided.
  * Descriptor 5 is an anonymous file in memory: what was provided for the agent, how it is masked in the agent's
    output, and the key that signs the exit file. It is read once; its content is never in a file, an argument or this
    process's environment.
  * Descriptor 4 is `control`, opened by the daemon before the start: a request finds a reader as soon as there is a
    holder, and none once it is gone.
  * One loop waits for requests, output, room for input, SIGCHLD, and the next deadline. Nothing in it blocks except a
    freeze, for two seconds at most.
  * A run goes RUNNING ⇄ FROZEN → STOPPING. It ends when the agent was reaped: then the rest of the tree is swept, the
    pipes are drained, and `exit` is written.
  * A stop escalates: end of input, TERM, KILL. Each step has its time; the loop takes the next step after that.
  * Where the machine permits, the tree lives in a control group of its own (cgroup.py), with the holder outside: then
    the kernel freezes, thaws and kills it as one. Signals still come first, and scans of /proc last.
  * The agent may be in a sandbox (sandbox/bubblewrap.py): the holder stays outside, sees the whole tree from there, and
    handles it as any other. What is left when the agent ends, the kernel kills at once, so nothing of it is swept.
  * A machine that shuts down sends TERM to every process at once. The holder waits for the end of its agent, and
    records that the agent did not end by itself: a check that was killed this way has no result. A frozen process does
    not react to TERM, and systemd would wait 90 s for it: if it was sent TERM too, it is thawed so that it can end.
  * Every process of the run inherits a limit that marks it and that it cannot raise again, whatever else it sheds.
  * The machine may sleep and its clock may jump: every duration is measured on the monotonic clock, which does not run
    during a suspend. `alive` counts as touched when its time changes, whatever the time is.
"""
# pathlib takes 6 ms to import, and every run starts a holder:
# ruff: noqa: PTH110, PTH116

from __future__ import annotations

import os
import select
import sys
import time
from _ctypes import call_function, dlopen, dlsym  # the C half: `ctypes` takes another 3 ms

from orchestrator.processes import cgroup, files, holder_files, tree
from orchestrator.processes.launch import IGNORED, code_and_signal, launch, set_apart, wake_on_children
from orchestrator.processes.masking import Mask
from orchestrator.processes.pumps import InputPump, OutputPump

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal  # the C half: `signal` itself imports enum, half as long as the interpreter takes to start

PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 4, 36
TICK = 1.0  # seconds between looks at the clock, at stdin.jsonl, at `alive` and at a full disk
SWEEP_TICK = 0.01  # seconds between looks at a tree that is being swept
REQUEST_LIMIT = 4096  # bytes read from `control` at once


class Holder:
    """The life of one run, from the spawn to the exit file; the working directory is the run's folder."""

    def __init__(self, spec: files.Spec, given: files.Handover) -> None:
        """Does not spawn the agent yet."""
        self.spec, self.given = spec, given
        self.row = tree.Process(os.getpid(), files.read("/proc/self/stat").encode())
        self.pid = self.row.pid
        self.cgroup = cgroup.planned(self.pid, self.row.ticks) if spec["cgroup"] else cgroup.Cgroup(None)
        self.agent: int | None = None
        self.state = files.RUNNING
        self.request: str | None = None
        self.stopped: list[int] = []
        self.survivors: list[int] = []
        self.is_published = False
        self.stopped_by: str | None = None
        self.is_told = False
        self.spawn_error: str | None = None
        self.wait_status: int | None = None
        self.swept: list[int] = []
        self.sweep_since: float | None = None
        self.is_swept = False
        self.rungs: list[tuple[float, int]] = []  # of a stop: when, which signal
        self.clock = time.monotonic()  # when this turn of the loop began
        self.unfrozen = 0.0
        self.alive_mark, self.alive_seen, self.is_orphaned = self.touched(), self.clock, False
        self.half_request = b""
        self.input = InputPump(None)
        self.outputs: list[OutputPump] = []

    def serve(self) -> None:
        """Run from the spawn to the end of the tree."""
        wakeup = wake_on_children()
        _signal.signal(_signal.SIGTERM, lambda _number, _frame: self.note_shutdown())
        holder_files.write_pid(self.row, self.agent, self.cgroup.path)
        self.spawn()
        prctl(PR_SET_DUMPABLE, 0)  # not earlier: the agent's OOM score is set through a file of ours
        self.publish()
        holder_files.ring(self.spec)
        while not self.is_over():
            self.wait(wakeup)
            self.work()

    def spawn(self) -> None:
        """Start the agent; the reason why it cannot be started goes into the exit file."""
        try:
            self.agent, ends = launch({**self.spec, "env": {**self.spec["env"], **self.given["env"]}}, self.cgroup)
        except OSError as error:
            self.spawn_error = f"{error.strerror}: {error.filename or self.spec['argv'][0]}"
        except (ValueError, IndexError) as error:
            self.spawn_error = f"the command or its environment cannot be passed on: {error}"
        else:
            limits = (self.spec["rotate_bytes"], self.spec["floor_bytes"])
            said = mask_of(self.given["stdout"], is_json=self.given["stdout_is_json"])
            self.outputs = [
                OutputPump(files.STDOUT, ends.output, limits, said),
                OutputPump(files.STDERR, ends.errors, limits, mask_of(self.given["stderr"], is_json=False)),
            ]
            self.input = InputPump(ends.input)
            self.input.pump()

    def wait(self, wakeup: int) -> None:
        """Sleep until there is something to do, for one tick at most."""
        poll = select.poll()
        poll.register(files.CONTROL_FD, select.POLLIN)
        poll.register(wakeup, select.POLLIN)
        for output in self.outputs:
            if output.source is not None:
                poll.register(output.source, select.POLLIN)
        if self.input.target is not None:
            poll.register(self.input.target, select.POLLOUT)
        poll.poll(max(0.0, self.next_deadline() - time.monotonic()) * 1000)
        try:
            os.read(wakeup, 512)
        except BlockingIOError:
            return

    def next_deadline(self) -> float:
        """Return when the loop must look again even if nothing happens."""
        due = [self.clock + (TICK if self.sweep_since is None else SWEEP_TICK)]
        due += [when for when, _ in self.rungs[:1]]
        timeout = self.spec["timeout"]
        if timeout is not None and self.state == files.RUNNING:
            due.append(self.clock + timeout - self.unfrozen)
        return min(due)

    def work(self) -> None:
        """Do one turn of the loop: whatever is due."""
        now = time.monotonic()
        if self.state == files.RUNNING:
            self.unfrozen += now - self.clock
        ticked = int(now) != int(self.clock)
        self.clock = now
        self.take_requests()
        self.input.pump()
        if sum([output.pump() for output in self.outputs]):
            holder_files.ring(self.spec, files.SAID)
        if ticked:
            self.tick()
        self.end_frozen()
        self.climb()
        self.reap()
        self.sweep()

    def take_requests(self) -> None:
        """Handle the daemon's requests, lines `<id> freeze|thaw|stop|input`; other lines are ignored."""
        try:
            received = self.half_request + os.read(files.CONTROL_FD, REQUEST_LIMIT)
        except BlockingIOError:
            return
        *lines, rest = received.split(b"\n")
        self.half_request = rest[-REQUEST_LIMIT:]
        for line in lines:
            request, _, verb = line.decode("ascii", "replace").partition(" ")
            if verb == "freeze":
                self.freeze(request)
            elif verb == "thaw":
                self.thaw(request)
            elif verb == "stop":
                self.stop(files.BY_REQUEST, request)

    def freeze(self, request: str) -> None:
        """Stop the whole tree in place; if the run is being stopped, every process is reported as still moving."""
        if self.agent is None or self.wait_status is not None:
            self.stopped, self.survivors = [], []
        elif self.state == files.STOPPING:
            self.stopped, self.survivors = [], self.living()
        else:
            wrapped = bool(self.spec["wrap"])
            self.stopped, self.survivors = tree.freeze(self.pid, self.agent, self.cgroup, is_wrapped=wrapped)
            self.state = files.FROZEN
        self.answer(request)

    def thaw(self, request: str) -> None:
        """Let a frozen tree continue."""
        if self.state == files.FROZEN:
            tree.thaw(self.pid, self.cgroup, self.stopped + self.survivors)
            self.state, self.stopped, self.survivors = files.RUNNING, [], []
        self.answer(request)

    def stop(self, why: str, request: str | None) -> None:
        """Begin to stop the run: thaw it, end its input, then TERM and at last KILL, each after a grace period."""
        if self.state != files.STOPPING and self.wait_status is None:
            if self.state == files.FROZEN:
                tree.thaw(self.pid, self.cgroup, self.stopped + self.survivors)
            self.state, self.stopped_by, self.stopped, self.survivors = files.STOPPING, why, [], []
            graces = self.spec["graces"]
            term = time.monotonic() + (graces["eof"] if self.spec["stdin"] == "pump" else 0)
            self.rungs = [(term, _signal.SIGTERM), (term + graces["term"], _signal.SIGKILL)]
            self.input.finish()
        self.answer(request)

    def note_shutdown(self) -> None:
        """Record that the holder was told to end before its agent ended."""
        self.is_told = True
        if self.wait_status is None and self.stopped_by is None:
            self.stopped_by = files.BY_SHUTDOWN

    def end_frozen(self) -> None:
        """Thaw a frozen agent that was sent TERM together with its holder."""
        if (
            self.is_told
            and self.state == files.FROZEN
            and self.agent is not None
            and tree.is_told_to_end(self.pid, self.agent)
        ):
            self.stop(files.BY_SHUTDOWN, self.request)

    def climb(self) -> None:
        """Take the next step of a stop when its time has come; begin the stop when the run's own time is used up."""
        timeout = self.spec["timeout"]
        if timeout is not None and self.unfrozen >= timeout and self.state == files.RUNNING:
            self.stop(files.BY_TIMEOUT, self.request)
        while self.rungs and self.rungs[0][0] <= time.monotonic() and self.agent is not None:
            _, signum = self.rungs.pop(0)
            tree.signal_group(self.agent, signum)
            tree.signal_group(self.agent, _signal.SIGCONT)
            if signum == _signal.SIGKILL:
                self.cgroup.kill()

    def tick(self) -> None:
        """Check once a second for a full disk, a run without its daemon, and a run without its folder."""
        for output in self.outputs:
            output.retry()
        if not self.is_published:
            self.publish()
        if not os.path.exists(files.LOCK):
            self.stop(files.BY_ORPHAN, self.request)
        mark, limit = self.touched(), self.spec["orphan_after"]
        if mark != self.alive_mark:
            self.alive_mark, self.alive_seen, self.is_orphaned = mark, self.clock, False
        elif limit is not None and self.clock - self.alive_seen > limit and not self.is_orphaned:
            self.is_orphaned = True
            if self.state == files.RUNNING:
                self.freeze(files.BY_ORPHAN)

    def touched(self) -> int | None:
        """Return when the daemon last touched its `alive` file, by that file."""
        try:
            return os.stat(self.spec["alive"]).st_mtime_ns
        except OSError:
            return None

    def reap(self) -> None:
        """Reap every child that ended, including adopted ones."""
        while self.sweep_since is None or not self.is_swept:
            try:
                pid, wait_status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.agent:
                self.wait_status, self.rungs = wait_status, []

    def sweep(self) -> None:
        """After the agent's end, send TERM to everything that it left behind, and KILL after a grace period."""
        if self.wait_status is None or self.is_swept:
            return
        self.sweep_since = self.sweep_since or self.clock
        left = tree.whole_tree(self.pid)
        waited, graces = self.clock - self.sweep_since, self.spec["graces"]
        if waited >= graces["sweep"]:
            self.cgroup.kill()
        for row in left:
            is_new = row.pid not in self.swept and not row.is_dead()
            if waited >= graces["sweep"]:
                tree.send(row.pid, _signal.SIGKILL)
            elif is_new:
                tree.send(row.pid, _signal.SIGTERM)
                tree.send(row.pid, _signal.SIGCONT)
            self.swept += [row.pid] if is_new and not (self.spec["wrap"] and waited < graces["sweep"]) else []
        self.cgroup.thaw()  # an agent may be killed while frozen; what it leaves reacts to TERM only after a thaw
        self.is_swept = not left or waited >= graces["sweep"] + graces["kill"]

    def living(self) -> list[int]:
        """Return the pids of the tree as it is now."""
        return [row.pid for row in tree.whole_tree(self.pid) if not row.is_dead()]

    def is_over(self) -> bool:
        """Return whether nothing is left to reap, to sweep or to write."""
        if self.spawn_error is not None:
            return True
        if not self.is_swept:
            return False
        moved = [output.finish() for output in self.outputs]
        return not any(moved) and not any(output.is_held for output in self.outputs)

    def answer(self, request: str | None) -> None:
        """Report in status.json that a request is done."""
        self.request = request
        self.publish()
        holder_files.ring(self.spec)

    def publish(self) -> None:
        """Write status.json, and `pid` if that is not done; on a full disk the next tick does it."""
        status: files.StatusRecord = {
            "state": self.state,
            "request": self.request,
            "stopped": self.stopped,
            "survivors": self.survivors,
        }
        try:
            if not self.is_published:
                holder_files.write_pid(self.row, self.agent, self.cgroup.path)
            files.replace(files.STATUS, files.encode(status))
        except OSError:
            self.is_published = False
        else:
            self.is_published = True

    def ending(self) -> files.ExitRecord:
        """Return how the run ended."""
        code, signum = code_and_signal(self.wait_status, is_wrapped=bool(self.spec["wrap"]))
        return {
            "code": code,
            "signal": signum,
            "timed_out": self.stopped_by == files.BY_TIMEOUT,
            "spawn_error": self.spawn_error,
            "stopped_by": self.stopped_by,
            "swept": self.swept,
            "lost": False,
            "ended_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }


def handed_over() -> files.Handover:
    """Read what the daemon passed on descriptor 5, and close it."""
    given: files.Handover = files.decode(files.read_all(files.HANDOVER_FD))  # type: ignore[assignment]  # the daemon's
    os.close(files.HANDOVER_FD)
    return given


def mask_of(pairs: list[list[str]], *, is_json: bool) -> Mask | None:
    """Return a mask for these patterns; None if there are none, so that nothing is searched."""
    return Mask(pairs, is_json=is_json) if pairs else None


def prctl(option: int, value: int) -> None:
    """Change a property of this process."""
    libc = dlopen(None, 0)  # type: ignore[arg-type]  # the stub does not know that None means this very process
    call_function(dlsym(libc, "prctl"), (option, value, 0, 0, 0))


def main(folder: str) -> None:
    """Hold the run of this folder until it ends."""
    for signum in IGNORED:
        _signal.signal(signum, _signal.SIG_IGN)
    os.closerange(files.HANDOVER_FD + 1, os.sysconf("SC_OPEN_MAX"))  # whatever else the daemon had open
    os.set_inheritable(files.LOCK_FD, False)
    os.set_inheritable(files.CONTROL_FD, False)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    os.chdir(folder)
    spec: files.Spec = files.decode(files.read(files.SPEC))  # type: ignore[assignment]  # the daemon writes what Spec says
    given = handed_over()
    set_apart(folder, is_wrapped=bool(spec["wrap"]))
    holder = Holder(spec, given)
    try:
        holder.serve()
    except Exception as error:
        holder.spawn_error = f"the holder itself failed: {type(error).__name__}: {error}"
        holder.cgroup.kill()
        for row in tree.whole_tree(holder.pid):
            tree.send(row.pid, _signal.SIGKILL)
        raise
    finally:
        holder.cgroup.remove()
        holder_files.write_exit(holder.ending(), given["exit_key"])
        holder_files.ring(spec)


if __name__ == "__main__":
    main(sys.argv[1])

"""A daemon that walks tickets through pipelines of coding agents, unattended, and cannot lose one.

What to read, in this order:

core/       what is decided; pure, without I/O, clock or processes
    model.py            the nouns: a task and what hangs on it
    events.py           what can happen to it, and commands.py, what it may ask for in return
    machine.py          the state machine: one handler per event; course.py, how a task moves along its pipeline
    obligations.py      what a state owes, as commands: the whole of recovery
    guards.py           what stands between two stages; pipeline.py, the words in which pipelines are declared
    document.py         a task as state.json shows it
    stream/             what an agent's output means
supervisor.py   the loop: inbox → decide → commit → dispatch; the only writer; inbox.py, what waits to be decided
store.py        what is decided is on disk before it is done: journal.py, one line each; state_file.py, their sum
dispatch.py     carrying commands out; running.py for all that is a process, gates.py for what a stage left behind
checks/         which commands judge a commit, found by language, and what their ends mean; reports.py, test-report.md
processes/      the holder that agents hang on, so that they outlive the daemon
stalls.py       turns that do not get on; provisions.py, what people provide; leaks.py, where that must not stand
checkpoints.py  what recovery needs beyond the state, taken and had back; recovery.py, when the journal is lost
workspace.py    clone, worktree, delivery; worktree.py, what is uncommitted; git.py, so that no repository can run us
wiring.py       builds all of it and wires it; daemon.py, the life of the process around it
trackers/       where tickets come from: Jira, GitHub, GitLab, and texts that a person hands in
forge/          pull requests, comments, reviews, checks and merges on GitHub and GitLab
api/, client.py, cli/   how people and programs reach it

    event ──► decide ──► commit ──► dispatch ──► the world ──► event
             (core)     (store)    (dispatch)

This package imports nothing: every holder starts from it and has to stay small.
"""

__version__ = "0.1.0"

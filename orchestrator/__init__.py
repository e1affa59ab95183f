"""A daemon that walks tickets through pipelines of coding agents, unattended, and cannot lose one.

    event ──► decide ──► commit ──► dispatch ──► the world ──► event
              (core)    (storage)   (daemon)

Whatever can happen to a task is an event. One pure function decides what follows from it, one loop is the only writer,
and adapters execute commands and report back with events. Commands are derived from the state, never listed by the
handler of an event. So recovery has no code of its own: after a restart the daemon dispatches what each state owes.

The rooms, from the ground up. Each imports only from the rooms above it in this list; import-linter checks that.

formats/        text and data formats that know nothing of tasks
redaction/      what must not leave the machine, and how text is made harmless
core/           what is decided: pure, without I/O, clock or processes
    task/       the nouns: a task, its agent, its steps, its pipeline, what people are asked
    events/     what can happen to a task, and the commands it asks for in return
    records/    what shows a task to other programs, composed from its state
    guards/     what must hold before a task leaves a stage, one class per guard
    family/     what a family of pipelines tells the engine, which knows none by name
    decide/     the state machine: machine.py first, then obligations.py; work/ has one class per kind of work
    schedule/   which task may run, which must pause, and why one waits
    notices/    which notice goes where, and when
    retention/  which files of ended tasks may go
processes/      process trees that outlive the daemon: the holder, freeze and thaw
storage/        the journal, state.json, the order of events, sealed values; removal/ removes, backup/ copies it all
pipelines/      pipeline and role files; families/ has what one family of pipelines alone knows
settings/       what can be set, where each value comes from, and the environment
agents/         an agent CLI, from its command line to neutral events
workspaces/     git clones, worktrees, outboxes; evaluation/ runs checks and reads their results
integrations/   trackers, forges, publishing, notifications
supervisor/     the loop and its inbox; simulation/ runs the same loop on a clock that jumps
daemon/         executing commands; services/ has the use cases that every interface calls, access/ who may ask,
                history/ what one task did, intake/ and schedules/ what comes in by itself, notifications/ what people
                are told, reporting/ and inspection/ what an operator reads about the whole, examination/ what would
                stop a night, housekeeping/ and backup/ what is kept, watchdog/ whether the daemon works at all
monitoring/     rules, a dashboard and a configuration for Prometheus and Grafana
server/         the HTTP API; web/ has the pages, mcp/ the tools of assistants
cli/            the command line

wiring/         builds all of it, once
bootstrap/      the life of the process around it

Read core/task/task.py, core/events/events.py, core/decide/machine.py, supervisor/supervisor.py and daemon/executor.py,
in this order. `orchestrator help internals` follows three things through the code.

This module imports nothing: every holder process starts from it and must stay small.
"""

__version__ = "0.1.0"

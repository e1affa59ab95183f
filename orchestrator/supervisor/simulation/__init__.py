"""Simulate days of work: the real core and supervisor run on a virtual clock in an in-memory world.

virtual_clock   time that jumps from one scheduled call to the next
probabilities   how often each kind of event happens, and random durations
account         the account that all agents share: usage windows and outages of the service
trees           process trees that can be frozen; checks
agents          agents: what they do in a turn, request, cost and leave behind
messages        what agents print, passed through the real parsers
forge           pull requests, reviewers, releases and tracker reports
world           everything that survives a crash of the daemon
memory          the task store, and the injector of crashes
executor        carries out commands against the world
people          users who submit tickets, answer late or never, pause, cancel and raise budgets
invariants      what must hold after every decision, as pure functions
monitor         checks the invariants while the simulation runs, and records violations
metrics         counters, waiting times and the report
runner          the simulation itself, from the first ticket to the report
"""

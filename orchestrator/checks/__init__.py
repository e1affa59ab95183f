"""Which commands judge a task's work, fixed at submit, and what their ends mean (law 4).

Four sources, the later winning by name: what the repository itself declares in `.orchestrator.toml` at the base commit
(declaring.py), or else what its files give away (languages.py, by config/checks.toml); then the settings; then the
submitter. The branch is never asked. resolving.py puts them together, judging.py says what came of one. All checks are
shell commands, run at the top of a fresh checkout; a few are the daemon's own look at the change or at a report.
"""

"""Agents and checks as processes that outlive the daemon: read holder.py first, then runs.py."""

"""Errors of the command line alone: it was used in a way that makes no sense, or names what does not exist."""

from orchestrator.errors import OrchestratorError


class UsageError(OrchestratorError):
    """A command was used with arguments that make no sense."""


class UnknownName(OrchestratorError):
    """A command was given the name of something that does not exist."""

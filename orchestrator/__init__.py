"""A daemon that walks tickets through pipelines of coding agents, unattended."""

__version__ = "0.1.0"

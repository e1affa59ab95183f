"""Whom this process trusts in TLS, read once: reading it takes tens of milliseconds and would hold the event loop."""

import ssl
from functools import cache

import httpx


@cache
def tls_context() -> ssl.SSLContext:
    """Return the context for connections to servers, with the certificates of the environment or of the package."""
    return httpx.create_ssl_context()

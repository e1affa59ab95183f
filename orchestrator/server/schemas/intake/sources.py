"""Schemas of repositories that are named by an address."""

from datetime import datetime

from pydantic import ConfigDict, Field

from orchestrator.daemon.sources.service import SourceState
from orchestrator.server.schemas.base import Utf8, View


class SourceBody(View):
    """Where a repository is: https, ssh, or `git@host:path`, without a password."""

    model_config = ConfigDict(extra="forbid")

    address: Utf8 = Field(min_length=1, max_length=1000)


class SourceView(View):
    """The daemon's copy of a repository elsewhere; `size` in bytes, `path` is what a submission names as `repo`."""

    address: str
    path: str
    state: SourceState
    size: int
    since: datetime

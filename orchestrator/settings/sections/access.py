"""Where the daemon listens besides its socket."""

from typing import Annotated

from pydantic import AfterValidator

from orchestrator.formats.address import parse_listen


def _listen(text: str) -> str:
    if text:
        parse_listen(text)
    return text


Listen = Annotated[str, AfterValidator(_listen)]

"""`submit --issues`: a list of issues from a file, from an earlier batch, or from a repository on a tracker."""

import os
import re
import shlex
from pathlib import Path

import orjson

from orchestrator.cli.context import UsageError
from orchestrator.formats.codec import Json, JsonObject
from orchestrator.formats.files import open_regular
from orchestrator.pipelines.families.issues.batch import ISSUES_FILE, LARGEST_FILE, OPTIONS_FILE
from orchestrator.pipelines.families.issues.document import InvalidField
from orchestrator.pipelines.families.issues.issue import to_lines
from orchestrator.pipelines.families.issues.projection import STATE
from orchestrator.pipelines.families.issues.resumption import issues_of_batch

BATCH = "issue-plan-execute"
"""The pipeline of a list of issues, unless another one is named."""
_NAMES_PROJECT = re.compile(r"[\w.-]+/[\w.-]+(?: |$)", re.ASCII)


def read_batch(source: str | None, *, skip_plan: bool, skip_execute: bool) -> JsonObject:
    """Return what is submitted of the batch that options describe: its files, or which tickets become its issues.

    Raises UsageError.
    """
    files: JsonObject = {}
    if skip_plan or skip_execute:
        files[OPTIONS_FILE] = orjson.dumps({"skip_plan": skip_plan, "skip_execute": skip_execute}).decode()
    if source is None:
        return {"files": files}
    path = Path(source).expanduser()
    if path.is_dir() or path.name == STATE:
        files[ISSUES_FILE] = _earlier(path if path.is_dir() else path.parent)
    elif path.exists() or path.suffix in (".json", ".jsonl") or not _NAMES_PROJECT.match(source):
        files[ISSUES_FILE] = _text(path)
    else:
        return {"files": files, "tickets": _choice(source)}
    return {"files": files}


def _choice(source: str) -> JsonObject:
    """Return which issues of a repository are meant: with each `label:NAME`, and found by the other words.

    A label with spaces is written in quotation marks, as in GitHub's own search: label:"good first issue".
    """
    try:
        project, *words = shlex.split(source)
    except ValueError as error:
        raise UsageError(f"{source!r}: {error}") from error
    labels: list[Json] = [word.removeprefix("label:") for word in words if word.startswith("label:")]
    return {"project": project, "labels": labels, "query": " ".join(one for one in words if "label:" not in one)}


def _earlier(folder: Path) -> str:
    """Return the issues of an earlier batch, from the folder with its state.json."""
    listed = _text(folder / ISSUES_FILE) if (folder / ISSUES_FILE).exists() else ""
    plans = {path.name.removesuffix("-plan.json"): _text(path) for path in sorted(folder.glob("solutions/*-plan.json"))}
    try:
        return to_lines(issues_of_batch(_text(folder / STATE), listed, plans))
    except InvalidField as error:
        raise UsageError(f"{folder}: {error}") from error


def _text(path: Path) -> str:
    """Return the text of a file, which must not be larger than a batch may be."""
    try:
        with os.fdopen(open_regular(path), "rb") as opened:
            content = opened.read(LARGEST_FILE + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    if len(content) > LARGEST_FILE:
        raise UsageError(f"{path} is larger than {LARGEST_FILE >> 20} MiB; divide it among batches")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8: byte {error.start}") from error

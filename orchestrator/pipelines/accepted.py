"""The pipeline of a task as it was accepted with the ticket: a copy in the task's folder, known by its digest."""

from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b

from orchestrator.core.task.pipeline import Pipeline
from orchestrator.formats.table import DefinitionError, definition_error
from orchestrator.pipelines.definition_files import read_declared
from orchestrator.pipelines.pipeline_file import parse_pipeline
from orchestrator.storage.task_files import TaskFiles

PIPELINE_FILE, CHANGED_PIPELINE_FILE = "pipeline.toml", "pipeline-changed.toml"
"""The accepted pipeline, and the one that a draft was changed to until it is in its place."""
KEPT_PIPELINES, KEPT_TEXTS = 1024, 64
"""Pipelines of tasks that are cached, and those among them that differ; with more live tasks, files are read again."""


@lru_cache(maxsize=KEPT_PIPELINES)
def accepted_pipeline(files: TaskFiles, task_id: str, digest: str) -> Pipeline:
    """Return the pipeline of a task as it was declared when the task was submitted; `digest` is the task's own.

    Raises DefinitionError if the task's copy is gone or damaged, or was changed since.
    """
    path = files.path_of(task_id, PIPELINE_FILE)
    text = read_declared(path)
    if digest and digest_of(text) != digest:
        text = files.read_text(task_id, CHANGED_PIPELINE_FILE)
    if digest and digest_of(text) != digest:
        raise definition_error(path, "this is not the pipeline that was accepted with the ticket; restore the file")
    try:
        return replace(_parsed(text), source=str(path))
    except DefinitionError:
        return parse_pipeline(text, str(path))  # for its messages, which name the file


@lru_cache(maxsize=KEPT_TEXTS)
def _parsed(text: str) -> Pipeline:
    return parse_pipeline(text, PIPELINE_FILE)


def digest_of(text: str) -> str:
    """Return what identifies the text of a pipeline."""
    return blake2b(text.encode(), digest_size=16).hexdigest()

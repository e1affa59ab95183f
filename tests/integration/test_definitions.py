"""Definitions from real folders, with files that would trap a careless reader."""

import os
from pathlib import Path

import pytest

from orchestrator.formats.table import DefinitionError
from orchestrator.pipelines.bundled import Kind, bundled
from orchestrator.pipelines.definition_files import LARGEST_FILE, Folders
from orchestrator.pipelines.definitions import Definitions, load_definitions

PIPELINE = """\
name = "small"
description = "{description}"
start = "WORK"
[stages.WORK]
work = "agent"
role = "worker"
next = "DONE"
[stages.DONE]
work = "deliver"
"""
ROLE = "---\nname: worker\ndescription: {description}\n---\nWork.\n"


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    """A near and a far folder, the far one with a pipeline and its role."""
    for place in ("far", "near"):
        for kind in ("pipelines", "agents"):
            (tmp_path / place / kind).mkdir(parents=True)
    (tmp_path / "far/pipelines/small.toml").write_text(PIPELINE.format(description="far"))
    (tmp_path / "far/agents/worker.md").write_text(ROLE.format(description="far"))
    return Folders(
        pipelines=(tmp_path / "far/pipelines", tmp_path / "near/pipelines", tmp_path / "missing"),
        roles=(tmp_path / "far/agents", tmp_path / "near/agents"),
    )


def told(definitions: Definitions) -> tuple[str, str]:
    return definitions.pipelines["small"].description, definitions.roles["worker"].description


def problems_of(folders: Folders) -> list[str]:
    with pytest.raises(DefinitionError) as caught:
        load_definitions(folders)
    return [str(problem) for problem in caught.value.problems]


def test_the_bundled_definitions_are_consistent() -> None:
    definitions = load_definitions(Folders(pipelines=(bundled(Kind.PIPELINES),), roles=(bundled(Kind.AGENTS),)))
    assert "full" in definitions.pipelines
    assert set(definitions.pipelines["full"].roles) <= set(definitions.roles)


def test_a_nearer_definition_hides_a_farther_one_by_name(folders: Folders, tmp_path: Path) -> None:
    assert told(load_definitions(folders)) == ("far", "far")
    (tmp_path / "near/agents/worker.md").write_text(ROLE.format(description="near"))
    assert told(load_definitions(folders)) == ("far", "near")
    (tmp_path / "near/pipelines/small.toml").write_text(PIPELINE.format(description="near"))
    assert told(load_definitions(folders)) == ("near", "near")


def test_a_broken_file_does_not_fall_back_to_the_one_it_hides(folders: Folders, tmp_path: Path) -> None:
    (tmp_path / "near/agents/worker.md").write_text("nothing")
    assert problems_of(folders)[0].startswith(f"{tmp_path}/near/agents/worker.md:1: a role begins with front matter")


def test_the_problems_of_every_file_are_reported_at_once(folders: Folders, tmp_path: Path) -> None:
    (tmp_path / "near/agents/one.md").write_text("nothing")
    (tmp_path / "near/agents/two.md").write_bytes(b"\xff\xfe")
    (tmp_path / "near/pipelines/three.toml").write_text("name = ")
    assert [problem.split(":")[0].rsplit("/", 1)[1] for problem in problems_of(folders)] == [
        "three.toml",
        "one.md",
        "two.md",
    ]


def test_a_pipeline_whose_role_is_missing_is_refused(folders: Folders, tmp_path: Path) -> None:
    (tmp_path / "far/agents/worker.md").rename(tmp_path / "far/agents/other.txt")
    [problem] = problems_of(folders)
    assert problem == f"{tmp_path}/far/pipelines/small.toml:6: stage WORK names an unknown role 'worker'; known: none"


def test_a_pipeline_has_the_name_of_its_file(folders: Folders, tmp_path: Path) -> None:
    (tmp_path / "far/pipelines/small.toml").rename(tmp_path / "far/pipelines/large.toml")
    assert "make them the same" in problems_of(folders)[0]


def test_other_files_are_ignored(folders: Folders, tmp_path: Path) -> None:
    for name in ("README.txt", ".hidden.md", "worker.md~", "worker.md.swp"):
        (tmp_path / "near/agents" / name).write_text("nothing")
    assert told(load_definitions(folders)) == ("far", "far")


def test_a_link_to_a_definition_is_followed(folders: Folders, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.md").write_text(ROLE.format(description="linked"))
    (tmp_path / "near/agents/worker.md").symlink_to(tmp_path / "elsewhere.md")
    assert told(load_definitions(folders)) == ("far", "linked")


def test_a_special_file_is_refused_without_blocking(folders: Folders, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "near/agents/fifo.md")
    (tmp_path / "near/agents/folder.md").mkdir()
    (tmp_path / "near/agents/device.md").symlink_to("/dev/zero")
    (tmp_path / "near/agents/gone.md").symlink_to(tmp_path / "nowhere")
    assert {problem.rsplit("/", 1)[1] for problem in problems_of(folders)} == {
        "fifo.md: this is not a regular file",
        "folder.md: cannot be read: Is a directory",
        "device.md: this is not a regular file",
        "gone.md: cannot be read: No such file or directory",
    }


def test_a_file_that_is_too_large_is_refused(folders: Folders, tmp_path: Path) -> None:
    with (tmp_path / "near/agents/huge.md").open("wb") as file:
        file.truncate(LARGEST_FILE * 5)
    assert problems_of(folders) == [f"{tmp_path}/near/agents/huge.md: larger than 1024 KiB, which no definition is"]


def test_a_binary_file_is_refused_with_its_line(folders: Folders, tmp_path: Path) -> None:
    (tmp_path / "near/agents/zero.md").write_bytes(b"---\nname: \0\n---\n")
    assert problems_of(folders) == [f"{tmp_path}/near/agents/zero.md:2: this is binary, not text"]

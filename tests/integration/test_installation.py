"""Finding the claude CLI among other programs."""

from pathlib import Path

import pytest

from orchestrator.agents.installation import (
    TESTED,
    ClaudeBroken,
    ClaudeMissing,
    ClaudeUnfit,
    Installation,
    LoginState,
    Version,
    claude_version,
    find_claude,
    login_state,
    version_note,
    version_problem,
)


def program(folder: Path, script: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "claude"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_the_configured_program_takes_precedence_over_the_one_on_path(tmp_path: Path) -> None:
    configured, on_path = program(tmp_path / "a", ""), program(tmp_path / "b", "")
    assert find_claude(str(configured), str(tmp_path / "b")) == configured
    assert find_claude("", str(tmp_path / "b")) == on_path
    assert find_claude("claude", str(tmp_path / "b")) == on_path


def test_a_missing_configured_program_is_never_replaced_by_another(tmp_path: Path) -> None:
    program(tmp_path, "")
    with pytest.raises(ClaudeMissing, match=r"agent\.executable is '/nowhere/claude'"):
        find_claude("/nowhere/claude", str(tmp_path))


def test_a_file_that_is_not_executable_is_not_a_program(tmp_path: Path) -> None:
    program(tmp_path, "").chmod(0o644)
    with pytest.raises(ClaudeMissing):
        find_claude(str(tmp_path / "claude"), None)


def test_the_version_is_read_from_the_program(tmp_path: Path) -> None:
    assert claude_version(program(tmp_path, "echo '2.1.329 (Claude Code)'"), {}) == (2, 1, 329)


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("echo hello", "ended with 0 and said: hello"),
        ("echo no >&2; exit 7", "ended with 7 and said: no"),
        ("", "nothing"),
    ],
)
def test_a_program_without_a_version_is_broken(tmp_path: Path, script: str, complaint: str) -> None:
    with pytest.raises(ClaudeBroken, match=complaint):
        claude_version(program(tmp_path, script), {})


def test_a_program_that_cannot_be_started_is_broken(tmp_path: Path) -> None:
    with pytest.raises(ClaudeBroken, match="cannot be started"):
        claude_version(tmp_path, {})


@pytest.mark.parametrize(
    ("version", "objection"),
    [
        ((2, 1, 222), "too old"),
        ((2, 1, 223), None),
        ((2, 1, 287), None),
        ((2, 1, 288), "loses"),
        ((2, 1, 290), "loses"),
        ((2, 1, 329), None),
        ((2, 9, 0), None),
        ((3, 0, 0), "newer"),
    ],
)
def test_an_unsupported_version_is_rejected_with_a_reason(version: Version, objection: str | None) -> None:
    said = version_problem(version)
    assert said is None if objection is None else objection in (said or "")


def test_a_newer_version_is_told_and_one_that_may_be_incompatible_is_used_only_where_that_is_allowed() -> None:
    assert version_problem((3, 0, 0), allow_newer=True) is None
    assert "too old" in (version_problem((2, 1, 0), allow_newer=True) or "")
    assert (version_note(TESTED), version_note((2, 9, 0))) == ("", "newer than 2.1.329, the newest that was tested")


def test_the_program_is_asked_for_its_version_once_and_again_when_its_file_changed(tmp_path: Path) -> None:
    def install(version: str) -> None:
        program(tmp_path / "new", f"echo asked >> {tmp_path}/asked; echo '{version} (Claude Code)'")
        (tmp_path / "new/claude").replace(tmp_path / "claude")

    def asked() -> int:
        return len((tmp_path / "asked").read_text().splitlines())

    link = tmp_path / "bin/claude"
    link.parent.mkdir()
    link.symlink_to(tmp_path / "claude")
    installation = Installation(str(link), None, {}, allow_newer=False)
    with pytest.raises(ClaudeMissing):
        installation.usable()
    install("2.1.329")
    assert [installation.usable() for _ in range(3)] == [link] * 3
    assert asked() == 1
    install("2.0.9")
    for _ in range(2):
        with pytest.raises(ClaudeUnfit, match="too old"):
            installation.usable()
    assert asked() == 3
    install("2.1.400")
    assert installation.usable() == link
    assert asked() == 4
    (tmp_path / "claude").unlink()
    with pytest.raises(ClaudeMissing):
        installation.usable()


def test_the_login_is_read_from_the_program_and_unknown_without_output(tmp_path: Path) -> None:
    status = """echo '{"loggedIn":true,"authMethod":"claude.ai","loginExpiresAt":"2027-01-01T00:00:00Z"}'"""
    assert login_state(program(tmp_path / "a", status), {}) == LoginState(
        logged_in=True, method="claude.ai", expires_at="2027-01-01T00:00:00Z"
    )
    assert login_state(program(tmp_path / "b", "echo what"), {}) is None
    assert login_state(tmp_path / "none", {}) is None

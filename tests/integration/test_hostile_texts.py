"""Texts that attack a page, wherever an agent, a repository or a ticket can put them: what is rendered stays harmless.

tests/browser shows the same forms to a real browser.
"""

import os
from math import inf
from pathlib import Path

import httpx
import pytest

from orchestrator.formats.diffs.unified_diff import DiffLine, Hunk, LineKind
from orchestrator.server.web.content.changes import code_lines, shown_edit, shown_hunks
from orchestrator.server.web.content.markdown import markdown
from tests.attacks.page_rules import FROM_TEXTS, faults_of, faults_of_page, parsed, skeleton
from tests.attacks.xss_forms import FILE_NAMES, FORMS, SENTINEL
from tests.fakes.in_process_daemon import InProcessDaemon, create_daemon
from tests.fakes.repositories import commit, repository
from tests.integration.test_diffs import seen, worktree_of
from tests.integration.test_text_pages import submitted, text_of, wrote
from tests.integration.test_transcript_windows import called, returned, said

SHORT = [form for form in FORMS if len(form) < 2_000]


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InProcessDaemon:
    """A daemon in a home without settings, and a repository."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    repository(tmp_path / "repo", {"kept.txt": "before\n"})
    return create_daemon(tmp_path / "data")


def test_there_are_at_least_two_hundred_forms_and_the_rules_find_most_of_them_where_nothing_is_escaped() -> None:
    assert len(FORMS) >= 200
    caught = [form for form in FORMS if faults_of(f"<p>{form}</p>") or faults_of(f'<p title="{form}">x</p>')]
    assert len(caught) > len(FORMS) * 0.6


@pytest.mark.parametrize("wrap", ["{}", "a\n\n{}\n\nb", "- {}", "```\n{}\n```", "[x]({})", "| a |\n|---|\n| {} |"])
def test_markdown_makes_nothing_but_allowed_elements(wrap: str) -> None:
    for form in FORMS:
        html = str(markdown(wrap.replace("{}", form)))
        assert faults_of(html) == [], form
        assert {tag for tag, _ in parsed(html).elements} <= FROM_TEXTS, form


@pytest.mark.parametrize("name", ["x.py", "x.html", "x.js", "x.json", "x.php", "x.diff", "x"])
def test_code_and_changes_make_nothing_but_spans_and_marks(name: str) -> None:
    for form in SHORT:
        lines = tuple(
            DiffLine(kind=kind, text=text)
            for kind, text in ((LineKind.REMOVED, f"a {form} b"), (LineKind.ADDED, f"a {form}; b"))
        )
        hunks = shown_hunks(name, [Hunk(heading=form, lines=lines, old_start=1, new_start=1, header="")])
        rows = [str(row.html) for row in (*hunks[0].rows, *shown_edit(name, form, f"{form} x", inf).rows)]
        for html in (*rows, *map(str, code_lines(name, form))):
            found = parsed(html)
            assert {tag for tag, _ in found.elements} <= {"span", "mark"}, form
            assert faults_of(html) == [], form


async def test_transcripts_show_every_form_as_text(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    task_id = await submitted(client, daemon)
    for form in SHORT:
        edit = {"file_path": form[:300], "old_string": form, "new_string": f"{form}!"}
        wrote(daemon, task_id, said(form), called(form[:100], {"command": form}), called("Edit", edit), returned(form))
    here, at, shown = f"/tasks/{task_id}/transcript/1", 0, 0
    while True:
        page = await text_of(client, f"{here}?at={at}")
        assert faults_of_page(page) == []
        shown += page.count(SENTINEL)
        window = (await client.get(f"/api{here.replace('transcript', 'agents')}/entries?at={at}")).json()
        if not window["more"]:
            break
        at = window["end"]
    assert shown > len(SHORT)


async def test_a_search_for_a_form_is_shown_as_text(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    task_id = await submitted(client, daemon)
    wrote(daemon, task_id, *(said(str(number)) for number in range(120)))
    here = f"/tasks/{task_id}/transcript/1"
    plain = skeleton((await client.get(here, params={"text": "nothing", "at": 5000})).text)
    for form in SHORT[::9]:
        page = await client.get(here, params={"text": form[:400], "at": 5000})
        assert skeleton(page.text) == plain, form


async def test_diffs_show_forms_in_names_lines_and_messages_as_text(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task_id = await submitted(client, daemon)
    worktree = worktree_of(daemon, task_id, daemon.settings.data_dir.parent)
    names = [name for name in FILE_NAMES if len(os.fsencode(name)) < 250 and max(name) < "\ud800"]
    commit(worktree, {name: f"{form}\n" for name, form in zip(names, SHORT, strict=False)})
    commit(worktree, {"kept.txt": "\n".join(SHORT)}, SHORT[0])
    seen(daemon, task_id, worktree)
    page = await text_of(client, f"/tasks/{task_id}/diff")
    assert faults_of_page(page) == []
    files = (await client.get(f"/api/tasks/{task_id}/diff")).json()["files"]
    assert len(files) > 200
    for file in [*files[::30], next(one for one in files if one["path"] == "kept.txt")]:
        for view in ("unified", "split"):
            assert faults_of_page(await text_of(client, f"/tasks/{task_id}/diff/{file['id']}?view={view}")) == []
    for form in SHORT[::40]:
        data = {"file": "kept.txt", "line": "1", "text": form[:900]}
        await client.post(f"/tasks/{task_id}/diff/comments", data=data)
    assert faults_of_page(await text_of(client, f"/tasks/{task_id}/diff/kept.txt")) == []
    assert faults_of(await text_of(client, f"/tasks/{task_id}/diff/draft")) == []


async def test_artifacts_show_forms_as_text(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    task_id = await submitted(client, daemon)
    folder = daemon.store.files.path_of(task_id)
    for ending, text in (("md", "\n\n".join(SHORT)), ("json", "\n".join(SHORT)), ("toml", "\n".join(SHORT))):
        (folder / f"hostile.{ending}").write_text(text, "utf-8", "replace")
        assert faults_of_page(await text_of(client, f"/tasks/{task_id}/artifacts/hostile.{ending}")) == []
    name = "<img src=x onerror=x_ss(1)>.md"
    (folder / name).write_text("x")
    assert faults_of_page(await text_of(client, f"/tasks/{task_id}/artifacts")) == []
    assert faults_of_page((await client.get(f"/tasks/{task_id}/artifacts/{name}")).text) == []


async def test_a_ticket_of_any_form_changes_no_page_of_its_task(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    repo = str(daemon.settings.data_dir.parent / "repo")
    for form in SHORT[::20]:
        answer = await client.post("/api/tasks", json={"text": f"{form[:300]}\n\n{form}", "repo": repo, "draft": True})
        if answer.status_code != 201:
            continue
        task_id = answer.json()["id"]
        for page in ("", "/transcript", "/diff", "/artifacts"):
            found = await client.get(f"/tasks/{task_id}{page}")
            assert faults_of_page(found.text) == [], form

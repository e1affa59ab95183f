"""Pages of long texts over a real socket: transcripts, diffs with comments, artifacts."""

import re
from pathlib import Path

import httpx
import pytest

from orchestrator.core.task.user_requests import RequestDraft, Subject
from tests.fakes.in_process_daemon import InProcessDaemon, create_daemon
from tests.fakes.repositories import commit, repository
from tests.integration.test_diffs import seen, worktree_of
from tests.integration.test_transcript_windows import called, returned, said

FROM_HTMX = {"HX-Request": "true"}


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InProcessDaemon:
    """A daemon in a home without settings, and a repository."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    repository(tmp_path / "repo", {"kept.py": "a = 1\nb = 2\n"})
    return create_daemon(tmp_path / "data")


async def submitted(client: httpx.AsyncClient, daemon: InProcessDaemon) -> str:
    body = {"text": "Change it", "repo": str(daemon.settings.data_dir.parent / "repo"), "autonomy": "interactive"}
    task_id: str = (await client.post("/api/tasks", json=body)).json()["id"]
    await daemon.inbox.settled()
    return task_id


def wrote(daemon: InProcessDaemon, task_id: str, *parts: bytes, ended: bool = True) -> None:
    """Let the task's first agent have written this."""
    folder = daemon.store.files.path_of(task_id) / "agents/1"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "stdout.jsonl").open("ab") as output:
        output.writelines(parts)
    if ended:
        (folder / "exit").write_text("{}")


def changed(daemon: InProcessDaemon, task_id: str, files: dict[str, str]) -> None:
    """Let the task's branch have these files."""
    worktree = worktree_of(daemon, task_id, daemon.settings.data_dir.parent)
    commit(worktree, files)
    seen(daemon, task_id, worktree)


async def text_of(client: httpx.AsyncClient, path: str, **headers: str) -> str:
    answer = await client.get(path, headers=headers, follow_redirects=True)
    assert answer.status_code == 200, answer.text
    return answer.text


async def test_a_transcript_shows_words_as_markdown_and_a_call_with_its_edit_and_result(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task_id = await submitted(client, daemon)
    assert "No agent has worked" in await text_of(client, f"/tasks/{task_id}/transcript")
    edit = {"file_path": "/w/a.py", "old_string": "x = 1", "new_string": "x = 2"}
    wrote(daemon, task_id, said("**bold** <b>tag</b>"), called("Edit", edit), returned("updated", failed=True))
    page = await text_of(client, f"/tasks/{task_id}/transcript")
    assert "<strong>bold</strong> &lt;b&gt;tag&lt;/b&gt;" in page
    assert page.count('class="entry') == 2
    assert "<mark>2</mark>" in page
    assert 'class="failed">updated</pre>' in page


async def test_a_transcript_that_grows_is_continued_where_the_page_ended(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task_id = await submitted(client, daemon)
    wrote(daemon, task_id, *(said(f"entry {number}.") for number in range(250)), ended=False)
    page = await text_of(client, f"/tasks/{task_id}/transcript")
    assert ("entry 149." in page, "entry 150." in page, "entry 249." in page) == (False, True, True)
    tail = re.search(r'class="tail" hx-get="([^"]+)"', page)
    assert tail is not None
    wrote(daemon, task_id, said("one more"))
    part = await text_of(client, tail[1].replace("&amp;", "&"), **FROM_HTMX)
    assert ("one more" in part, "entry 249." in part, "<html" in part) == (True, False, False)
    assert 'class="tail"' not in part
    earlier = re.search(r'data-earlier="at" href="([^"]+)"', page)
    assert earlier is not None
    before = await text_of(client, earlier[1].replace("&amp;", "&"))
    assert ("entry 49." in before, "entry 50." in before, "entry 149." in before) == (False, True, True)


async def test_a_search_and_a_jump_lead_to_entries_far_away(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    task_id = await submitted(client, daemon)
    many = [said(f"entry {number}.") for number in range(300)]
    wrote(daemon, task_id, *many[:200], returned("it broke", failed=True), *many[200:])
    here = f"/tasks/{task_id}/transcript/1"
    found = await text_of(client, f"{here}?at=0&text=ENTRY+123.")
    assert ("entry 123." in found, "entry 124." in found) == (True, False)
    jumped = await client.get(f"{here}/error?at=0")
    assert jumped.status_code == 303
    assert "it broke" in await text_of(client, jumped.headers["location"])
    at = re.search(r"at=(\d+)", jumped.headers["location"])
    assert at is not None
    assert "no further error" in await text_of(client, f"{here}/error?at={int(at[1]) + 1}")
    back = await client.get(f"{here}/error?at={10**6}&backward=true")
    assert back.headers["location"] == jumped.headers["location"]


async def test_a_search_that_read_its_part_in_vain_says_how_far_it_looked_and_goes_on(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task_id = await submitted(client, daemon)
    wrote(daemon, task_id, said("the needle."), *[said("hay " * 8000) for _ in range(300)])
    page = await text_of(client, f"/tasks/{task_id}/transcript/1?text=needle")
    assert re.search(r"nothing here, from [\d.]+ \w+ to ([\d.]+ \w+) of \1\.", page)
    on = re.search(r'href="([^"]+)">Search on<', page)
    assert on is not None
    found = await text_of(client, on[1].replace("&amp;", "&"))
    assert ("the needle." in found, "Search on" in found) == (True, False)
    nothing = await text_of(client, f"/tasks/{task_id}/transcript/1?text=straw&at=10&backward=true")
    assert ("nothing here" in nothing, "Search on" in nothing) == (True, False)


async def test_a_diff_lists_files_and_each_shows_its_change_both_ways(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task_id = await submitted(client, daemon)
    assert "no branch yet" in await text_of(client, f"/tasks/{task_id}/diff")
    changed(daemon, task_id, {"kept.py": "a = 1\nb = 20\n", "new <b>.txt": "x\n"})
    page = await text_of(client, f"/tasks/{task_id}/diff")
    assert "new &lt;b&gt;.txt" in page
    addresses = re.findall(rf'hx-get="(/tasks/{task_id}/diff/[0-9a-f]+\?view=unified)"', page)
    assert len(addresses) == 2
    part = await text_of(client, addresses[0], **FROM_HTMX)
    assert "<html" not in part
    assert '<td class="code removed">b = <span class="t-number"><mark>2</mark></span></td>' in part
    split = await text_of(client, addresses[0].replace("unified", "split"))
    assert '<table class="diff split">' in split
    assert "<html" in split


async def test_a_long_file_is_continued_in_parts(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    task_id = await submitted(client, daemon)
    changed(daemon, task_id, {"long.txt": "".join(f"line {number}.\n" for number in range(3500))})
    page = await text_of(client, f"/tasks/{task_id}/diff/long.txt")
    more = re.search(r'<a class="button" href="([^"]+)" hx-get', page)
    assert more is not None
    rest = await text_of(client, more[1].replace("&amp;", "&"), **FROM_HTMX)
    assert ("line 0." in page, "line 3499." in page, "line 3499." in rest) == (True, False, True)


async def test_comments_on_lines_become_the_feedback_of_the_review(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task_id = await submitted(client, daemon)
    changed(daemon, task_id, {"kept.py": "a = 1\nb = 20\n"})
    files = (await client.get(f"/api/tasks/{task_id}/diff")).json()["files"]
    home, file = f"/tasks/{task_id}/diff", files[0]["id"]
    form = await text_of(client, f"{home}/{file}/comment?side=new&line=2", **FROM_HTMX)
    assert f'action="{home}/comments"' in form
    comment = {"file": file, "side": "new", "line": "2", "text": "why <20>?"}
    kept = await client.post(f"{home}/comments", data=comment, headers=FROM_HTMX)
    assert (kept.status_code, "why &lt;20&gt;?" in kept.text) == (200, True)
    await client.post(f"{home}/comments", data={**comment, "side": "old", "text": "was better"})
    assert "why &lt;20&gt;?" in await text_of(client, f"{home}/{file}", **FROM_HTMX)
    early = await client.post(f"{home}/request-changes", data={"text": "no"})
    assert (early.status_code, "no review of" in early.text) == (404, True)
    await daemon.let_ask(task_id, RequestDraft(subject=Subject.PLAN, text="Is it good?"))
    page = await text_of(client, home)
    assert ("Is it good?" in page, "was better" in page) == (True, True)
    assert (await client.post(f"{home}/request-changes", data={"text": "Mend this."})).status_code == 303
    review = (await client.get(f"/api/reviews/{task_id}.1")).json()
    assert review["status"] == "changes_requested"
    assert review["answer"] == "Mend this.\n\nkept.py:2: why <20>?\nkept.py:2 (before the change): was better"
    assert "was better" not in await text_of(client, f"{home}/draft")


async def test_a_comment_can_be_dropped_and_an_unfit_one_is_refused(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task_id = await submitted(client, daemon)
    changed(daemon, task_id, {"kept.py": "a = 1\n"})
    home = f"/tasks/{task_id}/diff"
    for text, line, status in (("  ", 1, 422), ("x" * 4001, 1, 422), ("fine", -1, 400)):
        data = {"file": "kept.py", "line": str(line), "text": text}
        assert (await client.post(f"{home}/comments", data=data)).status_code == status
    await client.post(f"{home}/comments", data={"file": "kept.py", "line": "1", "text": "fine"})
    assert "fine" in await text_of(client, f"{home}/draft")
    assert (await client.post(f"{home}/comments/1/remove")).status_code == 303
    assert "fine" not in await text_of(client, f"{home}/draft")
    assert (await client.post(f"{home}/comments/1/remove")).status_code == 404


async def test_artifacts_are_rendered_by_kind_and_downloads_are_shown_by_no_browser(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task_id = await submitted(client, daemon)
    folder = daemon.store.files.path_of(task_id)
    (folder / "plan.md").write_text("# Plan\n[x](https://evil.example/a) <script>\n")
    (folder / "facts.json").write_text('{"a":[1,"<b>"]}')
    page = await text_of(client, f"/tasks/{task_id}/artifacts")
    assert f'href="/tasks/{task_id}/artifacts/plan.md"' in page
    plan = await text_of(client, f"/tasks/{task_id}/artifacts/plan.md")
    assert '<span class="host">(evil.example)</span>' in plan
    assert 'rel="noopener noreferrer nofollow"' in plan
    assert "&lt;script&gt;" in plan
    assert "# Plan" in await text_of(client, f"/tasks/{task_id}/artifacts/plan.md?source=true")
    assert "&#34;&lt;b&gt;&#34;" in await text_of(client, f"/tasks/{task_id}/artifacts/facts.json")
    sent = await client.get(f"/tasks/{task_id}/artifacts/plan.md?download=true")
    assert sent.headers["content-type"] == "application/octet-stream"
    assert sent.headers["content-disposition"] == "attachment; filename*=UTF-8''plan.md"
    assert sent.headers["x-content-type-options"] == "nosniff"
    kinds = {
        one["path"]: one["kind"] for one in (await client.get(f"/api/tasks/{task_id}/artifacts")).json()["artifacts"]
    }
    assert (kinds["plan.md"], kinds["facts.json"], kinds["pipeline.toml"]) == ("markdown", "json", "text")
    assert (await client.get(f"/tasks/{task_id}/artifacts/none.md")).status_code == 404

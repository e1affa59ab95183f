"""A hostile web site in a real browser whose user is logged in: on another port of this machine, by two names."""

from collections.abc import Iterator

import pytest
from playwright.async_api import Browser

from tests.browser.site import Site, site
from tests.fakes.loopback_server import Handler, LoopbackServer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

PAGE = """<!doctype html><title>evil</title><iframe name="hidden" src="ORIGIN/"></iframe>
<form id="form" method="post" target="hidden" action="ORIGIN/api/pause"><input name="a" value="b"></form>
<form id="text" method="post" target="hidden" enctype="text/plain" action="ORIGIN/api/tasks">
  <input name='{"text": "planted", "repo": "/", "a": "' value='"}'></form>
<script>
  window.got = {};
  const note = (name, promise) => promise.then(
    (answer) => { got[name] = "read " + answer; }, () => { got[name] = "refused"; });
  const whole = (answer) => answer.text().then((text) => answer.status + " " + text.slice(0, 80));
  const ask = (path, more) => fetch("ORIGIN" + path, {credentials: "include", ...more}).then(whole);
  window.done = Promise.all([
    note("read", ask("/api/tasks")),
    note("read without cors", ask("/api/tasks", {mode: "no-cors"}).then((text) => {
      if (text.startsWith("0 ")) { throw text; } return text; })),
    note("write", ask("/api/pause", {method: "POST"})),
    note("write without cors", ask("/api/pause", {method: "POST", mode: "no-cors"}).then((text) => {
      if (text.startsWith("0 ")) { throw text; } return text; })),
    note("write with a header", ask("/api/pause", {method: "POST", headers: {"X-A": "1"}})),
    note("delete", ask("/api/tokens/x", {method: "DELETE"})),
    note("script", new Promise((read, refuse) => {
      const one = document.createElement("script");
      one.src = "ORIGIN/api/status"; one.onload = () => read("it"); one.onerror = refuse;
      document.head.append(one); })),
    note("image", new Promise((read, refuse) => {
      const one = new Image();
      one.onload = () => read("it"); one.onerror = refuse; one.src = "ORIGIN/static/icon.svg"; })),
    note("socket", new Promise((read, refuse) => {
      const one = new WebSocket("ORIGIN/live".replace("http", "ws"));
      one.onopen = () => read("it"); one.onerror = refuse; })),
    note("stream", new Promise((read, refuse) => {
      const one = new EventSource("ORIGIN/api/events", {withCredentials: true});
      one.onopen = () => read("it"); one.onerror = () => { one.close(); refuse(); }; })),
    note("window", new Promise((read, refuse) => {
      const other = window.open("ORIGIN/"); setTimeout(() => {
        try { read(other.document.title); } catch { refuse(); } }, 1500); })),
  ]).then(() => { document.getElementById("form").submit(); });
  window.beacon = navigator.sendBeacon("ORIGIN/api/pause", "x");
</script>"""
"""Everything that a page can make a browser send to another origin, and what it learns from each."""


class HostileSite(LoopbackServer):
    """Serves the page on a port of its own; what browsers send it is kept nowhere."""

    def __init__(self, target: str) -> None:
        super().__init__(_Page)
        self.content = PAGE.replace("ORIGIN", target).encode()


class _Page(Handler[HostileSite]):
    def do_GET(self) -> None:
        self.send(200, self.stand_in.content, {"Content-Type": "text/html"})


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A daemon whose user the site attacks."""
    with site(tmp_path_factory.mktemp("victim") / "root") as found:
        yield found


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
async def test_a_hostile_site_learns_and_changes_nothing(chromium: Browser, victim: Site, name: str) -> None:
    context = await chromium.new_context()
    own = await context.new_page()
    await own.goto(victim.link())
    await own.get_by_role("button").click()
    await own.wait_for_url(f"{victim.origin}/")
    with HostileSite(victim.origin) as site_elsewhere:
        evil = await context.new_page()
        await evil.goto(f"http://{name}:{site_elsewhere.port}/")
        async with evil.expect_response(f"{victim.origin}/api/pause") as paused:
            await evil.evaluate("done")
        async with evil.expect_response(f"{victim.origin}/api/tasks") as submitted:
            await evil.evaluate("document.getElementById('text').submit()")
        statuses = [(await answer.value).status for answer in (paused, submitted)]
        got = await evil.evaluate("got")
    assert statuses == [403, 403]
    assert {what: said for what, said in got.items() if said != "refused"} == {}
    assert len(got) == 11
    status = victim.harness.client.status()
    assert (status.paused_by, status.counts) == (None, {})
    await own.goto(f"{victim.origin}/board")
    assert "orchestrator" in await own.title()
    await context.close()

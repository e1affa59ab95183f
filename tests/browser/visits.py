"""One reader's browser: a context of its own, one page, and a record of everything that must not happen there."""

from dataclasses import dataclass, field
from typing import Literal, TypedDict, Unpack
from urllib.parse import urlsplit

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Error, Page, Request, Response

from tests.attacks.xss_forms import SENTINEL

PATIENCE = 30_000.0
"""Milliseconds that a browser waits for what must come; the machine may be busy."""
WIDE, PHONE = (1280, 800), (390, 844)
ZONE = "Asia/Seoul"
OWN_SCHEMES = ("data", "blob", "about")
RECORDER = (
    f"""
window.{SENTINEL} = (...given) => console.error("EXECUTED " + given.join(" "));
"""
    """
for (const name of ["alert", "confirm", "prompt", "print"]) {
  window[name] = (...given) => console.error("EXECUTED " + name + " " + given.join(" "));
}
document.addEventListener("securitypolicyviolation", (event) => {
  console.error("VIOLATED " + event.effectiveDirective + " " + event.blockedURI + " " + event.sample);
});
"""
)
"""Runs before every page: a script that got into a page calls one of these, or is stopped by the page's policy."""

SCROLL_THROUGH = """
async () => {
  for (let at = 0; at < document.documentElement.scrollHeight && at < 20000; at += window.innerHeight / 2) {
    window.scrollTo(0, at);
    await new Promise(requestAnimationFrame);
  }
  window.scrollTo(0, 0);
}
"""

SAID_ELSEWHERE = ("Failed to load resource", "htmx:afterRequest", "htmx:sendAbort", "htmx:sendError")
"""What the console repeats of answers and failed requests."""

Scheme = Literal["light", "dark"]


class Look(TypedDict, total=False):
    """How a browser is set up."""

    color_scheme: Scheme
    viewport: tuple[int, int]
    locale: str
    java_script: bool
    reduced_motion: Literal["reduce", "no-preference"]


@dataclass
class Seen:
    """What the pages of one browser did: requests to other origins, scripts that ran, refusals of the policy, errors.

    `missed` are the answers of 400 and above and the requests that failed; `requests` are all, as method and path.
    """

    origin: str
    foreign: list[str] = field(default_factory=list)
    executed: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def on_request(self, request: Request) -> None:
        """Record a request, and whether it leaves the origin."""
        parts = urlsplit(request.url)
        if parts.scheme not in OWN_SCHEMES and f"{parts.scheme}://{parts.netloc}" != self.origin:
            self.foreign.append(request.url)
        self.requests.append(f"{request.method} {parts.path}")
        if parts.path == "/csp-reports":
            self.violations.append(f"reported: {request.post_data}")

    def on_response(self, response: Response) -> None:
        """Record an answer that is an error."""
        if response.status >= 400:
            self.missed.append(f"{response.status} {urlsplit(response.url).path}")

    def on_failure(self, request: Request) -> None:
        """Record a request that got no answer; those of a page that is left are given up."""
        if request.failure != "net::ERR_ABORTED":
            self.missed.append(f"{request.failure} {request.method} {urlsplit(request.url).path}")

    def on_console(self, message: ConsoleMessage) -> None:
        """Record an error of the page; answers and requests that fail or are given up are recorded as such."""
        text = message.text
        if text.startswith("EXECUTED "):
            self.executed.append(text)
        elif text.startswith("VIOLATED ") or "Content Security Policy" in text:
            self.violations.append(text)
        elif message.type == "error" and not text.startswith(SAID_ELSEWHERE):
            self.errors.append(text)

    def on_page_error(self, error: Error) -> None:
        """Record an exception that no script caught."""
        self.errors.append(str(error))

    @property
    def unsafe(self) -> list[str]:
        """What must never happen, whatever a page shows."""
        return [*self.foreign, *self.executed, *self.violations]

    @property
    def faults(self) -> list[str]:
        """Everything that must not happen while all is well."""
        return [*self.unsafe, *self.errors, *self.missed]


@dataclass(frozen=True)
class Visit:
    """A browser that is logged in and shows one page at a time; `seen` is the record of all its pages."""

    context: BrowserContext
    page: Page
    seen: Seen

    async def open(self, path: str) -> Page:
        """Go to a page and wait until it is loaded."""
        answer = await self.page.goto(f"{self.seen.origin}{path}", wait_until="load")
        assert answer is not None, path
        assert answer.status < 400, f"{path}: {answer.status} {(await answer.text())[:500]}"
        return self.page

    async def open_whole(self, path: str) -> Page:
        """Go to a page and scroll through it until all parts are there that it fetches later."""
        page = await self.open(path)
        await page.evaluate(SCROLL_THROUGH)
        await page.wait_for_function("() => !document.querySelector('.htmx-request')")
        return page

    async def overflow(self) -> int:
        """How many pixels of the page are beyond its right edge."""
        return int(await self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))


async def begin_visit(browser: Browser, origin: str, link: str, **look: Unpack[Look]) -> Visit:
    """Open a browser of its own and log in by a one-time link."""
    width, height = look.get("viewport", WIDE)
    context = await browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=look.get("color_scheme", "light"),
        reduced_motion=look.get("reduced_motion", "no-preference"),
        locale=look.get("locale", "en-GB"),
        java_script_enabled=look.get("java_script", True),
        timezone_id=ZONE,
    )
    context.set_default_timeout(PATIENCE)
    seen = Seen(origin)
    context.on("request", seen.on_request)
    context.on("response", seen.on_response)
    context.on("requestfailed", seen.on_failure)
    context.on("console", seen.on_console)
    context.on("weberror", lambda error: seen.on_page_error(error.error))
    await context.add_init_script(RECORDER)
    page = await context.new_page()
    await page.goto(link, wait_until="load")
    await page.get_by_role("button").click()
    await page.wait_for_url(f"{origin}/")
    return Visit(context, page, seen)

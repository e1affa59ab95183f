"""Pages as a browser without scripts uses them: their text, their links, and their forms, which can be sent."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

import httpx

VOID = frozenset({"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"})


@dataclass
class Form:
    """A form: where it is sent, its fields with their present values, and its buttons by their texts."""

    action: str
    fields: dict[str, str] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    buttons: dict[str, tuple[str, str]] = field(default_factory=dict)


class Page(HTMLParser):
    """One page that was read."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.source = text
        self.forms: list[Form] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self._words: list[str] = []
        self._open: list[str] = []
        self._button: tuple[str, str] | None = None
        self._select = ""
        self._textarea = ""
        self.feed(text)
        assert self._open == [], f"these are never closed: {self._open}"

    @property
    def text(self) -> str:
        """All words of the page, with single spaces."""
        return " ".join(" ".join(self._words).split())

    def form(self, end: str) -> Form:
        """The one form whose address ends so."""
        (found,) = [form for form in self.forms if form.action.endswith(end)]
        return found

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag not in VOID:
            self._open.append(tag)
        if "id" in values:
            assert values["id"] not in self.ids, f"the id {values['id']} is there twice"
            self.ids.append(values["id"])
        match tag:
            case "a" if "href" in values:
                self.links.append(values["href"])
            case "form":
                self.forms.append(Form(action=values.get("action", "")))
            case "input" if values.get("name"):
                self._field(values["name"], values.get("value", ""), values.get("type", "text"))
            case "textarea":
                self._textarea = values["name"]
                self._field(values["name"], "", tag)
            case "select":
                self._select = values["name"]
            case "option" if self._select and ("selected" in values or self._select not in self.forms[-1].fields):
                self._field(self._select, values["value"], "select")
            case "button":
                self._button = values.get("name", ""), values.get("value", "")

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open.pop() == tag, f"</{tag}> closes something else"
        if tag == "textarea":
            self._textarea = ""
        if tag == "select":
            self._select = ""

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] in {"script", "style"}:
            return
        if self._textarea:
            self.forms[-1].fields[self._textarea] += data
        self._words.append(data)
        if self._button is not None and data.strip():
            self.forms[-1].buttons[data.strip()] = self._button
            self._button = None

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def _field(self, name: str, value: str, kind: str) -> None:
        self.forms[-1].fields[name] = value
        self.forms[-1].kinds[name] = kind


@dataclass
class Reader:
    """Somebody who reads pages over a daemon's socket and sends their forms."""

    http: httpx.Client

    def open(self, path: str) -> Page:
        """The page at an address, which must be there."""
        answer = self.http.get(path, follow_redirects=True)
        assert answer.status_code == 200, answer.text
        return Page(answer.text)

    def send(self, form: Form, button: str, **values: str) -> httpx.Response:
        """Press a button of a form after filling in some of its fields, and follow where that leads."""
        name, value = form.buttons[button]
        assert set(values) <= set(form.fields), form
        body = {**form.fields, **values, **({name: value} if name else {})}
        return self.http.post(form.action, data=body, follow_redirects=True)

    def press(self, path: str, end: str, button: str, **values: str) -> Page:
        """Open a page, press a button of its form whose address ends so, and read what comes of it."""
        answer = self.send(self.open(path).form(end), button, **values)
        assert answer.status_code == 200, answer.text
        return Page(answer.text)


def reader_of(socket: object) -> Reader:
    """Return a reader of the pages behind a daemon's socket."""
    transport = httpx.HTTPTransport(uds=str(socket))
    return Reader(httpx.Client(transport=transport, base_url="http://orchestrator", timeout=60))

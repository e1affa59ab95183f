"""The languages of the pages: English in the templates, others in texts/<language>.toml, keyed by the English text.

The table `text` has what templates say, `words` the names of statuses and kinds, `times` how lines of crontab are said.
"""

import tomllib
from collections.abc import Mapping
from importlib.resources import files

from fastapi import Request

ENGLISH = "en"
COOKIE = "orchestrator_language"


Texts = Mapping[str, Mapping[str, str]]


def _read_texts() -> dict[str, Texts]:
    folder = files("orchestrator.server.web").joinpath("texts")
    found: dict[str, Texts] = {ENGLISH: {"text": {}, "words": {}, "times": {}}}
    for file in sorted(folder.iterdir(), key=lambda one: one.name):
        name, _, kind = file.name.rpartition(".")
        if kind == "toml":
            found[name] = tomllib.loads(file.read_text(encoding="utf-8"))
    return found


TEXTS: Mapping[str, Texts] = _read_texts()
"""The tables of each language."""


def translate(language: str, text: str, table: str = "text") -> str:
    """Return a text of the pages in a language; in English where it has none."""
    return TEXTS[language][table].get(text, text)


def language_of(request: Request) -> str:
    """Return the language that a reader chose, or else the first one that the browser accepts and the pages have."""
    chosen = request.cookies.get(COOKIE, "")
    if chosen in TEXTS:
        return chosen
    for part in request.headers.get("accept-language", "").split(",")[:20]:
        name = part.split(";")[0].strip().split("-")[0].lower()
        if name in TEXTS:
            return name
    return ENGLISH

"""Foreign text made fit to be shown."""


def escape_text(text: str, limit: int = 200) -> str:
    """The text with control characters and broken encodings escaped, cut at `limit` characters."""
    escaped = "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)
    return escaped if len(escaped) <= limit else escaped[: limit - 1] + "…"


def inert(text: str, limit: int = 1000) -> str:
    """The text on one line of Markdown, in which nothing is markup that hides something."""
    return escape_text(" ".join(text.split()), limit).replace("<", "&lt;").replace("`", "'")


def as_code(text: str, limit: int = 1000) -> str:
    """The text on one line of Markdown, as code."""
    line = escape_text(" ".join(text.split()), limit)
    return f"`` {line} ``" if "`" in line else f"`{line}`"

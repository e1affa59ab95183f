"""Foreign text made fit to be shown."""


def shown(text: str, limit: int = 200) -> str:
    """The text with control characters and broken encodings escaped, cut at `limit` characters."""
    escaped = "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)
    return escaped if len(escaped) <= limit else escaped[: limit - 1] + "…"

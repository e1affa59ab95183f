"""Checks as lines of a form: NAME=COMMAND, with the further lines of a command indented below it."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

from orchestrator.redaction.rules import masks_in
from orchestrator.server.web.editing.masks import MASKED, as_sent

INDENT = "  "


def check_lines(checks: Mapping[str, str], redact: Callable[[str], str]) -> str:
    """Return the lines in which somebody would have typed checks, with their secrets masked."""
    return "".join(f"{_entry(name, command, redact)}\n" for name, command in checks.items())


def typed_checks(text: str) -> dict[str, str]:
    """Return the commands by their checks' names. Raises ValueError."""
    return _distinct(map(_parsed, _entries(text)))


def changed_checks(text: str, stored: Mapping[str, str], redact: Callable[[str], str]) -> dict[str, str]:
    """Return the checks that a form has, those that it shows unchanged as they are stored. Raises ValueError.

    A check that was changed while a secret of it was masked is refused: its secret would be lost.
    """
    left = defaultdict(list)
    for name, command in stored.items():
        left["\n".join(_entries(_entry(name, command, redact)))].append((name, command))
    return _distinct(_kept(_entries(text), left))


def _kept(entries: Iterator[str], left: Mapping[str, list[tuple[str, str]]]) -> Iterator[tuple[str, str]]:
    own = {mask for known in left.values() for _, command in known for mask in masks_in(command)}
    for entry in entries:
        if left.get(entry):
            yield left[entry].pop(0)
        elif not own.issuperset(masks_in(entry)):
            raise ValueError(MASKED)
        else:
            yield _parsed(entry)


def _entry(name: str, command: str, redact: Callable[[str], str]) -> str:
    """Return a check as it is shown; what is withheld as a whole is still said by its name."""
    shown = redact(f"{name}={command}")
    if not shown.startswith(f"{name}="):
        shown = f"{redact(name)}={shown}"
    return as_sent(shown).strip().replace("\n", f"\n{INDENT}")


def _entries(text: str) -> Iterator[str]:
    """Yield each check with the lines that belong to it; lines without anything at its end do not."""
    lines: list[str] = []
    for line in as_sent(text).split("\n"):
        if lines and (not line.strip() or line.startswith((INDENT, "\t"))):
            lines.append(line if line.strip() else "")
        elif line.strip():
            if lines:
                yield "\n".join(lines).rstrip()
            lines = [line.strip()]
    if lines:
        yield "\n".join(lines).rstrip()


def _parsed(entry: str) -> tuple[str, str]:
    """Return the name and the command of a check. Raises ValueError."""
    first, *more = entry.split("\n")
    name, sign, begin = first.partition("=")
    further = (line.removeprefix("\t" if line.startswith("\t") else INDENT) for line in more)
    command = "\n".join((begin.strip(), *further)).strip()
    if not sign or not name.strip() or not command:
        raise ValueError(f"write each check as NAME=COMMAND, unlike {first!r:.80}; indent a command's further lines")
    return name.strip(), command


def _distinct(checks: Iterator[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, command in checks:
        if name in found:
            raise ValueError(f"two checks are named {name!r:.80}; give each a name of its own")
        found[name] = command
    return found

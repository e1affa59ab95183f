"""What must not leave: secrets in a text, found by rules that are data, and masked, refused or warned of.

Every expression is tried over the whole text, and whatever overlaps is masked as one: under the name of the longest
match, and of the earliest if two are as long. So no end of a secret stays behind, whichever rule saw more of it. A text
over one MiB is refused unread (sources.md §1.5). Expressions must be linear in the text's length; those that ship are
measured against hostile texts.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from orchestrator.core.table import DefinitionError, Table, nearest
from orchestrator.core.toml import read_toml

LARGEST_TEXT = 1024 * 1024
"""Bytes of UTF-8."""

_RULE_ID = re.compile(r"[a-z][a-z0-9_]*")


class Action(StrEnum):
    """What a match of a rule means for the text."""

    BLOCK = "block"
    REDACT = "redact"
    WARN = "warn"


class Result(StrEnum):
    """What became of a text."""

    CLEAN = "CLEAN"
    REDACTED = "REDACTED"
    BLOCKED = "BLOCKED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What one kind of secret looks like, and what is done about it.

    A match counts if its characters are as mixed as `min_entropy` (Shannon's, in bits each) and it is not wholly
    `unless`.
    """

    id: str
    action: Action
    pattern: re.Pattern[str]
    unless: re.Pattern[str] | None = None
    min_entropy: float = 0.0

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Where in the text the rule finds what it looks for."""
        for match in self.pattern.finditer(text):
            if self.unless is not None and self.unless.fullmatch(match[0]):
                continue
            if self.min_entropy and _entropy(match[0]) < self.min_entropy:
                continue
            yield match.span()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What the rules made of a text; a blocked text is empty."""

    result: Result
    text: str
    redacted: tuple[str, ...] = ()
    """The rule of every mask in the text, in its order."""
    blocked: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class Redactor:
    """A set of rules, ready to be put to texts."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = tuple(rules)

    def scan(self, text: str) -> Scan:
        """What is left of a text once nothing in it must be kept back."""
        if len(text) > LARGEST_TEXT or len(text.encode("utf-8", "surrogatepass")) > LARGEST_TEXT:
            return Scan(result=Result.BLOCKED, text="", blocked=("payload_too_large",))
        found = [(rule, list(rule.spans(text))) for rule in self._rules]
        blocked = tuple(rule.id for rule, spans in found if spans and rule.action is Action.BLOCK)
        if blocked:
            return Scan(result=Result.BLOCKED, text="", blocked=blocked)
        masks = _masks((rule.id, *span) for rule, spans in found if rule.action is Action.REDACT for span in spans)
        return Scan(
            result=Result.REDACTED if masks else Result.CLEAN,
            text=_masked(text, masks),
            redacted=tuple(name for name, _, _ in masks),
            warnings=tuple(f"warn:{rule.id}" for rule, spans in found if spans and rule.action is Action.WARN),
        )

    def masked(self, text: str) -> str:
        """A text as it may leave: secrets masked, and one that may not leave at all replaced by the reason."""
        scan = self.scan(text)
        return f"[WITHHELD: {', '.join(scan.blocked)}]" if scan.blocked else scan.text


def parse_rules(text: str, source: str) -> tuple[Rule, ...]:
    """The rules that a TOML text declares; raises DefinitionError with every problem found."""
    table = read_toml(text, source)
    rules = [_rule(inner) for inner in table.tables("rules")]
    table.done()
    seen: set[str] = set()
    for index, rule in enumerate(rules):
        if rule.id in seen:
            table.report.note(("rules", index, "id"), f"there are two rules {rule.id!r}")
        seen.add(rule.id)
    if table.report.problems:
        raise DefinitionError(table.report.in_order())
    return tuple(rules)


def _rule(table: Table) -> Rule:
    name, action = table.text("id"), table.text("action")
    if name and not _RULE_ID.fullmatch(name):
        table.note("id", f"a rule is called in small letters, digits and _, not {name!r}")
    actions = {action.value: action for action in Action}
    if action and action not in actions:
        table.note("action", f"unknown action {action!r}; {nearest(action, actions)}")
    rule = Rule(
        id=name,
        action=actions.get(action, Action.BLOCK),
        pattern=_expression(table, "pattern"),
        unless=_expression(table, "unless") if table.has("unless") else None,
        min_entropy=table.number("min_entropy", default=0.0),
    )
    table.done()
    return rule


def _expression(table: Table, name: str) -> re.Pattern[str]:
    text = table.text(name)
    try:
        expression = re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        table.note(name, f"{name} is no regular expression: {error}")
        return re.compile("")
    if expression.match(""):
        table.note(name, f"{name} matches the empty text, so it would match everywhere")
    return expression


def _masks(found: Iterable[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """One mask for each run of overlapping matches, named by the longest, then by the earliest of them."""
    masks: list[tuple[str, int, int]] = []
    longest = 0
    for name, start, end in sorted(found, key=lambda match: (match[1], match[1] - match[2])):
        if masks and start < masks[-1][2]:
            kept, first, last = masks[-1]
            masks[-1] = (name if end - start > longest else kept, first, max(last, end))
            longest = max(longest, end - start)
        else:
            masks.append((name, start, end))
            longest = end - start
    return masks


def _masked(text: str, masks: Iterable[tuple[str, int, int]]) -> str:
    pieces, last = [], 0
    for name, start, end in masks:
        pieces += [text[last:start], f"[REDACTED:{name}]"]
        last = end
    return "".join((*pieces, text[last:]))


def _entropy(text: str) -> float:
    return -sum(count / len(text) * math.log2(count / len(text)) for count in Counter(text).values())

"""Find secrets in a text by rules that are data, and mask them, refuse the text, or warn.

Every expression is tried on the whole text, and on its plainest form (`clean_unicode`) if that differs. A single match
of a blocking rule blocks the whole text. Otherwise overlapping matches are masked as one, under the name of the
longest, then of the earliest, then of the rule declared first, so that no part of a secret remains. A text over 1 MiB
is refused without being scanned, and so is one with more than `MOST_SECRETS` matches. So the time is linear in the
text's length for any text and any rule; see `expressions`.

Not found: encoded secrets (base64, hexadecimal, percent-encoding, archives) other than private keys; secrets broken
over several lines, other than the header of a private key; and secrets in look-alike letters of other alphabets. A text
in UTF-16 that is read as UTF-8 has a zero byte beside each letter, which the plainest form leaves out.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import islice

from orchestrator.formats.table import DefinitionError, Table, nearest
from orchestrator.formats.toml import read_toml
from orchestrator.redaction.display import clean_unicode
from orchestrator.redaction.expressions import Expression, Span

LARGEST_TEXT = 1024 * 1024
"""Bytes of UTF-8."""

TOO_LARGE = "payload_too_large"
"""Used in a finding instead of a rule's id if the text was refused without being scanned."""

MOST_SECRETS = 10_000
TOO_MANY = "too_many_secrets"
"""Used in a finding instead of a rule's id if a text has more matches than this, of rules that mask or block."""
LONGEST_KEPT, MOST_KEPT = 500, 4096
"""Characters of a text whose masked form is kept, and how many are."""
_MOST_WARNINGS = 1000
"""Matches of one rule that only warns; what is found later adds nothing."""
_MOST_MEASURED = 4096
"""Bytes of a secret whose entropy is measured."""

_RULE_ID = re.compile(r"[a-z][a-z0-9_]*")
_MASK = re.compile(r"\[REDACTED:[a-z0-9_]+\]|\[WITHHELD: [a-z0-9_, ]+\]")


class Action(StrEnum):
    """What a match of a rule means for the text."""

    BLOCK = "block"
    REDACT = "redact"
    WARN = "warn"


class Result(StrEnum):
    """The outcome for a text."""

    CLEAN = "CLEAN"
    REDACTED = "REDACTED"
    BLOCKED = "BLOCKED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What one kind of secret looks like, and what is done about it.

    A match occurs only in a text that contains one of `needs`, which are lower case and match any case. The secret is
    the first group of `pattern` that took part in the match, or the whole match. It counts only if it has at most
    `longest` bytes, its entropy reaches `min_entropy` (Shannon, in bits per byte), it does not fully match `unless`,
    and `not_where` does not match where the match begins.
    """

    id: str
    action: Action
    pattern: Expression
    needs: tuple[bytes, ...] = ()
    not_where: Expression | None = None
    unless: Expression | None = None
    min_entropy: float = 0.0
    longest: int = LARGEST_TEXT

    def may_match(self, lowered: bytes) -> bool:
        """Return whether a content can have a match at all; it is given in lower case."""
        for fixed in self.needs:
            if fixed in lowered:
                return True
        return not self.needs

    def spans(self, content: bytes) -> Iterator[Span]:
        """Yield where in a content its secrets are, in order."""
        for begin, (start, end) in self.pattern.find(content):
            if self._counts(content, begin, content[start:end]):
                yield start, end

    def _counts(self, content: bytes, begin: int, secret: bytes) -> bool:
        if len(secret) > self.longest or (self.unless is not None and self.unless.matches(secret)):
            return False
        if self.not_where is not None and self.not_where.matches_at(content, begin):
            return False
        return not self.min_entropy or _entropy(secret[:_MOST_MEASURED]) >= self.min_entropy


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """That a rule matched something, never what; `line` counts from 1, 0 means the text as a whole."""

    rule: str
    action: Action
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The outcome of the rules for a text; a blocked text is empty, and only what blocks it is reported.

    `findings` are in the text's order, one for each mask; warnings come last.
    """

    result: Result
    text: str
    findings: tuple[Finding, ...] = ()

    @property
    def redacted(self) -> tuple[str, ...]:
        """The rule of every mask in the text, in its order."""
        return tuple(finding.rule for finding in self.findings if finding.action is Action.REDACT)

    @property
    def blocked(self) -> tuple[str, ...]:
        """The rules that refuse the text, each once."""
        return tuple(dict.fromkeys(one.rule for one in self.findings if one.action is Action.BLOCK))

    @property
    def warnings(self) -> tuple[str, ...]:
        """A message for every finding that neither masks nor blocks."""
        return tuple(dict.fromkeys(f"warn:{one.rule}" for one in self.findings if one.action is Action.WARN))


class Redactor:
    """A set of rules, ready to scan texts."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = tuple(rules)
        self._stern = tuple(rule for rule in self._rules if rule.action is not Action.WARN)
        self._masked_lately = lru_cache(MOST_KEPT)(self._mask)

    def scan(self, text: str) -> Scan:
        """Return a text with its secrets masked, and everything that was found."""
        return _scan(text, self._rules)

    def masked(self, text: str) -> str:
        """Return a text that may leave: secrets masked, and a blocked text replaced by the reason.

        Short texts, such as titles in lists, are asked for again and again, so the newest of them are kept.
        """
        return self._mask(text) if len(text) > LONGEST_KEPT else self._masked_lately(text)

    def _mask(self, text: str) -> str:
        scan = _scan(text, self._stern)
        return f"[WITHHELD: {', '.join(scan.blocked)}]" if scan.blocked else scan.text


def masks_in(text: str) -> list[str]:
    """Return what stands in a masked text in the place of secrets, in its order."""
    return _MASK.findall(text)


def parse_rules(text: str, source: str) -> tuple[Rule, ...]:
    """Return the rules that a TOML text declares. Raises DefinitionError with every problem found."""
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
        table.note("id", f"a rule's id consists of lower-case letters, digits and _, not {name!r}")
    actions = {action.value: action for action in Action}
    if action and action not in actions:
        table.note("action", f"unknown action {action!r}; {nearest(action, actions)}")
    rule = Rule(
        id=name,
        action=actions.get(action, Action.BLOCK),
        pattern=_expression(table, "pattern"),
        needs=tuple(text.encode() for text in _fixed(table, "needs")),
        not_where=_expression(table, "not_where") if table.has("not_where") else None,
        unless=_expression(table, "unless") if table.has("unless") else None,
        min_entropy=table.number("min_entropy", default=0.0),
        longest=table.whole("longest", at_least=1, default=LARGEST_TEXT),
    )
    table.done()
    return rule


def _fixed(table: Table, name: str) -> tuple[str, ...]:
    texts = table.texts(name, default=())
    for text in texts:
        if not text or text != text.lower():
            table.note(name, f"{name} holds {text!r:.80}; write it in lower case and not empty")
    return texts


def _expression(table: Table, name: str) -> Expression:
    text = table.text(name)
    try:
        expression = Expression(text)
    except ValueError as error:
        table.note(name, f"{name} is not a regular expression that RE2 accepts: {error}")
        return Expression("")
    if expression.is_empty():
        table.note(name, f"{name} matches the empty string, so it would match everywhere")
    return expression


def _scan(text: str, rules: Sequence[Rule]) -> Scan:
    if len(text) > LARGEST_TEXT or len(text.encode("utf-8", "surrogatepass")) > LARGEST_TEXT:
        return _refused(TOO_LARGE)
    found: dict[Action, list[tuple[str, Span]]] = {action: [] for action in Action}
    for rule, span in _matches(text, rules):
        found[rule.action].append((rule.id, span))
        if len(found[Action.BLOCK]) + len(found[Action.REDACT]) > MOST_SECRETS:
            return _refused(TOO_MANY)
    if blocking := found[Action.BLOCK]:
        return Scan(result=Result.BLOCKED, text="", findings=_findings(text, blocking, Action.BLOCK))
    masks = _masks(found[Action.REDACT])
    return Scan(
        result=Result.REDACTED if masks else Result.CLEAN,
        text=_masked(text, masks),
        findings=_findings(text, masks, Action.REDACT) + _findings(text, found[Action.WARN], Action.WARN),
    )


def _refused(reason: str) -> Scan:
    return Scan(result=Result.BLOCKED, text="", findings=(Finding(rule=reason, action=Action.BLOCK, line=0),))


def _matches(text: str, rules: Sequence[Rule]) -> Iterator[tuple[Rule, Span]]:
    yield from _matches_as_is(text, rules)
    if (plain := clean_unicode(text)) is not None:
        for rule, span in _matches_as_is(plain.text, rules):
            yield rule, plain.origin(*span)


def _matches_as_is(text: str, rules: Sequence[Rule]) -> Iterator[tuple[Rule, Span]]:
    """Yield what the rules match in a text, as positions in it."""
    content = text.encode("utf-8", "replace")
    lowered = content.lower()
    for rule in rules:
        if not rule.may_match(lowered):
            continue
        spans = rule.spans(content)
        if rule.action is Action.WARN:
            spans = islice(spans, _MOST_WARNINGS)
        yield from ((rule, span) for span in (spans if len(content) == len(text) else _in_letters(content, spans)))


def _in_letters(content: bytes, spans: Iterable[Span]) -> Iterator[Span]:
    """Yield spans of bytes, which are in order and do not overlap, as spans of characters."""
    at = letters = 0
    for start, end in spans:
        first = letters + len(content[at:start].decode())
        letters = first + len(content[start:end].decode())
        at = end
        yield first, letters


def _findings(text: str, found: Iterable[tuple[str, Span]], action: Action) -> tuple[Finding, ...]:
    """Return the findings in the order of the text; both forms of it may have given the same one."""
    findings, line, last = [], 1, 0
    for (start, _), rule in sorted({(span, rule) for rule, span in found}):
        line += text.count("\n", last, start)
        last = start
        findings.append(Finding(rule=rule, action=action, line=line))
    return tuple(findings)


def _masks(found: Iterable[tuple[str, Span]]) -> list[tuple[str, Span]]:
    """Return one mask for each run of overlapping secrets, named after the longest, then the earliest of them."""
    masks: list[tuple[str, Span]] = []
    longest = 0
    for name, (start, end) in sorted(found, key=lambda match: (match[1][0], -match[1][1])):
        if masks and start < masks[-1][1][1]:
            kept, (first, last) = masks[-1]
            masks[-1] = (name if end - start > longest else kept, (first, max(last, end)))
            longest = max(longest, end - start)
        else:
            masks.append((name, (start, end)))
            longest = end - start
    return masks


def _masked(text: str, masks: Iterable[tuple[str, Span]]) -> str:
    pieces, last = [], 0
    for name, (start, end) in masks:
        pieces += [text[last:start], f"[REDACTED:{name}]"]
        last = end
    return "".join((*pieces, text[last:]))


def _entropy(content: bytes) -> float:
    return -sum(count / len(content) * math.log2(count / len(content)) for count in Counter(content).values())

"""Find secrets in a text by rules that are data, and mask them, refuse the text, or warn.

Every expression is tried on the whole text, and on its plainest form (`clean_unicode`) if that differs. A single match
of a blocking rule blocks the whole text. Otherwise overlapping matches are masked as one, under the name of the
longest, then of the earliest, then of the rule declared first, so that no part of a secret remains. A text over 1 MiB
is refused without being scanned. Expressions must be linear in the text's length; those that ship are measured against
hostile texts.

Not found: encoded secrets (base64, percent-encoding, archives) other than private keys; secrets broken over several
lines, other than the header of a private key; and secrets in look-alike letters of other alphabets.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from orchestrator.formats.table import DefinitionError, Table, nearest
from orchestrator.formats.toml import read_toml
from orchestrator.redaction.display import clean_unicode

LARGEST_TEXT = 1024 * 1024
"""Bytes of UTF-8."""

TOO_LARGE = "payload_too_large"
"""Used in a finding instead of a rule's id if the text was refused without being scanned."""

_RULE_ID = re.compile(r"[a-z][a-z0-9_]*")
_SECRET = "secret"  # noqa: S105 - the name of a group


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


Span = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What one kind of secret looks like, and what is done about it.

    Every match begins with one of `begins`, or, if a rule has none, occurs in a text that contains one of `needs`; both
    are lower case and match any case. The secret is the group of that name, or the whole match if there is no such
    group. It counts only if its entropy reaches `min_entropy` (Shannon, in bits per character) and it does not fully
    match `unless`.
    """

    id: str
    action: Action
    pattern: re.Pattern[str]
    begins: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    unless: re.Pattern[str] | None = None
    min_entropy: float = 0.0

    def spans(self, text: str, lowered: str) -> list[Span]:
        """Return where in the text its secrets are; `lowered` is the same text in lower case, of the same length."""
        for fixed in self.begins or self.needs or ("",):
            if fixed in lowered:
                break
        else:
            return []
        matches = self._by_beginning(text, lowered) if self.begins else self.pattern.finditer(text)
        named = _SECRET in self.pattern.groupindex
        spans = (match.span(_SECRET if named and match[_SECRET] else 0) for match in matches)
        return [(start, end) for start, end in spans if self._counts(text[start:end])]

    def _by_beginning(self, text: str, lowered: str) -> Iterator[re.Match[str]]:
        """Search for the fixed prefixes first, which is far faster than any expression."""
        for begin in self.begins:
            at = lowered.find(begin)
            while at >= 0:
                match = self.pattern.match(text, at)
                if match:
                    yield match
                at = lowered.find(begin, match.end() if match else at + 1)

    def _counts(self, secret: str) -> bool:
        if self.unless is not None and self.unless.fullmatch(secret):
            return False
        return not self.min_entropy or _entropy(secret) >= self.min_entropy


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

    def scan(self, text: str) -> Scan:
        """Return a text with its secrets masked, and everything that was found."""
        return _scan(text, self._rules)

    def masked(self, text: str) -> str:
        """Return a text that may leave: secrets masked, and a blocked text replaced by the reason."""
        scan = _scan(text, self._stern)
        return f"[WITHHELD: {', '.join(scan.blocked)}]" if scan.blocked else scan.text


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
    if table.has("begins") and table.has("needs"):
        table.note("needs", "begins already says what a match needs; leave needs out")
    rule = Rule(
        id=name,
        action=actions.get(action, Action.BLOCK),
        pattern=_expression(table, "pattern"),
        begins=_fixed(table, "begins"),
        needs=_fixed(table, "needs"),
        unless=_expression(table, "unless") if table.has("unless") else None,
        min_entropy=table.number("min_entropy", default=0.0),
    )
    table.done()
    return rule


def _fixed(table: Table, name: str) -> tuple[str, ...]:
    texts = table.texts(name, default=())
    for text in texts:
        if not text or text != text.lower():
            table.note(name, f"{name} holds {text!r:.80}; write it in lower case and not empty")
    return texts


def _expression(table: Table, name: str) -> re.Pattern[str]:
    text = table.text(name)
    try:
        expression = re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        table.note(name, f"{name} is not a regular expression: {error}")
        return re.compile("")
    if expression.match(""):
        table.note(name, f"{name} matches the empty string, so it would match everywhere")
    return expression


def _scan(text: str, rules: Sequence[Rule]) -> Scan:
    if len(text) > LARGEST_TEXT or len(text.encode("utf-8", "surrogatepass")) > LARGEST_TEXT:
        refused = Finding(rule=TOO_LARGE, action=Action.BLOCK, line=0)
        return Scan(result=Result.BLOCKED, text="", findings=(refused,))
    found: dict[Action, list[tuple[str, Span]]] = {action: [] for action in Action}
    for rule, span in _matches(text, rules):
        found[rule.action].append((rule.id, span))
    if blocking := found[Action.BLOCK]:
        return Scan(result=Result.BLOCKED, text="", findings=_findings(text, blocking, Action.BLOCK))
    masks = _masks(found[Action.REDACT])
    return Scan(
        result=Result.REDACTED if masks else Result.CLEAN,
        text=_masked(text, masks),
        findings=_findings(text, masks, Action.REDACT) + _findings(text, found[Action.WARN], Action.WARN),
    )


def _matches(text: str, rules: Sequence[Rule]) -> Iterator[tuple[Rule, Span]]:
    lowered = _lowered(text)
    for rule in rules:
        for span in rule.spans(text, lowered):
            yield rule, span
    if (plain := clean_unicode(text)) is not None:
        lowered = _lowered(plain.text)
        for rule in rules:
            for span in rule.spans(plain.text, lowered):
                yield rule, plain.origin(*span)


def _lowered(text: str) -> str:
    """Return the text in lower case at the same length: İ is the one letter whose lower case is two characters."""
    return text.replace("\u0130", "I").lower()


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


def _entropy(text: str) -> float:
    return -sum(count / len(text) * math.log2(count / len(text)) for count in Counter(text).values())

"""Texts sent to a forge have no effects and hide nothing."""

import time

import pytest

from orchestrator.integrations.forges.texts import LONGEST_BODY, neutralize, one_line

BREAK = "\u200b"


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("&#64;team &#x40;team &commat;team", f"&{BREAK}#64;team &{BREAK}#x40;team &{BREAK}commat;team"),
        ("a &lt;b&gt; &amp; &quot;c&quot; & d", "a &lt;b&gt; &amp; &quot;c&quot; & d"),
        ("`@team` and @team, not me@example.org", f"`@{BREAK}team` and @{BREAK}team, not me@example.org"),
        ("fixes [#1](x)", f"fixes {BREAK}[#1](x)"),
        ("Closes: **#1** resolves _a/b#2_", f"Closes: {BREAK}**#1** resolves {BREAK}_a/b#2_"),
        (r"fixes \#1 fixes <https://x/1>", rf"fixes {BREAK}\#1 fixes {BREAK}<{BREAK}https://x/1>"),
        ("fixed in [a](b)", "fixed in [a](b)"),
        ("![x](https://evil.test/?a=1)", f"!{BREAK}[x](https://evil.test/?a=1)"),
        ('<img src="https://evil.test">', f'<{BREAK}img src="https://evil.test">'),
        ("<details>x</details>", f"<{BREAK}details>x<{BREAK}/details>"),
        ("1 < 2 <= 3", "1 < 2 <= 3"),
        ("[//]: # (unseen)", f"[//]{BREAK}: # (unseen)"),
        ("> [a\nb]: <> 'unseen'", f"> [a\nb]{BREAK}: <> 'unseen'"),
    ],
)
def test_a_text_has_no_effect_and_shows_what_it_hides(text: str, sent: str) -> None:
    assert neutralize(text) == sent


def test_a_title_keeps_its_angle_brackets() -> None:
    assert one_line("Read Vec<T>\nfor @team") == f"Read Vec<T> for @{BREAK}team"


@pytest.mark.parametrize("piece", ["fixes ", "a/", "fixes a/", "fixes [[", "&a", "]:", "!<", "@", "\n /", "[", "a-.a"])
def test_a_long_text_is_made_harmless_in_linear_time(piece: str) -> None:
    before = time.thread_time()
    neutralize(piece * (8 * LONGEST_BODY // len(piece)))
    assert time.thread_time() - before < 3

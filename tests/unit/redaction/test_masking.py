"""Provided values are found in any form in which they appear, and lines of JSON stay valid."""

import ast
import base64
import inspect
import json
import re
from urllib.parse import quote

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from orchestrator.agents import claude, markers, messages, outcome
from orchestrator.core.events import agent_messages
from orchestrator.processes.masking import Mask
from orchestrator.redaction import masking
from orchestrator.redaction.masking import forms, is_secret, masks_of, names_in, why_unmasked

SECRET = "s3cr3t-Välue/+!"
KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\n-----END PRIVATE KEY-----\n"
values = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=6, max_size=20)


def masked(text: str, given_values: dict[str, str], *, is_json: bool = False, cut: int = 1 << 20) -> str:
    """Return the text as a holder would write it, when it comes in pieces of this many bytes."""
    masks = masks_of(given_values)
    pairs = [list(pair) for pair in (masks.json if is_json else masks.plain)]
    mask, content = Mask(pairs, is_json=is_json), text.encode()
    pieces = [mask.push(content[at : at + cut]) for at in range(0, len(content), cut)]
    return b"".join([*pieces, mask.flush()]).decode()


@pytest.mark.parametrize(
    "said",
    [
        SECRET,
        f"it is {SECRET}, I think",
        json.dumps({"text": SECRET}),
        json.dumps({"text": SECRET}, ensure_ascii=False),
        json.dumps({"result": json.dumps({"text": f'a "{SECRET}"'})}),
        quote(SECRET, safe=""),
        base64.b64encode(SECRET.encode()).decode(),
        base64.b64encode(f"{SECRET}\n".encode()).decode(),
        base64.b64encode(f"me:{SECRET}".encode()).decode(),
        base64.b64encode(f"you:{SECRET} and more".encode()).decode(),
        base64.urlsafe_b64encode(f"user:{SECRET}".encode()).decode(),
    ],
)
def test_a_value_is_masked_in_every_documented_form(said: str) -> None:
    assert "<TOKEN>" in masked(said, {"TOKEN": SECRET})
    assert names_in(said.encode(), {"OTHER": "something else", "TOKEN": SECRET}) == ("TOKEN",)


def test_a_file_is_masked_however_it_is_printed() -> None:
    numbered = "".join(f"{number:6}\t{line}\n" for number, line in enumerate(KEY.splitlines(), 1))
    shown = masked(json.dumps({"content": numbered}), {"KEY": KEY}, is_json=True)
    assert json.loads(shown)["content"].split() == ["1", "<KEY>", "2", "<KEY>", "3", "<KEY>", "4", "<KEY>"]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("short", "fewer than 6 characters"),
        ("12345678", "a number"),
        ("-1.5e+300", "a number"),
        ("null,true", "a number"),
        ("message", "a word that occurs in every line"),
        ("ssista", "a word that occurs in every line"),
        ("one line\nanother", "none of its lines"),
        ("s3cr3t", ""),
        ("production", ""),
        (KEY, ""),
    ],
)
def test_an_unsuitable_value_is_refused_with_a_reason(value: str, why: str) -> None:
    assert why in why_unmasked(value)
    assert bool(why) is bool(why_unmasked(value))
    assert bool(forms(value)) is not bool(why)


def test_no_word_that_the_parsers_look_for_is_ever_masked() -> None:
    modules = (claude, markers, messages, outcome, agent_messages)
    trees = [ast.parse(inspect.getsource(module)) for module in modules]
    texts = {node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    words = {text for text in texts if isinstance(text, str) and re.fullmatch(r"[A-Za-z_]{6,}", text)}
    assert len(words) > 50
    assert {word for word in words if not why_unmasked(word)} == set()


@given(st.data(), values)
def test_chunk_boundaries_make_no_difference(data: st.DataObject, value: str) -> None:
    assume(not why_unmasked(value))
    around = st.text(st.sampled_from([*value, "\\", '"', "\n", "x"]), max_size=12)
    parts = data.draw(st.lists(st.one_of(around, st.just(value)), max_size=8))
    text = "".join(parts)
    for is_json in (False, True):
        whole = masked(text, {"A": value}, is_json=is_json)
        for cut in (1, 2, 3, 7):
            assert masked(text, {"A": value}, is_json=is_json, cut=cut) == whole


@given(values, st.text(max_size=30), st.sampled_from(["", "\n", "\t", "\\", '"', "\x07", "\\\\"]))
def test_a_line_of_json_stays_valid_and_does_not_reveal_the_value(value: str, around: str, before: str) -> None:
    assume(not why_unmasked(value))
    said = {"type": "assistant", "n": [1, 2.5, None, True], "text": f"{around}{before}{value}{around}{value[1:]}"}
    for only_ascii in (False, True):
        shown = masked(json.dumps(said, ensure_ascii=only_ascii), {"A": value}, is_json=True, cut=5)
        again = json.loads(shown)
        assert list(again) == ["type", "n", "text"]
        assert (again["type"], again["n"]) == (said["type"], said["n"])
        assert all(value not in left for left in again["text"].split("<A>"))


def test_an_escape_that_only_looks_like_the_start_of_a_value_stays() -> None:
    said = json.dumps({"text": "a\nightmare99 and a nightmare99 and \\nightmare99"})
    shown = masked(said, {"A": "nightmare99"}, is_json=True)
    assert json.loads(shown)["text"] == "a\nightmare99 and a <A> and \\<A>"


@pytest.mark.parametrize("cut", [1, 5, 8, 10_000])
def test_the_digits_of_an_escape_are_not_part_of_a_value(cut: int) -> None:
    said = json.dumps({"text": "\x050000; and 50000; and \x0550000; and \\u00050000;"})
    shown = masked(said, {"A": "50000;"}, is_json=True, cut=cut)
    assert json.loads(shown)["text"] == "\x050000; and <A> and \x05<A> and \\u000<A>"


def test_longer_values_take_precedence_over_their_parts() -> None:
    assert masked("hunter2-hunter2 hunter2", {"PART": "hunter2", "ALL": "hunter2-hunter2"}) == "<ALL> <PART>"


def test_the_patterns_contain_no_line_end() -> None:
    assert not any("\n" in form for form in masking.forms(KEY))


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("API_TOKEN", "x", True),
        ("DATABASE_URL", "postgres://ada:sesame@db/x", True),
        ("DATABASE_URL", "postgres://db/x", False),
        ("MODE", "test", False),
    ],
)
def test_a_variable_is_secret_by_its_name_or_by_a_login_in_its_value(name: str, value: str, secret: bool) -> None:
    assert is_secret(name, value) is secret


@pytest.mark.parametrize(
    "said",
    [
        SECRET.encode().hex().encode(),
        SECRET.encode().hex().upper().encode(),
        SECRET.encode("utf-16"),
        SECRET.encode("utf-16-be"),
        base64.encodebytes(b"x" * 50 + SECRET.encode() + b"x" * 50),
        "\n".join(("long-" + SECRET)[at : at + 3] for at in range(0, 20, 3)).encode(),
    ],
)
def test_a_value_in_other_clothes_is_found_in_what_a_branch_adds(said: bytes) -> None:
    assert names_in(b"before " + said + b" after", {"TOKEN": SECRET, "LONG": "long-" + SECRET, "OTHER": "something"})


def test_a_hexadecimal_value_is_masked_where_it_is_printed() -> None:
    assert masked(f"it is {SECRET.encode().hex()}", {"TOKEN": SECRET}) == "it is <TOKEN>"


def test_short_words_are_not_joined_over_line_ends() -> None:
    assert names_in(b"a pass\nword1 b", {"TOKEN": "password1"}) == ()

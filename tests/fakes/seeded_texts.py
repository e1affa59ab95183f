"""What people and agents write, for seeded folders: titles, artifacts, and transcripts in the CLI's own format."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson

TITLES = (
    "Add slugify(text) to textkit",
    "Retry uploads that the storage service cut off",
    "Parse dates without a year in the German locale",
    "Show the invoice's currency in the list of payments",
    "사용자 목록에 페이지 나누기를 추가한다",
    "Remove the global lock around the thumbnail cache",
    "Report which migration failed, and at which statement",
    "Let an export of more than 2 GB continue after a restart",
    "설정 파일의 잘못된 값을 줄 번호와 함께 알린다",
    "Time out requests to the address service after five seconds",
    "Keep the order of keys when a document is written back, also of keys that only a plug-in of the importer knows",
    "Replace the hand-written tokenizer of search queries",
)
ANALYSIS = """# Analysis

The parser stops at the first token that it does not know. **Three** callers depend on that:

| caller | file | expects |
|---|---|---|
| importer | `importer/read.py` | an empty list |
| search | `search/query.py` | `QuerySyntaxError` |
| tests | `tests/test_parser.py` | both |

```python
def parse(text: str) -> list[Token]:
    return [token for token in _tokens(text) if token.kind is not Kind.SPACE]
```

* Risk: queries with quotation marks, e.g. `"a b" c`.
* 한국어 검색어는 공백으로 나뉘지 않을 수 있다.
"""
PLAN = """# Plan

## Step 1: Read the tables

Read `tokens.toml` once, at import.

## Step 2: Teach the parser

One function for each kind of token.

## Step 3: Test with real input

- [x] queries from the log of last week
- [ ] empty input
"""
DESIGN = """# Design

1. `Token` becomes a frozen dataclass.
2. `parse` yields instead of returning a list, see <https://example.org/tokens>.

> The importer reads 40,000 lines a second today; it must not become slower.
"""
REPORT = """# Test report

| check | verdict | time |
|---|---|---|
| unit_test | PASS | 12.4 s |
| lint | PASS | 0.8 s |
"""
ARTIFACTS = {"analysis.md": ANALYSIS, "plan.md": PLAN, "design-v1.md": DESIGN, "test-report.md": REPORT}
OLD_PARSER = '"""Search queries."""\n\n\ndef parse(text: str) -> list[str]:\n    return text.split(" ")\n'
NEW_PARSER = '''"""Search queries: words, phrases in quotation marks, and what must not occur."""

import shlex


def parse(text: str) -> list[str]:
    """The parts of a query. Raises ValueError where a quotation mark is not closed."""
    return shlex.split(text)
'''
FILES: Mapping[str, str] = {"search/__init__.py": "", "search/query.py": OLD_PARSER, "README.md": "# search\n"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What people and agents wrote into a seeded folder; `change` are the files that the reviewed task wrote.

    `reason` is why checks failed and a task is blocked, `said` are the texts of agents, in turn.
    """

    titles: Sequence[str] = TITLES
    ticket: str = ""
    question: str = "Should `slugify` keep letters that are not ASCII, such as ä and 한?"
    options: tuple[str, ...] = ("keep them", "drop them")
    wanted: str = "the service wants a key"
    artifacts: Mapping[str, str] = field(default_factory=lambda: ARTIFACTS)
    change: Mapping[str, str] = field(
        default_factory=lambda: {"search/query.py": NEW_PARSER, "docs/질의.md": "# 질의\n"}
    )
    subject: str = "Read quoted phrases"
    reason: str = "3 failed, 214 passed in tests/test_parser.py:41"
    said: Sequence[str] = ("I look at `parser.py`, then **test** it. 다음 단계로 간다.",)
    done: Sequence[str] = ("200 passed in 1.31s",)


NEEDLE = "needle in the transcript"
"""Is said once, in the middle of a long transcript."""
FIRST_ERROR = "ModuleNotFoundError: No module named 'textkit.tables'"


def transcript(size: int, words: Words) -> Iterator[bytes]:
    """Yield the lines of an agent's output until they have about `size` bytes: a session, its turns, and a result."""
    yield _line(
        {"type": "system", "subtype": "init", "session_id": "5" * 32, "model": "claude-opus-5-5",
         "claude_code_version": "2.1.329", "cwd": "/work", "tools": ["Bash", "Edit", "Read", "Write"]}
    )  # fmt: skip
    written, number, has_needle = 0, 0, False
    while written < size:
        for line in _round(number, words):
            written += len(line)
            yield line
        if not has_needle and written >= size // 2:
            yield _said({"type": "text", "text": f"Here is the {NEEDLE}."})
            has_needle = True
        number += 1
    yield _line(
        {"type": "result", "subtype": "success", "is_error": False, "num_turns": number, "result": "All steps done.",
         "total_cost_usd": 4.2, "duration_ms": 81_000, "usage": {"input_tokens": 10, "output_tokens": 900}}
    )  # fmt: skip


def write_transcript(folder: Path, size: int, words: Words) -> None:
    """Write the folder of an agent that has ended, with an output of about `size` bytes."""
    folder.mkdir(parents=True)
    with (folder / "stdout.jsonl").open("wb") as output:
        output.writelines(transcript(size, words))
    (folder / "exit").write_text("{}\n")


def _round(number: int, words: Words) -> Iterator[bytes]:
    """One thought, three tools and their results; every twentieth round one of them fails."""
    said, done = words.said[number % len(words.said)], words.done[number % len(words.done)]
    yield _said({"type": "text", "text": f"Round {number}: {said}"})
    listing = "".join(f"{line:4}  def case_{number}_{line}(self): ...\n" for line in range(1, 60))
    yield from _tool(number, "Read", {"file_path": "/work/search/query.py"}, listing)
    edit = {"file_path": "/work/search/query.py", "old_string": OLD_PARSER, "new_string": f"{NEW_PARSER}\n# {said}\n"}
    yield from _tool(number, "Edit", edit, "The file /work/search/query.py has been updated.")
    failed = number % 20 == 7
    output = f"\x1b[31mFAILED\x1b[0m\n{FIRST_ERROR}" if failed else done
    yield from _tool(number, "Bash", {"command": f"pytest -q # {done}"}, output, failed=failed)


def _tool(number: int, name: str, given: dict[str, str], result: str, *, failed: bool = False) -> Iterator[bytes]:
    key = f"toolu_{number:06}_{name}"
    yield _said({"type": "tool_use", "id": key, "name": name, "input": given})
    content = {"type": "tool_result", "tool_use_id": key, "content": result, "is_error": failed}
    yield _line({"type": "user", "message": {"role": "user", "content": [content]}, "session_id": "5" * 32})


def _said(content: dict[str, object]) -> bytes:
    message = {"type": "message", "role": "assistant", "model": "claude-opus-5-5", "content": [content]}
    return _line({"type": "assistant", "message": message, "parent_tool_use_id": None, "session_id": "5" * 32})


def _line(document: dict[str, object]) -> bytes:
    return orjson.dumps(document) + b"\n"

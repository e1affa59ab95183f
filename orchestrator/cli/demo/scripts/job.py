"""The small job of the demo: `slugify` for the package textkit, its test, and its paragraph in README.md."""

TICKET = """Add slugify(text)

textkit needs a function `slugify(text)` that turns a title into a part of a URL: lower case, letters and digits kept,
everything else one dash, none at the ends. It belongs in `textkit/__init__.py`, wants tests, and a few words in
README.md.
"""

REPOSITORY = {
    "textkit/__init__.py": '"""Small helpers for text."""\n\n\n'
    'def shout(text: str) -> str:\n    return text.upper() + "!"\n',
    "tests/__init__.py": "",
    "tests/test_textkit.py": "import unittest\n\nfrom textkit import shout\n\n\nclass TestShout(unittest.TestCase):\n"
    '    def test_shout(self) -> None:\n        self.assertEqual(shout("hey"), "HEY!")\n',
    "README.md": "# textkit\n\nSmall helpers for text.\n\n`shout(text)` shouts.\n",
    ".gitignore": "__pycache__/\n",
    ".orchestrator.toml": '[checks.unit_test]\ncommand = "python3 -m unittest -v"\ntimeout = 120\n',
}

MODULE, TESTS, README = "textkit/__init__.py", "tests/test_slugify.py", "./README.md"
CODE = {
    MODULE: REPOSITORY[MODULE]
    + '''

def slugify(text: str) -> str:
    """Return the words of a text in small letters, joined by single hyphens."""
    words = "".join(letter if letter.isalnum() else " " for letter in text.lower())
    return "-".join(words.split())
''',
    TESTS: """import unittest

from textkit import slugify


class TestSlugify(unittest.TestCase):
    def test_words_are_joined_by_single_hyphens(self) -> None:
        self.assertEqual(slugify(" Hello,  World!"), "hello-world")

    def test_nothing_is_left_of_punctuation(self) -> None:
        self.assertEqual(slugify("?!"), "")
""",
}
"""The function with its test."""
WORDS = {README: REPOSITORY["README.md"] + '\n`slugify("Hello,  World!")` gives `"hello-world"`.\n'}
"""What README.md says about it."""
RUN_TESTS = "python3 -B -m unittest"

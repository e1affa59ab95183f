"""Lines of crontab in people's words."""

import re
from itertools import product

import pytest

from orchestrator.server.web.line_words import line_in_words


@pytest.mark.parametrize(
    ("line", "english", "korean"),
    [
        ("0 22 * * 1-5", "Monday to Friday at 22:00", "월요일~금요일 22:00"),
        ("30 2 * * sun", "Every Sunday at 02:30", "매주 일요일 02:30"),
        ("@daily", "Every day at 00:00", "매일 00:00"),
        ("@hourly", "Every hour", "매시"),
        ("*/15 8-18 * * *", "Every 15 minutes from 08:00 to 18:59", "08:00~18:59 15분마다"),
        ("5 4 13 * 5", "On day 13 of the month and every Friday at 04:05", "매월 13일 또는 매주 금요일 04:05"),
        ("0 6 1 1-6 *", "On day 1 of the month at 06:00, January to June", "1월~6월, 매월 1일 06:00"),
        ("0 9,17 * * sat,sun", "Saturday and Sunday at 09:00 and 17:00", "토요일, 일요일 09:00, 17:00"),
    ],
)
def test_a_line_is_said_in_both_languages(line: str, english: str, korean: str) -> None:
    assert (line_in_words(line, "en"), line_in_words(line, "ko")) == (english, korean)


def test_a_line_without_short_words_is_left_as_it_is() -> None:
    assert line_in_words("3 1-7 * * *", "en") == ""
    assert line_in_words("<b>x</b>", "en") == ""


def test_no_english_is_left_in_korean() -> None:
    fields = (["0", "*/5"], ["22", "*", "*/2", "8-12"], ["*", "1", "1-3"], ["*", "2", "3-9"], ["*", "1", "1-5", "6,0"])
    for parts in product(*fields):
        assert not re.search("[a-z]", line_in_words(" ".join(parts), "ko"), re.IGNORECASE), parts

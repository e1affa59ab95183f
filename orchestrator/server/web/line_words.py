"""Lines of crontab in people's words, in the languages of the pages."""

from collections.abc import Iterable, Sequence
from functools import lru_cache

from orchestrator.core.schedule.line_shape import LineShape, is_run, shape_of
from orchestrator.server.web.languages import translate

WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


@lru_cache(1000)
def line_in_words(line: str, language: str) -> str:
    """Return when a line is due; "" for a line that cannot be said in a few words."""
    shape = shape_of(line)
    if shape is None:
        return ""
    said = _Said(language)
    days, times, months = said.days(shape), said.times(shape), said.named(shape.months, MONTHS, first=1)
    text = said.of("%(days)s %(times)s", days=days, times=times).strip()
    text = said.of("%(text)s, %(months)s", text=text, months=months) if months else text
    return text[:1].upper() + text[1:]


class _Said:
    """The parts of a line in one language."""

    def __init__(self, language: str) -> None:
        self.language = language

    def of(self, text: str, /, **values: object) -> str:
        return translate(self.language, text, "times") % values

    def times(self, shape: LineShape) -> str:
        if shape.clocks:
            clocks = self._listed([f"{hour:02}:{minute:02}" for hour, minute in shape.clocks])
            return self.of("at %(clocks)s", clocks=clocks)
        if shape.every_hours:
            text = self.of("every hour" if shape.every_hours == 1 else "every %(count)s hours", count=shape.every_hours)
            return self.of("%(text)s at minute %(minute)s", text=text, minute=shape.minute) if shape.minute else text
        first, last = shape.hours
        text = self.of(
            "every minute" if shape.every_minutes == 1 else "every %(count)s minutes", count=shape.every_minutes
        )
        if (first, last) == (0, 23):
            return text
        return self.of("%(text)s from %(first)s to %(last)s", text=text, first=f"{first:02}:00", last=f"{last:02}:59")

    def days(self, shape: LineShape) -> str:
        of_week = sorted(shape.weekdays, key=lambda day: (day - 1) % 7)
        week = ""
        if len(of_week) == 1:
            week = self.of("every %(day)s", day=self.of(WEEKDAYS[of_week[0]]))
        elif of_week:
            week = self.named([(day - 1) % 7 for day in of_week], (*WEEKDAYS[1:], WEEKDAYS[0]))
        month = ""
        if shape.monthdays:
            month = self.of("on day %(days)s of the month", days=self._numbers(shape.monthdays))
        if week and month:
            return self.of("%(month)s and %(week)s", month=month, week=week)
        return week or month or (self.of("every day") if shape.clocks else "")

    def named(self, values: Sequence[int], names: Sequence[str], first: int = 0) -> str:
        """Return names as a list, or as the first and the last of a run."""
        if is_run(values):
            start, end = (self.of(names[value - first]) for value in (values[0], values[-1]))
            return self.of("%(first)s to %(last)s", first=start, last=end)
        return self._listed([self.of(names[value - first]) for value in values])

    def _numbers(self, values: Sequence[int]) -> str:
        if is_run(values):
            return self.of("%(first)s to %(last)s", first=values[0], last=values[-1])
        return self._listed(map(str, values))

    def _listed(self, parts: Iterable[str]) -> str:
        *before, last = list(parts) or [""]
        return self.of("%(before)s and %(last)s", before=", ".join(before), last=last) if before else last

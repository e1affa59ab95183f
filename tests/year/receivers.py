"""What is behind the network: the receivers of webhooks, which refuse, fail, are busy, slow, or whose answer is lost.

This takes the place of httpx's transport, so everything up to the bytes on the wire is the daemon's own.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import cycle
from random import Random

import httpx
import orjson

from tests.year.virtual_loop import PROCESS, Process

RETRY_AFTER = 1800
TIME_TO_WRITE = timedelta(seconds=2)
A_MONTH = 28.0


class Answer(StrEnum):
    """How a receiver answers."""

    TAKEN = "taken"
    REFUSED = "refused"
    ERROR = "500"
    BUSY = "429"
    SLOW = "slow"
    LOST = "answer lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """A receiver that answers like this from one time until another."""

    channel: str
    begin: datetime
    end: datetime
    answer: Answer


@dataclass(slots=True, kw_only=True)
class Receipt:
    """A notice that a receiver took from a process of the daemon, which may have been killed before it knew."""

    channel: str
    key: str
    kind: str
    sent_at: datetime
    at: datetime
    document: Mapping[str, object]
    process: Process | None
    is_answered: bool = False

    @property
    def is_known(self) -> bool:
        """Whether the daemon had the time to write down that it was taken."""
        killed_at = self.process.killed_at if self.process else None
        return self.is_answered and (killed_at is None or killed_at - self.at > TIME_TO_WRITE)


@dataclass(slots=True, kw_only=True)
class Receivers:
    """All receivers, one for each channel, at https://<channel>.invalid/."""

    troubles: Iterable[Trouble]
    clock: Callable[[], datetime]
    rng: Random
    taken: list[Receipt] = field(default_factory=list)
    tries: Counter[tuple[str, str]] = field(default_factory=Counter)

    def answer(self, channel: str, at: datetime) -> Answer:
        """Return how a receiver answers at a time: of several troubles like the one that begins last."""
        now = [one for one in self.troubles if one.channel == channel and one.begin <= at < one.end]
        return max(now, key=lambda one: one.begin).answer if now else Answer.TAKEN

    def is_well(self, channel: str, since: datetime, until: datetime) -> bool:
        """Return whether a receiver takes everything all that time."""
        of_channel = (one for one in self.troubles if one.channel == channel)
        return all(one.end <= since or one.begin >= until for one in of_channel)

    async def handle(self, request: httpx.Request) -> httpx.Response:
        """Answer a request."""
        channel, sent_at = request.url.host.partition(".")[0], self.clock()
        answer = self.answer(channel, sent_at)
        self.tries[channel, answer.value] += 1
        await asyncio.sleep(self.rng.uniform(5.0, 40.0) if answer is Answer.SLOW else self.rng.uniform(0.01, 0.4))
        match answer:
            case Answer.REFUSED:
                raise httpx.ConnectError("Connection refused")
            case Answer.ERROR:
                return httpx.Response(500, content=b"")
            case Answer.BUSY:
                return httpx.Response(429, headers={"Retry-After": str(RETRY_AFTER)}, content=b"")
            case Answer.LOST | Answer.SLOW | Answer.TAKEN:
                receipt = self._take(request, channel, sent_at)
        await asyncio.sleep(self.rng.uniform(0.01, 0.4))
        if answer is Answer.LOST and self.rng.random() < 0.5:
            raise httpx.ReadError("Connection reset by peer")
        receipt.is_answered = True
        return httpx.Response(200, content=b"")

    def _take(self, request: httpx.Request, channel: str, sent_at: datetime) -> Receipt:
        document = orjson.loads(request.content)
        receipt = Receipt(
            channel=channel,
            key=request.headers["webhook-id"],
            kind=document["type"],
            sent_at=sent_at,
            at=self.clock(),
            document=document["data"],
            process=PROCESS.get(),
        )
        self.taken.append(receipt)
        return receipt


def troubles(
    names: Iterable[str], start: datetime, days: float, rng: Random, nights: Iterable[datetime]
) -> list[Trouble]:
    """Return what goes wrong: each channel now and then for a night, two and all at once, and one of them for good.

    In a month and more each is also dead for weeks on end, and all of them for days. `nights` are evenings; from them
    on until the noon after all channels are dead at once.
    """
    channels, found = list(names), []
    answers = cycle([Answer.ERROR, Answer.BUSY, Answer.REFUSED, Answer.SLOW, Answer.LOST])
    for number, channel in enumerate(channels):
        at = start + timedelta(days=rng.uniform(0, 2))
        while at < start + timedelta(days=days):
            lasts = timedelta(hours=rng.choice((0.2, 2.0, 9.0, 9.0, 26.0)))
            found.append(Trouble(channel=channel, begin=at, end=at + lasts, answer=next(answers)))
            at += lasts + timedelta(days=rng.uniform(0.5, 5.0))
        for answer in (Answer.REFUSED, Answer.ERROR, Answer.BUSY) if days >= A_MONTH else ():
            weeks = min(21.0, days / 6)
            begin = start + timedelta(days=rng.uniform(0.1 * days, 0.9 * days - weeks))
            found.append(Trouble(channel=channel, begin=begin, end=begin + timedelta(days=weeks), answer=answer))
        if number == len(channels) - 1:
            gone = start + timedelta(days=days / 3)
            for_good = start + timedelta(days=days + 1)
            found.append(Trouble(channel=channel, begin=gone, end=for_good, answer=Answer.REFUSED))
    for evening in nights:
        end = evening + timedelta(hours=14)
        found += [Trouble(channel=name, begin=evening, end=end, answer=Answer.REFUSED) for name in channels]
    for day in range(3, round(days), 11):
        begin = start + timedelta(days=day, hours=rng.uniform(0, 24))
        end = begin + timedelta(hours=9)
        found += [Trouble(channel=name, begin=begin, end=end, answer=Answer.REFUSED) for name in channels[:2]]
    if days >= A_MONTH:
        begin = start + timedelta(days=days / 2)
        end = begin + timedelta(days=min(5.0, days / 8))
        found += [Trouble(channel=name, begin=begin, end=end, answer=Answer.ERROR) for name in channels]
    return found

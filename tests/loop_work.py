"""How much an event loop does at a stretch, counted in function calls: no load of the machine changes that."""

import sys
from asyncio.events import Handle
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

_STEP = Handle._run.__code__  # noqa: SLF001 - runs each callback, and each part of a coroutine up to where it waits
_ENDS, _CALLS = frozenset({"call", "return"}), frozenset({"call", "c_call"})


@dataclass(slots=True)
class LoopWork:
    """The most function calls between two moments at which the loop could do something else, and by what."""

    most: int = 0
    by: Counter[str] = field(default_factory=Counter)


@contextmanager
def counting_loop_work() -> Iterator[LoopWork]:
    """Count what the event loop of this thread does; for use within a coroutine."""
    work, calls = LoopWork(), Counter[str]()

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        if frame.f_code is _STEP and event in _ENDS:
            if calls.total() > work.most:
                work.most, work.by = calls.total(), Counter(dict(calls.most_common(5)))
            calls = Counter()
        elif event in _CALLS:
            calls[f"{frame.f_code.co_filename}:{frame.f_code.co_qualname}"] += 1

    sys.setprofile(count)
    try:
        yield work
    finally:
        sys.setprofile(None)

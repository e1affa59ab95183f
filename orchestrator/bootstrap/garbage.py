"""Short collections of garbage: while the garbage collector works, the whole daemon stands still.

A full collection looks at every object: a tenth of a second for what the daemon itself consists of, and more for each
thousand tasks. So it passes over what was there at the start, and over what survived a collection that took long.
Of what it passes over only cycles are never freed, and what a daemon keeps for long has hardly any.
"""

import gc
from time import thread_time

LONGEST = 0.02
"""Seconds of processor time of a full collection, above which the next ones pass over what survived it."""


def keep_collections_short() -> None:
    """Have full collections pass over what is there now, and over what makes them long later."""
    began = 0.0

    def note(phase: str, about: dict[str, int]) -> None:
        nonlocal began
        if phase == "start":
            began = thread_time()
        elif about["generation"] == len(gc.get_threshold()) - 1 and thread_time() - began > LONGEST:
            gc.freeze()

    gc.freeze()
    gc.callbacks.append(note)

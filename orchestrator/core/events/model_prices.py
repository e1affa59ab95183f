"""What a call to a model costs, for estimates while a turn runs; the CLI's own total takes their place when it ends.

List prices in dollars per million tokens, as https://platform.claude.com/docs/en/about-claude/pricing gave them in
November 2026; those of Opus 5.5 are what version 2.1.329 of the CLI counts. Reading from a cache costs a tenth of the
input, writing to it 1.25 times as much, or twice if it is kept for an hour. A model that is not in the table is taken
for the dearest: so a cap is met too early rather than too late.
"""

import re
from typing import Final

from orchestrator.core.events.agent_events import TokenUsage

PRICES: Final[tuple[tuple[str, float, float], ...]] = (
    (r"fable|mythos", 10.0, 50.0),
    (r"opus-4(?:-[01])?(?:-\d{8}|$)|3-opus", 15.0, 75.0),
    (r"opus-5-[5-9]", 4.0, 20.0),
    (r"opus", 5.0, 25.0),
    (r"sonnet", 3.0, 15.0),
    (r"haiku", 1.0, 5.0),
)
"""A pattern in the model's name, the price of its input and of its output; the first that fits counts."""
CACHE_READ, CACHE_WRITE, HOUR_CACHE_WRITE = 0.1, 1.25, 2.0
"""Multiples of the price of input."""
DEAREST: Final = max((price[1:] for price in PRICES), key=lambda price: price[1])


def prices_of(model: str) -> tuple[float, float]:
    """Return the prices of a model's input and output."""
    return next(((given, written) for name, given, written in PRICES if re.search(name, model)), DEAREST)


def cost_of(used: TokenUsage, written: int) -> float:
    """Return what one message costs in dollars if it has this many tokens of output, or as many as it reports."""
    input_price, output_price = prices_of(used.model)
    given = (
        used.input_tokens
        + used.cache_read_tokens * CACHE_READ
        + (used.cache_write_tokens - used.hour_cache_tokens) * CACHE_WRITE
        + used.hour_cache_tokens * HOUR_CACHE_WRITE
    )
    return (given * input_price + max(written, used.output_tokens) * output_price) / 1_000_000

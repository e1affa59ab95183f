"""Estimates of what a running turn costs."""

import pytest

from orchestrator.core.events.agent_events import TokenUsage
from orchestrator.core.events.model_prices import DEAREST, cost_of, prices_of


@pytest.mark.parametrize(
    ("model", "prices"),
    [
        ("claude-opus-5-5", (4, 20)),
        ("claude-opus-5", (5, 25)),
        ("claude-opus-4-5-20251101", (5, 25)),
        ("us.anthropic.claude-opus-4-6-v1:0", (5, 25)),
        ("claude-opus-4-1-20250805", (15, 75)),
        ("claude-opus-4-20250514", (15, 75)),
        ("claude-3-opus-20240229", (15, 75)),
        ("claude-sonnet-4-5", (3, 15)),
        ("claude-haiku-4-5-20251001", (1, 5)),
        ("claude-fable-5-1", (10, 50)),
        ("another-vendors-model", DEAREST),
        ("", (15, 75)),
    ],
)
def test_a_model_is_known_by_its_family_and_an_unknown_one_is_taken_for_the_dearest(
    model: str, prices: tuple[float, float]
) -> None:
    assert prices_of(model) == prices


def test_caches_are_cheap_to_read_and_dear_to_write_and_output_that_was_written_counts_before_it_is_reported() -> None:
    million = 1_000_000

    def cost(written: int = 0, **used: int) -> float:
        counts = {"input_tokens": 0, "output_tokens": 0, **used}
        return cost_of(TokenUsage(message_id="m", model="claude-opus-5", **counts), written)

    assert cost(input_tokens=million) == 5
    assert cost(cache_read_tokens=million) == 0.5
    assert cost(cache_write_tokens=million) == 6.25
    assert cost(cache_write_tokens=million, hour_cache_tokens=million) == 10
    assert cost(output_tokens=million) == cost(written=million, output_tokens=7) == 25

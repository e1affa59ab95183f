"""What is said of time zones that are none."""

import pytest

from orchestrator.settings.sections.windows import zone_of


@pytest.mark.parametrize(("name", "said"), [("Mars", "such as Europe/Berlin"), ("Europe/Berlyn", "did you mean")])
def test_a_time_zone_that_is_none_is_answered_with_few_names(name: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as raised:
        zone_of(name)
    assert len(str(raised.value)) < 150

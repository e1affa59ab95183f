"""Fields that are shown with secrets masked: whether saving what was typed would store a mask in a secret's place."""

from orchestrator.redaction.rules import masks_in

MASKED = (
    "a secret of this field is shown masked and would be lost; write it in again in the mask's place, "
    "or leave the field as it was"
)


def as_sent(text: str) -> str:
    """Return a text with its line ends as a form's text is kept, however a browser sends them."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def as_line(text: str) -> str:
    """Return a text as a field of one line has it: browsers leave line ends out."""
    return "".join(as_sent(text).split("\n")).strip()


def adds_mask(typed: str, stored: str) -> bool:
    """Return whether a typed text has a mask that the stored text does not have."""
    return not set(masks_in(typed)) <= set(masks_in(stored))

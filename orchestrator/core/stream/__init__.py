"""Bytes of an agent → neutral events: framing cuts lines, claude gives them meaning, neutral holds the meanings."""

"""Bytes of an agent → neutral events: framing cuts lines, claude gives them meaning, neutral holds the meanings.

What an agent says to us in its own text: markers finds it, messages reads it, said holds it. reset_text reads clocks.
"""
